//! Parts of the operators' handlers that balancers and nodes share: queries and refusals.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use signaling_admin::servers::ViewName;
use signaling_membership::View;

use crate::http::Refused;

/// Extractor of a query string: its fields, or the reason why it is invalid. [`query`] unwraps it.
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

/// Returns the refusal of an invalid request, with its reason: 400 `bad_request`.
pub fn bad_request(message: String) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "bad_request", message)
}

/// Returns the hash and the number of nodes of a view, which operators compare.
pub fn view_name(view: &View) -> ViewName {
    ViewName::new(view.hash(), view.len())
}
