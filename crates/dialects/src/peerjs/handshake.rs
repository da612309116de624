//! Checks of a PeerJS client's query, and the session that it opens.

use std::convert::Infallible;
use std::str::FromStr;

use signaling_protocol::ClientId;

use super::{PeerJs, fits};
use crate::request::{Answer, Head, HttpAnswer, Lifetime, Opening, Rejection};
use crate::translator::Close;
use crate::{Dialect, Settings, name, query};

const INCOMPLETE: &str = r#"{"type":"ERROR","payload":{"msg":"No id, token, or key supplied to websocket server"}}"#;
const ID_TAKEN: &str = r#"{"type":"ID-TAKEN","payload":{"msg":"ID is taken"}}"#;
const INVALID_KEY: &str = r#"{"type":"ERROR","payload":{"msg":"Invalid key provided"}}"#;

/// Keys that PeerJS clients may use (`--peerjs-keys`). Clients with different keys do not share ids
/// and cannot reach each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// Any key.
    Any,
    /// These keys, compared byte by byte.
    Only(Vec<String>),
}

impl Default for Keys {
    /// Only `peerjs`, the key that PeerJS clients use unless they set one.
    fn default() -> Self {
        Self::Only(vec!["peerjs".to_owned()])
    }
}

impl FromStr for Keys {
    type Err = Infallible;

    /// Reads keys separated by commas, or `any`. Never fails. Spaces belong to the keys, and no
    /// client has an empty one.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "any" => Self::Any,
            keys => Self::Only(keys.split(',').map(str::to_owned).collect()),
        })
    }
}

impl Keys {
    /// Returns `true` if a request below the root of the listener is one of a client with the path
    /// `/`: `segment` is an accepted key, not decoded, and `rest` the path behind it.
    pub(crate) fn are_asked(&self, segment: &str, rest: &str) -> bool {
        let is_key = || self.accepts(&String::from_utf8_lossy(&query::unescape(segment, b'%')));
        matches!(rest, "/id" | "/peers") && is_key()
    }

    fn accepts(&self, key: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(keys) => keys.iter().any(|accepted| accepted == key),
        }
    }
}

/// Returns the answer to an upgrade request: the session, or a refusal. Without an id, token or
/// accepted key the refusal is a frame behind the upgrade. An id over 512 bytes gets 400; JSON's
/// escapes count.
pub(super) fn handshake(settings: &Settings, head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let field = |name| query::field(head.query, name).filter(|value| !value.is_empty());
    let (Some(id), Some(token), Some(key)) = (field("id"), field("token"), field("key")) else {
        return Answer::Reject(rejection(INCOMPLETE));
    };
    if !settings.peerjs_keys.accepts(&key) {
        return Answer::Reject(rejection(INVALID_KEY));
    }
    let parts = [key.as_str(), id.as_str()];
    let client_id = ClientId::new(&name::internal(Dialect::PeerJs, &parts));
    let Some(client_id) = client_id.ok().filter(|_| fits(&id)) else {
        let body = "The id is too long";
        return Answer::Http(HttpAnswer::new(400, "text/plain; charset=utf-8", body));
    };
    // A renewed JWT has the same subject, which the edge requires to be the id.
    let secret = if settings.tokens { &id } else { &token };
    Answer::Upgrade(Box::new(Opening {
        client_id,
        credential: Some(name::credential(Dialect::PeerJs, &parts, secret)),
        lifetime: Lifetime::EndsWithCloseFrame,
        token: Some(token),
        subject: Some(id.clone()),
        if_taken: Some(rejection(ID_TAKEN)),
        translator: Box::new(PeerJs::new(key, &id, random)),
    }))
}

fn rejection(frame: &str) -> Rejection {
    Rejection { frame: frame.to_owned(), close: Close::EMPTY }
}
