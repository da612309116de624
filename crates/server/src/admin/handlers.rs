//! Parts of the operators' handlers that balancers and nodes share: queries, names and refusals.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::servers::ViewName;
use signaling_core::View;
use signaling_protocol::{ClientId, NameError};

use crate::http::Refused;

/// Extractor of a query string: its fields, or the reason why it is invalid.
pub type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// Answers with the OpenAPI document of all operator routes, as JSON.
pub async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], signaling_admin::OPENAPI_DOCUMENT)
}

/// Returns the fields of a query string.
///
/// # Errors
/// 400 `bad_request` with the reason if the query is invalid.
pub fn query<T>(parsed: QueryResult<T>) -> Result<T, Refused> {
    parsed.map(|Query(query)| query).map_err(|rejection| bad_request(rejection.body_text()))
}

/// Parses a client id, which a request has in its path.
///
/// # Errors
/// 400 `bad_name` with the reason if it is no valid client id.
pub fn parse_client_id(name: &str) -> Result<ClientId, Refused> {
    ClientId::new(name).map_err(bad_name)
}

/// Returns the refusal of an invalid name: 400 `bad_name` with the reason.
#[must_use]
pub fn bad_name(error: NameError) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "bad_name", format!("a name {error}"))
}

/// Returns the refusal of an invalid request, with its reason: 400 `bad_request`.
#[must_use]
pub fn bad_request(message: String) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "bad_request", message)
}

/// Returns the hash and the size of a view, which operators compare.
#[must_use]
pub fn view_name(view: &View) -> ViewName {
    ViewName::new(view.hash(), view.len())
}
