//! The mesh secret, which all servers of a mesh share. `secrets` reads it from its file.

use std::fmt;

use ring::hmac;
use signaling_wire::resume;

use crate::root_key::RootKey;

/// Contexts of the keys. Another version of a key's use needs another context.
const BETWEEN_SERVERS: &str = "signaling between servers v1";
const RESUME_TOKENS: &str = "signaling resume tokens v1";

/// The keys that follow from a mesh secret, which itself is not kept. Prints as `***`.
#[derive(Clone)]
pub struct MeshSecret {
    between_servers: hmac::Key,
    resume_tokens: resume::Key,
}

impl MeshSecret {
    /// Creates the keys from the text of a secret, at least 32 bytes in hexadecimal or base64. A
    /// text of hexadecimal digits alone is hexadecimal.
    ///
    /// # Errors
    /// If the text is neither or shorter. The error names the command that makes a secret, and
    /// never quotes the text.
    pub fn new(text: impl AsRef<[u8]>) -> Result<Self, String> {
        let root = RootKey::parse(text.as_ref())?;
        Ok(Self {
            between_servers: hmac::Key::new(hmac::HMAC_SHA256, &root.derive(BETWEEN_SERVERS)?),
            resume_tokens: resume::Key::new(root.derive(RESUME_TOKENS)?),
        })
    }

    /// Returns the key of HMACs between servers.
    pub fn between_servers(&self) -> &hmac::Key {
        &self.between_servers
    }

    /// Returns the key of resume tokens.
    pub fn resume_tokens(&self) -> &resume::Key {
        &self.resume_tokens
    }
}

impl PartialEq for MeshSecret {
    fn eq(&self, other: &Self) -> bool {
        self.resume_tokens == other.resume_tokens
    }
}

impl Eq for MeshSecret {}

impl fmt::Debug for MeshSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn hex(bytes: impl AsRef<[u8]>) -> String {
        bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The values are of Python: HMAC-SHA256(HMAC-SHA256(32 zeros, secret), context + 1).
    #[test]
    fn keys_follow_from_the_secret_by_hkdf() {
        let secret = MeshSecret::new(TEXT).unwrap();
        let resume_tokens = "b3e4664688255f40d20c375f2eb69224eda9ed64658cb1e3bcf9c73e3f434d6e";
        assert_eq!(hex(secret.resume_tokens().as_bytes()), resume_tokens);
        let signed_x = "d85a487b6ed1c92a26f2f0f2a2a997ebddc5e0b5678ed9d693bc8d43f285e63e";
        assert_eq!(hex(hmac::sign(secret.between_servers(), b"x")), signed_x);
    }

    #[test]
    fn secret_equals_only_itself() {
        let secret = MeshSecret::new(TEXT).unwrap();
        assert_eq!(secret, MeshSecret::new(TEXT.to_uppercase()).unwrap());
        assert_ne!(secret, MeshSecret::new(TEXT.replace('0', "1")).unwrap());
    }

    #[test]
    fn secret_is_never_printed() {
        let secret = MeshSecret::new(TEXT).unwrap();
        assert_eq!(format!("{secret:?} {:?}", secret.resume_tokens()), "*** ***");
    }
}
