//! Pages of other origins may read what this listener answers over HTTP, if they may connect: why they are refused, above all. The
//! headers are those of the Fetch Standard's CORS protocol.

use axum::body::Body;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Request, Response, StatusCode};

use crate::identity::Origins;

/// How long a browser may go by the answer to its question, in seconds.
const MAX_AGE: &str = "600";

/// Whether a browser asks if its page may send a request at all.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What may be sent. From where, [`allow`] says. It ends the connection, as every answer but an
/// upgrade does here.
pub(super) fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The origin of a request, if its pages may read the answer.
pub(super) fn origin_allowed<B>(origins: &Origins, request: &Request<B>) -> Option<HeaderValue> {
    request.headers().get(ORIGIN).filter(|_| origins.admit(request.headers())).cloned()
}

/// Says on an answer whose pages may read it.
pub(super) fn allow(response: &mut Response<Body>, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn asks(origin: &str) -> Request<()> {
        let request = Request::options("/v1/connect").header(ORIGIN, origin);
        request.header(ACCESS_CONTROL_REQUEST_METHOD, "GET").body(()).unwrap()
    }

    #[test]
    fn only_pages_that_may_connect_may_read_answers() {
        let origins = Origins::new(&["https://app.example".to_owned()]).unwrap();
        for (origin, allowed) in [("https://app.example", true), ("https://evilapp.example", false), ("null", false)] {
            let request = asks(origin);
            assert!(is_preflight(&request));
            let mut response = preflight();
            allow(&mut response, origin_allowed(&origins, &request));
            assert_eq!(
                (response.status().as_u16(), &response.headers()[VARY]),
                (204, &"origin".parse::<HeaderValue>().unwrap())
            );
            let said = response.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN);
            assert_eq!(said.map(HeaderValue::as_bytes), allowed.then_some(origin.as_bytes()));
        }
    }
}
