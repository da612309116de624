//! The resume token, the proof that a client owns a session.
//!
//! It is base64url without padding (RFC 4648, section 5) of three fields: the session (16 bytes),
//! the expiry (8 bytes, seconds since 1970, big-endian) and an HMAC-SHA256 (RFC 2104). The HMAC
//! has a key of all nodes, and covers a constant, both other fields and the client id. The key
//! follows from the mesh secret, so a token shows nothing of the secret. Nodes issue and verify
//! tokens. They are opaque to clients.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use signaling_protocol::ClientId;

use crate::SessionId;

const CONTEXT: &[u8] = b"signaling resume token v1";
const MAC_AT: usize = 24;
const TOKEN_BYTES: usize = MAC_AT + 32;

/// The key of resume tokens, derived from the mesh secret for this purpose alone. Prints as `***`.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Creates a key from its bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Key {
    /// Takes the same time for all keys.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn mac(key: &Key, client_id: &ClientId, front: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).ok()?;
    mac.update(CONTEXT);
    mac.update(front);
    mac.update(client_id.as_str().as_bytes());
    Some(mac)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Returns the resume token of a client's session. It is valid until `expiry`, rounded down to a
/// whole second, also after later tokens of the session.
pub fn issue(key: &Key, client_id: &ClientId, session: SessionId, expiry: SystemTime) -> String {
    let mut token = Vec::with_capacity(TOKEN_BYTES);
    token.extend_from_slice(&session.0);
    token.extend_from_slice(&seconds(expiry).to_be_bytes());
    if let Some(mac) = mac(key, client_id, &token) {
        token.extend_from_slice(&mac.finalize().into_bytes());
    }
    URL_SAFE_NO_PAD.encode(token)
}

/// Returns the session of a token. `None`: it is malformed, forged, of another client or key, or
/// expired at `now`.
pub fn verify(key: &Key, client_id: &ClientId, token: &str, now: SystemTime) -> Option<SessionId> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    let length = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
    if length != TOKEN_BYTES {
        return None;
    }
    let (front, tag) = bytes.split_at(MAC_AT);
    mac(key, client_id, front)?.verify_slice(tag).ok()?;
    let (session, expiry) = front.split_at(16);
    let expiry = u64::from_be_bytes(expiry.try_into().ok()?);
    (seconds(now) < expiry).then_some(SessionId(session.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &Key = &Key([1; 32]);

    fn alice() -> ClientId {
        ClientId::new("alice").unwrap()
    }

    #[test]
    fn token_is_invalid_for_others_or_when_changed() {
        let expiry = UNIX_EPOCH + Duration::from_secs(1_000);
        let token = issue(KEY, &alice(), SessionId([7; 16]), expiry);
        assert_eq!(verify(KEY, &ClientId::new("bob").unwrap(), &token, UNIX_EPOCH), None);
        assert_eq!(verify(&Key([2; 32]), &alice(), &token, UNIX_EPOCH), None);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(verify(KEY, &alice(), &changed, UNIX_EPOCH).is_none() || changed == token, "{at}");
        }
        for junk in ["", "AAAA", &"A".repeat(500), "*"] {
            assert_eq!(verify(KEY, &alice(), junk, UNIX_EPOCH), None);
        }
    }
}
