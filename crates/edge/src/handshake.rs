//! Checks if an HTTP request may become a WebSocket, reads its offers and creates its answer. No
//! I/O. Called for clients by `shell::connect` and `shell::dialects`, and for trunks by the node.
//!
//! Only RFC 6455 section 4.2.1 and signs of request smuggling are checked, not identity or origin.

use axum::body::Body;
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use signaling_core::edge::PresentedToken;
use signaling_server::http::refusal;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The subprotocol that an answer selects if the client offered it.
pub const SUBPROTOCOL: &str = "signaling.v1";

const BEARER: &str = "bearer.";
const RESUME: &str = "resume.";
const KEY_BYTES: usize = 16;

/// A request that may be upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// Value of `Sec-WebSocket-Accept` in the answer (RFC 6455 section 4.2.2).
    pub key_accept: String,
    /// `true` if the client offered [`SUBPROTOCOL`]. Only then [`Accept::client_response`] selects
    /// it.
    pub signaling_v1: bool,
    /// The token of a `bearer.<token>` offer; `None` without one. Never echoed.
    pub bearer: Option<PresentedToken>,
    /// The token of a `resume.<token>` offer; `None` without one. Never echoed.
    pub resume: Option<PresentedToken>,
}

impl Accept {
    /// Returns the answer 101 to a client. It selects [`SUBPROTOCOL`] if the client offered it.
    #[must_use]
    pub fn client_response(&self) -> Response<Body> {
        self.response_with(self.signaling_v1.then_some(SUBPROTOCOL))
    }

    /// Returns the answer 101 that selects `subprotocol`. `None`: the answer selects none.
    #[must_use]
    pub fn response_with(&self, subprotocol: Option<&'static str>) -> Response<Body> {
        let headers = [
            (header::UPGRADE, "websocket"),
            (header::CONNECTION, "upgrade"),
            (header::SEC_WEBSOCKET_ACCEPT, &self.key_accept),
        ];
        let subprotocol = subprotocol.map(|subprotocol| [(header::SEC_WEBSOCKET_PROTOCOL, subprotocol)]);
        (StatusCode::SWITCHING_PROTOCOLS, headers, subprotocol, ()).into_response()
    }
}

/// The refusal of an upgrade. The connection must not be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({status})")]
pub struct Refused {
    /// Status of the answer.
    pub status: StatusCode,
    /// Error code: the body's `error.code`.
    pub code: &'static str,
    /// Text with error and remedy: the body's `error.message`.
    pub message: &'static str,
    /// Headers that the status requires, as (name, value).
    pub headers: &'static [(&'static str, &'static str)],
}

impl Refused {
    /// Returns the answer to the request.
    #[must_use]
    pub fn response(&self) -> Response<Body> {
        let mut response = refusal(self.status, self.code, self.message, None);
        for (name, value) in self.headers {
            response.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        response
    }

    const fn bad_request(message: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "bad_request", message, headers: &[] }
    }

    const fn upgrade_required(message: &'static str) -> Self {
        Self {
            status: StatusCode::UPGRADE_REQUIRED,
            code: "upgrade_required",
            message,
            headers: &[("upgrade", "websocket")],
        }
    }
}

/// Checks the head of a request against the rules for an upgrade.
///
/// # Errors
/// 405 for a method other than GET. 426 for an HTTP version other than 1.1, no WebSocket upgrade,
/// or a WebSocket version other than 13. 400 for a missing, empty or repeated `Host`, a body, an
/// invalid key, a non-ASCII subprotocol, or an empty or repeated token offer.
pub fn check(method: &Method, version: Version, headers: &HeaderMap) -> Result<Accept, Refused> {
    if method != Method::GET {
        return Err(Refused {
            status: StatusCode::METHOD_NOT_ALLOWED,
            code: "method_not_allowed",
            message: "open a WebSocket with GET",
            headers: &[("allow", "GET")],
        });
    }
    if version != Version::HTTP_11 {
        return Err(Refused::upgrade_required("open a WebSocket over HTTP/1.1"));
    }
    if single(headers, header::HOST).is_none_or(str::is_empty) {
        return Err(Refused::bad_request("send exactly one Host header"));
    }
    if headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING) {
        return Err(Refused::bad_request(
            "an upgrade request has no body: send neither Content-Length nor Transfer-Encoding",
        ));
    }
    if !lists(headers, header::UPGRADE, "websocket") || !lists(headers, header::CONNECTION, "upgrade") {
        return Err(Refused::upgrade_required(
            "this is a WebSocket address: send Upgrade: websocket and Connection: Upgrade",
        ));
    }
    if single(headers, header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(Refused {
            headers: &[("upgrade", "websocket"), ("sec-websocket-version", "13")],
            ..Refused::upgrade_required("this server supports only WebSocket version 13")
        });
    }
    let key = single(headers, header::SEC_WEBSOCKET_KEY)
        .filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES))
        .ok_or(Refused::bad_request("Sec-WebSocket-Key must be 16 bytes in base64, once"))?;
    let mut accept =
        Accept { key_accept: derive_accept_key(key.as_bytes()), signaling_v1: false, bearer: None, resume: None };
    read_offers(headers, &mut accept)?;
    Ok(accept)
}

/// Returns `true` if the `Upgrade` header lists `websocket`. Checks nothing else.
#[must_use]
pub fn has_websocket_upgrade(headers: &HeaderMap) -> bool {
    lists(headers, header::UPGRADE, "websocket")
}

/// Reads the offered subprotocols and ignores unknown ones.
fn read_offers(headers: &HeaderMap, accept: &mut Accept) -> Result<(), Refused> {
    for value in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL) {
        let value = value.to_str().map_err(|_| Refused::bad_request("Sec-WebSocket-Protocol must be plain ASCII"))?;
        for offer in value.split(',').map(str::trim) {
            let (slot, token) = if let Some(token) = offer.strip_prefix(BEARER) {
                (&mut accept.bearer, token)
            } else if let Some(token) = offer.strip_prefix(RESUME) {
                (&mut accept.resume, token)
            } else {
                accept.signaling_v1 |= offer == SUBPROTOCOL;
                continue;
            };
            if token.is_empty() || slot.replace(PresentedToken(token.into())).is_some() {
                return Err(Refused::bad_request(
                    "Sec-WebSocket-Protocol may offer one bearer.<token> and one resume.<token>, neither empty",
                ));
            }
        }
    }
    Ok(())
}

/// Returns the header's value if it occurs exactly once and is visible ASCII.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

/// Returns `true` if the comma-separated header, on one or more lines, has `token` in any case.
fn lists(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
