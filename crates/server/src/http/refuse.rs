//! Refusals of requests, as JSON with an error code. All HTTP handlers of both servers use them.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use signaling_protocol::NameError;

use crate::local_calls::Stopped;

/// Returns the answer to a refused request: `{"error":{"code","message"}}`.
/// Header `Retry-After` has `retry_after` in whole seconds, rounded up, at least 1; `None`: no
/// header. The answer ends the connection, so that bytes after it are not taken for a request.
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

/// Returns the status of another server's refusal and its message, for a log. `body`: the answer,
/// which may be cut off or of another program.
pub fn refusal_summary(status: StatusCode, body: &[u8]) -> String {
    let answer: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    match answer.as_ref().and_then(|answer| answer.pointer("/error/message")?.as_str()) {
        Some(message) => format!("{status}: {message}"),
        None => status.to_string(),
    }
}

/// Refusal by a handler that ends early. It becomes a [`refusal`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status.
    pub status: StatusCode,
    /// Error code, stable for programs.
    pub code: &'static str,
    /// Reason and advice, as text.
    pub message: String,
    /// Delay before a retry, for `Retry-After`. `None`: no advice.
    pub retry_after: Option<Duration>,
    /// Headers that the status requires, as (name, value).
    pub headers: &'static [(&'static str, &'static str)],
}

impl Refused {
    /// Creates a refusal without a retry or further headers.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None, headers: &[] }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = refusal(self.status, self.code, &self.message, self.retry_after);
        for (name, value) in self.headers {
            response.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        response
    }
}

impl From<Stopped> for Refused {
    fn from(stopped: Stopped) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", stopped.to_string())
    }
}

impl From<NameError> for Refused {
    fn from(error: NameError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_name", format!("a name {error}"))
    }
}

/// Answers a path that does not exist, as a router's fallback.
pub async fn not_found() -> Response {
    refusal(StatusCode::NOT_FOUND, "not_found", "this path does not exist", None)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn refusal_is_json_and_ends_the_connection() {
        let response = refusal(StatusCode::CONFLICT, "in_use", "a \"quoted\" word", None);
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        assert_eq!(response.headers()[CONNECTION], "close");
        assert!(!response.headers().contains_key(RETRY_AFTER));
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        assert_eq!(body, r#"{"error":{"code":"in_use","message":"a \"quoted\" word"}}"#);
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds() {
        for (millis, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (30_000, "30")] {
            let wait = Some(Duration::from_millis(millis));
            let response = refusal(StatusCode::SERVICE_UNAVAILABLE, "draining", "come back", wait);
            assert_eq!(response.headers()[RETRY_AFTER], seconds);
        }
    }
}
