//! ICE servers for clients: STUN and TURN servers from the operator's list, and TURN servers with
//! temporary credentials for each client.
//!
//! The credentials follow draft-uberti-behave-turn-rest-00 (`use-auth-secret` of coturn), without
//! a request to the TURN server: the user name has the expiry, the password is a MAC of the name.
//! The node's configuration calls [`parse_list`], its core [`IceServers::for_client`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha1::Sha1;
use signaling_protocol::ClientId;
use signaling_protocol::server::IceServer;

/// ICE servers for clients. Clones share the lists.
#[derive(Clone, Default)]
pub struct IceServers {
    /// Servers of the list, for all clients.
    pub fixed: Arc<[IceServer]>,
    /// TURN servers with a shared secret. `None`: none.
    pub turn: Option<Turn>,
}

/// TURN servers that share a secret with this node.
#[derive(Clone)]
pub struct Turn {
    /// Their URLs.
    pub urls: Arc<[String]>,
    /// The shared secret.
    pub secret: Arc<[u8]>,
    /// Lifetime of credentials from their creation. Their expiry is cut to a whole second.
    pub lifetime: Duration,
}

impl fmt::Debug for IceServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IceServers").field("fixed", &self.fixed.len()).field("turn", &self.turn).finish()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("urls", &self.urls).field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl IceServers {
    /// Returns the listed servers, then the TURN servers with fresh credentials, and the time in
    /// milliseconds until these end (`None`: there are none). `now` is the time of day.
    pub fn for_client(&self, client: &ClientId, now: SystemTime) -> (Vec<IceServer>, Option<u64>) {
        let turn = self.turn.as_ref().and_then(|turn| turn.for_client(client, now));
        let (turn, valid_ms) = turn.unzip();
        (self.fixed.iter().cloned().chain(turn).collect(), valid_ms)
    }
}

impl Turn {
    fn for_client(&self, client: &ClientId, now: SystemTime) -> Option<(IceServer, u64)> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = now + self.lifetime;
        let username = format!("{}:{client}", until.as_secs());
        // A key of any length will do.
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.secret).ok()?;
        mac.update(username.as_bytes());
        let credential = STANDARD.encode(mac.finalize().into_bytes());
        let valid = Duration::from_secs(until.as_secs()).saturating_sub(now);
        let server = IceServer { urls: self.urls.to_vec(), username: Some(username), credential: Some(credential) };
        Some((server, u64::try_from(valid.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// An entry of the list, in the form of `RTCPeerConnection`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    urls: Urls,
    username: Option<String>,
    credential: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Urls {
    One(String),
    Many(Vec<String>),
}

/// The error of an invalid list. It never quotes the list, which may contain passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// The text is no JSON list of objects with `urls` and optional `username` and `credential`.
    #[error(
        "must hold a JSON list of {{\"urls\",\"username\",\"credential\"}}: the fault is in line {line}, column {column}"
    )]
    Json {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, in bytes.
        column: usize,
    },
    /// An entry has no URL, or one that does not begin with `stun:`, `stuns:`, `turn:` or `turns:`
    /// and go on. Position of the entry, from 1.
    #[error("may list only addresses that begin with stun:, stuns:, turn: or turns: (entry {0}, from 1)")]
    Url(usize),
    /// A TURN server lacks `username` or `credential`. Position of the entry, from 1.
    #[error("lists a TURN server without `username` and `credential` (entry {0}, from 1)")]
    Credentials(usize),
}

/// Parses a JSON list of ICE servers, in the form that `RTCPeerConnection` takes. `urls` is a text
/// or a list. Unknown fields are errors.
///
/// # Errors
/// The first fault in the text, as [`BadList`] names them.
pub fn parse_list(content: &[u8]) -> Result<Arc<[IceServer]>, BadList> {
    let list: Vec<Listed> = serde_json::from_slice(content)
        .map_err(|error| BadList::Json { line: error.line(), column: error.column() })?;
    let server = |(at, Listed { urls, username, credential }): (usize, Listed)| {
        let urls = match urls {
            Urls::One(url) => vec![url],
            Urls::Many(urls) => urls,
        };
        // The schemes of STUN are those of RFC 7064.
        if urls.is_empty() || !urls.iter().all(|url| is_turn(url) || begins_with(url, ["stun:", "stuns:"])) {
            return Err(BadList::Url(at));
        }
        if urls.iter().any(|url| is_turn(url)) && (username.is_none() || credential.is_none()) {
            return Err(BadList::Credentials(at));
        }
        Ok(IceServer { urls, username, credential })
    };
    (1..).zip(list).map(server).collect()
}

fn begins_with(url: &str, schemes: [&str; 2]) -> bool {
    schemes.iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
}

/// Returns `true` if the URL begins with `turn:` or `turns:` (RFC 7065) and goes on.
pub fn is_turn(url: &str) -> bool {
    begins_with(url, ["turn:", "turns:"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_credentials_equal_those_of_another_implementation() {
        // printf %s 1800000000:alice | openssl dgst -sha1 -hmac north -binary | base64
        let turn = Turn {
            urls: Arc::from(["turn:turn.example:3478".to_owned()]),
            secret: Arc::from(&b"north"[..]),
            lifetime: Duration::from_secs(600),
        };
        let ice = IceServers { fixed: parse_list(br#"[{"urls":"stun:a.example"}]"#).unwrap(), turn: Some(turn) };
        let now = UNIX_EPOCH + Duration::from_millis((1_800_000_000 - 600) * 1_000 + 250);
        let told = ice.for_client(&ClientId::new("alice").unwrap(), now);
        let stun = IceServer { urls: vec!["stun:a.example".into()], username: None, credential: None };
        let turn = IceServer {
            urls: vec!["turn:turn.example:3478".into()],
            username: Some("1800000000:alice".into()),
            credential: Some("sIm7pn/teO7y3AyXGeXl/xAQR6Q=".into()),
        };
        assert_eq!(told, (vec![stun, turn], Some(599_750)));
        assert!(!format!("{ice:?}").contains("north") && !format!("{ice:?}").contains("110"), "{ice:?}");
    }

    #[test]
    fn bad_ice_list_is_explained_and_never_quoted() {
        for (list, part) in [
            (r#"{"urls":"stun:a"}"#, "line 1"),
            (r#"[{"urls":"stun:a","username":7}]"#, "line 1"),
            (r#"[{"urls":"stun:a","password":"hunter2"}]"#, "line 1"),
            (r#"[{"urls":"stun:a"},{"urls":"https://hunter2"}]"#, "entry 2"),
            (r#"[{"urls":[]}]"#, "entry 1"),
            (r#"[{"urls":"turn:"}]"#, "entry 1"),
            (r#"[{"urls":["stun:a","turn:hunter2"],"username":"u"}]"#, "without `username` and `credential` (entry 1"),
        ] {
            let message = parse_list(list.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains("hunter2"), "{list}: {message}");
        }
        let list = br#"[{"urls":["turn:a?transport=tcp","turns:a"],"username":"u","credential":"c"}]"#;
        assert_eq!(parse_list(list).unwrap().len(), 1);
    }
}
