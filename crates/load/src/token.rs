//! Client tokens of a mesh that requires them, for `fleet` and the hostile clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use signaling_devmesh::{MeshFile, TOKEN_AUDIENCE, TOKEN_ISSUER};

/// Longer than any run.
const LIFETIME: Duration = Duration::from_secs(2 * 86_400);

/// A key that signs tokens by HS256.
#[derive(Clone, Debug)]
pub(crate) struct TokenKey(hmac::Key);

impl TokenKey {
    /// Reads the key of a mesh; `None` if it requires no tokens. Fails if its file cannot be read.
    pub(crate) fn of(mesh: Option<&MeshFile>) -> Result<Option<Self>> {
        let Some(path) = mesh.and_then(|mesh| mesh.token_key_file.as_ref()) else { return Ok(None) };
        let secret = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Some(Self(hmac::Key::new(hmac::HMAC_SHA256, &secret))))
    }

    /// Returns a token of this `sub`, valid from now for two days, with all rights.
    pub(crate) fn token(&self, subject: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (issued, expiry) = (now.as_secs(), (now + LIFETIME).as_secs());
        let claims =
            json!({ "sub": subject, "aud": TOKEN_AUDIENCE, "iss": TOKEN_ISSUER, "iat": issued, "exp": expiry });
        let part = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let front = format!("{}.{}", part(json!({ "alg": "HS256", "typ": "JWT" })), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, front.as_bytes()));
        format!("{front}.{signature}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_its_claims_and_a_signature_of_the_key() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"a secret of tests, 32 bytes and more");
        let token = TokenKey(key.clone()).token("ada");

        let (front, signature) = token.rsplit_once('.').unwrap();
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        hmac::verify(&key, front.as_bytes(), &decoded(signature)).unwrap();
        let claims: Value = serde_json::from_slice(&decoded(front.split_once('.').unwrap().1)).unwrap();
        assert_eq!((&claims["sub"], &claims["iss"]), (&json!("ada"), &json!(TOKEN_ISSUER)));
        assert!(claims["exp"].as_u64() > claims["iat"].as_u64());
    }
}
