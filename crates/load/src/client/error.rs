use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::http::HeaderMap;
use tokio_tungstenite::tungstenite::http::header::RETRY_AFTER;

use super::WELCOME_TIMEOUT;

/// Failure to connect.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Address(&'static str),
    #[error("its host has no address")]
    NoHost(#[source] std::io::Error),
    #[error("cannot connect to {address}")]
    Network { address: SocketAddr, source: std::io::Error },
    #[error("refused with {status}")]
    Refused { status: u16, retry_after: Option<Duration> },
    #[error("the upgrade failed")]
    Upgrade(#[source] tungstenite::Error),
    #[error("closed with {code} before welcome")]
    Closed { code: u16, retry_after: Option<Duration> },
    #[error("lost before welcome")]
    Lost,
    #[error("its welcome is not understood")]
    Welcome(#[source] serde_json::Error),
    #[error("no welcome within {WELCOME_TIMEOUT:?}")]
    Silent,
}

impl ConnectError {
    /// Returns the wait that the server asked for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } | Self::Closed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Returns the `Retry-After` of a refusal.
pub(super) fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    Some(Duration::from_secs(headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?))
}

/// Returns the wait that a `goodbye` asks for.
pub(crate) fn retry_after_of(text: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Goodbye {
        retry_after_ms: u64,
    }
    let is_goodbye = text.starts_with("{\"type\":\"goodbye\"");
    let goodbye: Goodbye = is_goodbye.then(|| serde_json::from_str(text).ok())??;
    Some(Duration::from_millis(goodbye.retry_after_ms))
}

/// Returns the kind of an error, as a key to count by.
pub(super) fn short(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Io(error) => error.kind().to_string(),
        tungstenite::Error::Protocol(error) => error.to_string(),
        _ => "lost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_goodbye_has_a_retry_after() {
        let goodbye = r#"{"type":"goodbye","reason":"drains","retry_after_ms":750}"#;

        assert_eq!(retry_after_of(goodbye), Some(Duration::from_millis(750)));
        assert_eq!(retry_after_of(r#"{"type":"goodbye","reason":"drains"}"#), None);
        assert_eq!(retry_after_of(r#"{"type":"error","retry_after_ms":750}"#), None);
    }
}
