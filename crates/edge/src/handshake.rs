//! Checks if an HTTP request may become a WebSocket, reads its offers and creates its answer. No
//! I/O. It serves clients and trunks.
//!
//! Only RFC 6455 section 4.2.1 and signs of request smuggling are checked, not identity or origin.

use axum::body::Body;
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use signaling_core::edge::PresentedToken;
use signaling_server::http::Refused;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The subprotocol that an answer to a native client selects if the client offered it.
pub const SUBPROTOCOL: &str = "signaling.v1";

const BEARER: &str = "bearer.";
const RESUME: &str = "resume.";
const KEY_BYTES: usize = 16;

/// A request that may be upgraded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// Value of `Sec-WebSocket-Accept` in the answer (RFC 6455 section 4.2.2).
    pub key_accept: String,
    /// `true` if [`SUBPROTOCOL`] is offered. Only then [`Accept::client_response`] selects it.
    pub signaling_v1: bool,
    /// The first offer that is no token; `None` without one. Browsers and many libraries fail a
    /// connection if the answer selects none of their offers.
    pub first_offer: Option<HeaderValue>,
    /// The token of a `bearer.<token>` offer; `None` without one. Never echoed.
    pub bearer: Option<PresentedToken>,
    /// The token of a `resume.<token>` offer; `None` without one. Never echoed.
    pub resume: Option<PresentedToken>,
}

impl Accept {
    /// Returns the answer 101 to a client. It selects [`SUBPROTOCOL`] if the client offered it.
    pub fn client_response(&self) -> Response<Body> {
        self.response_with(self.signaling_v1.then_some(HeaderValue::from_static(SUBPROTOCOL)))
    }

    /// Returns the answer 101 to a client of a dialect. It selects the client's first offer.
    pub fn dialect_response(&self) -> Response<Body> {
        self.response_with(self.first_offer.clone())
    }

    /// Returns the answer 101 that selects `subprotocol`. `None`: the answer selects none.
    pub fn response_with(&self, subprotocol: Option<HeaderValue>) -> Response<Body> {
        let headers = [
            (header::UPGRADE, "websocket"),
            (header::CONNECTION, "upgrade"),
            (header::SEC_WEBSOCKET_ACCEPT, &self.key_accept),
        ];
        let subprotocol = subprotocol.map(|subprotocol| [(header::SEC_WEBSOCKET_PROTOCOL, subprotocol)]);
        (StatusCode::SWITCHING_PROTOCOLS, headers, subprotocol, ()).into_response()
    }
}

fn bad_request(message: &str) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, "bad_request", message)
}

fn upgrade_required(message: &str) -> Refused {
    let refused = Refused::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message);
    Refused { headers: &[("upgrade", "websocket")], ..refused }
}

/// Checks the head of a request against the rules for an upgrade.
///
/// # Errors
/// Returns the answer: 405 for an upgrade by a method other than GET, or a method other than GET
/// and HEAD. 426 for HTTP other than 1.1, no WebSocket upgrade, or a WebSocket version other than
/// 13. 400 for a missing, empty or repeated `Host`, a body, an invalid or repeated key, a non-ASCII
/// subprotocol, or an empty or repeated token offer.
pub fn check(method: &Method, version: Version, headers: &HeaderMap) -> Result<Accept, Refused> {
    // HEAD has the answer of GET, which is a refusal without an upgrade.
    let is_plain_head = method == Method::HEAD && !has_websocket_upgrade(headers);
    if method != Method::GET && !is_plain_head {
        let refused = Refused::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "open a WebSocket with GET");
        return Err(Refused { headers: &[("allow", "GET, HEAD")], ..refused });
    }
    if version != Version::HTTP_11 {
        return Err(upgrade_required("open a WebSocket over HTTP/1.1"));
    }
    if single(headers, header::HOST).is_none_or(str::is_empty) {
        return Err(bad_request("send exactly one Host header"));
    }
    // Some libraries send `Content-Length: 0`, which is no body (RFC 9112 section 6.3).
    if headers.get_all(header::CONTENT_LENGTH).iter().any(|length| length != "0")
        || headers.contains_key(header::TRANSFER_ENCODING)
    {
        return Err(bad_request(
            "an upgrade request has no body: send no Transfer-Encoding, and no Content-Length but 0",
        ));
    }
    if !lists(headers, header::UPGRADE, "websocket") || !lists(headers, header::CONNECTION, "upgrade") {
        return Err(upgrade_required("this is a WebSocket address: send Upgrade: websocket and Connection: Upgrade"));
    }
    if single(headers, header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(Refused {
            headers: &[("upgrade", "websocket"), ("sec-websocket-version", "13")],
            ..upgrade_required("this server supports only WebSocket version 13")
        });
    }
    let key = single(headers, header::SEC_WEBSOCKET_KEY)
        .filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == KEY_BYTES))
        .ok_or_else(|| bad_request("Sec-WebSocket-Key must be 16 bytes in base64, once"))?;
    let key_accept = derive_accept_key(key.as_bytes());
    let mut accept = Accept { key_accept, signaling_v1: false, first_offer: None, bearer: None, resume: None };
    read_offers(headers, &mut accept)?;
    Ok(accept)
}

/// Returns `true` if the `Upgrade` header lists `websocket`. Checks nothing else.
pub fn has_websocket_upgrade(headers: &HeaderMap) -> bool {
    lists(headers, header::UPGRADE, "websocket")
}

fn read_offers(headers: &HeaderMap, accept: &mut Accept) -> Result<(), Refused> {
    for value in headers.get_all(header::SEC_WEBSOCKET_PROTOCOL) {
        let value = value.to_str().map_err(|_| bad_request("Sec-WebSocket-Protocol must be plain ASCII"))?;
        for offer in value.split(',').map(str::trim) {
            let (slot, token) = if let Some(token) = offer.strip_prefix(BEARER) {
                (&mut accept.bearer, token)
            } else if let Some(token) = offer.strip_prefix(RESUME) {
                (&mut accept.resume, token)
            } else {
                accept.signaling_v1 |= offer == SUBPROTOCOL;
                if accept.first_offer.is_none() && !offer.is_empty() {
                    accept.first_offer = HeaderValue::from_str(offer).ok();
                }
                continue;
            };
            if token.is_empty() || slot.replace(PresentedToken(token.into())).is_some() {
                return Err(bad_request(
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
