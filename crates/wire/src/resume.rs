//! The resume token, the proof that a client owns a session.
//!
//! It is base64url without padding (RFC 4648, section 5) of three fields: the session (16 bytes),
//! the expiry (8 bytes, seconds since 1970, big-endian) and an HMAC-SHA256 (RFC 2104). The HMAC
//! has the mesh secret as its key, and covers a constant, both other fields and the client id.
//! Nodes issue and verify tokens. They are opaque to clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use signaling_protocol::ClientId;

use crate::SessionId;

const CONTEXT: &[u8] = b"signaling resume token v1";
const MAC_AT: usize = 24;
const TOKEN_BYTES: usize = MAC_AT + 32;

fn mac(secret: &[u8], client_id: &ClientId, front: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
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
pub fn issue(secret: &[u8], client_id: &ClientId, session: SessionId, expiry: SystemTime) -> String {
    let mut token = Vec::with_capacity(TOKEN_BYTES);
    token.extend_from_slice(&session.0);
    token.extend_from_slice(&seconds(expiry).to_be_bytes());
    if let Some(mac) = mac(secret, client_id, &token) {
        token.extend_from_slice(&mac.finalize().into_bytes());
    }
    URL_SAFE_NO_PAD.encode(token)
}

/// Returns the session of a token. `None`: it is malformed, forged, of another client or secret, or
/// expired at `now`.
pub fn verify(secret: &[u8], client_id: &ClientId, token: &str, now: SystemTime) -> Option<SessionId> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    let length = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
    if length != TOKEN_BYTES {
        return None;
    }
    let (front, tag) = bytes.split_at(MAC_AT);
    mac(secret, client_id, front)?.verify_slice(tag).ok()?;
    let (session, expiry) = front.split_at(16);
    let expiry = u64::from_be_bytes(expiry.try_into().ok()?);
    (seconds(now) < expiry).then_some(SessionId(session.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"a mesh secret of some length";

    fn alice() -> ClientId {
        ClientId::new("alice").unwrap()
    }

    #[test]
    fn token_proves_its_session_until_it_expires() {
        let session = SessionId([7; 16]);
        let expiry = UNIX_EPOCH + Duration::from_secs(1_000);
        let token = issue(SECRET, &alice(), session, expiry);
        assert_eq!(verify(SECRET, &alice(), &token, expiry - Duration::from_secs(1)), Some(session));
        assert_eq!(verify(SECRET, &alice(), &token, expiry), None);
    }

    #[test]
    fn token_is_invalid_for_others_or_when_changed() {
        let expiry = UNIX_EPOCH + Duration::from_secs(1_000);
        let token = issue(SECRET, &alice(), SessionId([7; 16]), expiry);
        assert_eq!(verify(SECRET, &ClientId::new("bob").unwrap(), &token, UNIX_EPOCH), None);
        assert_eq!(verify(b"another secret", &alice(), &token, UNIX_EPOCH), None);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(verify(SECRET, &alice(), &changed, UNIX_EPOCH).is_none() || changed == token, "{at}");
        }
        for junk in ["", "AAAA", &"A".repeat(500), "*"] {
            assert_eq!(verify(SECRET, &alice(), junk, UNIX_EPOCH), None);
        }
    }
}
