//! How a request is refused.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::ask::Stopped;

/// The answer to a refused request: `{"error":{"code","message"}}`, with `Retry-After` in whole seconds, rounded up, where
/// waiting helps. It ends the connection, so that nothing that came behind a refused request is taken for another.
#[must_use]
pub fn refusal(status: StatusCode, code: &str, message: &str, retry_after: Option<Duration>) -> Response {
    let body = json!({ "error": { "code": code, "message": message } }).to_string();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if let Some(wait) = retry_after {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
    response
}

/// Why a request is refused, for handlers that end early: becomes a [`refusal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status.
    pub status: StatusCode,
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// Where waiting helps: for how long.
    pub retry_after: Option<Duration>,
}

impl Refused {
    /// Waiting does not help.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refusal(self.status, self.code, &self.message, self.retry_after)
    }
}

impl From<Stopped> for Refused {
    fn from(stopped: Stopped) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", stopped.to_string())
    }
}

/// The answer to a path that does not exist, as a router's fallback.
pub async fn not_found() -> Response {
    refusal(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path", None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_refusal_is_json_and_ends_the_connection() {
        let response = refusal(StatusCode::CONFLICT, "in_use", "a \"quoted\" word", None);
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        assert_eq!(response.headers()[CONNECTION], "close");
        assert!(!response.headers().contains_key(RETRY_AFTER));
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        assert_eq!(body, r#"{"error":{"code":"in_use","message":"a \"quoted\" word"}}"#);
    }

    #[test]
    fn waiting_is_told_in_whole_seconds_and_never_too_short() {
        for (millis, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (30_000, "30")] {
            let wait = Some(Duration::from_millis(millis));
            let response = refusal(StatusCode::SERVICE_UNAVAILABLE, "draining", "come back", wait);
            assert_eq!(response.headers()[RETRY_AFTER], seconds);
        }
    }
}
