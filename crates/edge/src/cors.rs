//! CORS headers (Fetch Standard) on answers to connect requests, except upgrades. Pages of origins
//! that may connect can read them, above all the reasons of refusals. `connect` adds them.

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Request, Response, StatusCode};

use crate::identity::Origins;

/// Time that a browser may cache the preflight answer, in seconds.
const MAX_AGE: &str = "600";

pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the preflight answer, 204, with the allowed method and header. [`allow`] adds the
/// origin. It ends the connection, as refusals do.
pub(super) fn preflight() -> Response<Body> {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "authorization"),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
        (CONNECTION, "close"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Returns the origin of a request; `None` if it has none or one that is not allowed.
pub(super) fn origin_allowed<B>(origins: &Origins, request: &Request<B>) -> Option<HeaderValue> {
    request.headers().get(ORIGIN).filter(|_| origins.admit(request.headers())).cloned()
}

/// Lets pages of this origin read an answer; `None`: no page. The answer varies by `Origin`.
pub(super) fn allow(response: &mut Response<Body>, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
}
