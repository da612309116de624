//! Parts of the operators' handlers that both servers share.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::openapi;
use signaling_admin::servers::ViewName;
use signaling_core::View;
use signaling_protocol::{ClientId, NameError};

use crate::http::Refused;

/// Extractor of a query string: its fields, or the reason why it is invalid.
pub type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// Answers with the OpenAPI document of all routes, as JSON.
pub async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], openapi::DOCUMENT)
}

/// Returns the fields of a query string.
///
/// # Errors
/// 400 `bad_request` if the query is invalid.
pub fn query<T>(parsed: QueryResult<T>) -> Result<T, Refused> {
    parsed.map(|Query(query)| query).map_err(|rejection| bad_request(rejection.body_text()))
}

/// Parses the client id in a request's path.
///
/// # Errors
/// 400 `bad_name` if it is no valid client id.
pub fn client(name: &str) -> Result<ClientId, Refused> {
    ClientId::new(name).map_err(bad_name)
}

/// Returns the refusal of an invalid name: 400 `bad_name`.
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
