//! Token keys from a file: a secret, a public key as PEM, or a set of either as JWKS (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::ValueEnum;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

/// Minimum length of an HS256 secret in bytes: the length of the hash (RFC 7518 section 3.2).
const MIN_SECRET: usize = 32;
/// Minimum length of an RS256 modulus in bytes, as the verifier requires.
const MIN_MODULUS: usize = 256;
/// Maximum keys of one set. A token without a key id is tried with all.
const MAX_KEYS: usize = 16;

/// Signature algorithm of tokens. The operator sets it; the header of a token cannot choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256: whoever can verify can also sign.
    #[value(name = "HS256")]
    Hs256,
    /// Ed25519.
    #[value(name = "EdDSA")]
    EdDsa,
    /// ECDSA on P-256 with SHA-256.
    #[value(name = "ES256")]
    Es256,
    /// RSA (PKCS #1 v1.5) with SHA-256, of 2,048 bits or more.
    #[value(name = "RS256")]
    Rs256,
}

impl TokenAlgorithm {
    /// Returns the name that tokens use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }

    pub(super) const fn of_library(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::EdDsa => Algorithm::EdDSA,
            Self::Es256 => Algorithm::ES256,
            Self::Rs256 => Algorithm::RS256,
        }
    }
}

/// Reason why a file has no usable keys. It never quotes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file looks like JSON and is no JWK set.
    #[error("looks like JSON and is no JWK set: the fault is in line {line}, column {column}")]
    Json {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// The set has no key for the algorithm.
    #[error("has no key for {0} among its keys")]
    NoneFits(&'static str),
    /// The set has more keys than the limit.
    #[error("has more than {MAX_KEYS} keys for the algorithm")]
    TooMany,
    /// The file is no PEM.
    #[error("must hold a public key as PEM (BEGIN PUBLIC KEY) or a JWK set")]
    NoPem,
    /// The key is of another kind.
    #[error("holds a public key that is not one for {0}")]
    OtherKind(&'static str),
    /// The secret is too short.
    #[error("must hold at least {MIN_SECRET} bytes of secret, holds {0}")]
    ShortSecret(usize),
}

/// The keys of one file, each with its id if it has one.
pub(super) struct Keys(Vec<(Option<String>, DecodingKey)>);

impl Keys {
    pub(super) fn parse(algorithm: TokenAlgorithm, content: &[u8]) -> Result<Self, KeyError> {
        let text = content.trim_ascii();
        if text.starts_with(b"{") {
            return Self::of_set(algorithm, text);
        }
        let key = if algorithm == TokenAlgorithm::Hs256 { secret(text)? } else { public_key(algorithm, text)? };
        Ok(Self(vec![(None, key)]))
    }

    fn of_set(algorithm: TokenAlgorithm, text: &[u8]) -> Result<Self, KeyError> {
        // serde's own message may quote a secret.
        let set: JwkSet = serde_json::from_slice(text)
            .map_err(|error| KeyError::Json { line: error.line(), column: error.column() })?;
        let keys = set.keys.iter().filter_map(|jwk| Some((jwk.common.key_id.clone(), key_of_set(algorithm, jwk)?)));
        let keys: Vec<_> = keys.collect();
        match keys.len() {
            0 => Err(KeyError::NoneFits(algorithm.as_str())),
            1..=MAX_KEYS => Ok(Self(keys)),
            _ => Err(KeyError::TooMany),
        }
    }

    /// Returns the keys that may have signed a token with this key id. Keys without an id always
    /// match.
    pub(super) fn candidates(&self, id: Option<&str>) -> impl Iterator<Item = &DecodingKey> {
        let may_be = move |name: &Option<String>| match (name.as_deref(), id) {
            (Some(name), Some(id)) => name == id,
            _ => true,
        };
        self.0.iter().filter(move |(name, _)| may_be(name)).map(|(_, key)| key)
    }
}

fn secret(text: &[u8]) -> Result<DecodingKey, KeyError> {
    if text.len() < MIN_SECRET {
        return Err(KeyError::ShortSecret(text.len()));
    }
    Ok(DecodingKey::from_secret(text))
}

/// Returns a key of a set, if it fits the algorithm and is for signatures.
fn key_of_set(algorithm: TokenAlgorithm, jwk: &Jwk) -> Option<DecodingKey> {
    let common = &jwk.common;
    if common.key_algorithm.is_some_and(|named| named != KeyAlgorithm::from(algorithm.of_library()))
        || common.public_key_use.as_ref().is_some_and(|named| *named != PublicKeyUse::Signature)
    {
        return None;
    }
    let length = |text: &str| URL_SAFE_NO_PAD.decode(text).map_or(0, |bytes| bytes.len());
    let fits = match (algorithm, &jwk.algorithm) {
        (TokenAlgorithm::Hs256, AlgorithmParameters::OctetKey(key)) => length(&key.value) >= MIN_SECRET,
        (TokenAlgorithm::EdDsa, AlgorithmParameters::OctetKeyPair(key)) => {
            key.curve == EllipticCurve::Ed25519 && length(&key.x) == 32
        }
        (TokenAlgorithm::Es256, AlgorithmParameters::EllipticCurve(key)) => {
            key.curve == EllipticCurve::P256 && length(&key.x) == 32 && length(&key.y) == 32
        }
        (TokenAlgorithm::Rs256, AlgorithmParameters::RSA(key)) => length(&key.n) >= MIN_MODULUS,
        _ => false,
    };
    if fits { DecodingKey::from_jwk(jwk).ok() } else { None }
}

/// Reads a public key as OpenSSL writes it: SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).
///
/// The bytes before the key are constant for Ed25519 (RFC 8410) and P-256 (RFC 5480). For RSA (RFC
/// 3279) only the lengths vary.
fn public_key(algorithm: TokenAlgorithm, text: &[u8]) -> Result<DecodingKey, KeyError> {
    const ED25519: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
    const P256: &[u8] =
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
    let der = SubjectPublicKeyInfoDer::from_pem_slice(text).map_err(|_| KeyError::NoPem)?;
    let der: &[u8] = der.as_ref();
    let key = match algorithm {
        TokenAlgorithm::EdDsa => der.strip_prefix(ED25519).filter(|key| key.len() == 32).map(DecodingKey::from_ed_der),
        TokenAlgorithm::Es256 => {
            der.strip_prefix(P256).filter(|key| key.len() == 65 && key[0] == 4).map(DecodingKey::from_ec_der)
        }
        TokenAlgorithm::Rs256 => rsa_key(der).filter(|key| key.len() > MIN_MODULUS).map(DecodingKey::from_rsa_der),
        TokenAlgorithm::Hs256 => None,
    };
    key.ok_or(KeyError::OtherKind(algorithm.as_str()))
}

/// Returns the RSAPublicKey (RFC 8017 appendix A.1.1) of a SubjectPublicKeyInfo.
fn rsa_key(der: &[u8]) -> Option<&[u8]> {
    const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let (info, rest) = element(der, 0x30)?;
    let (key, end) = element(info.strip_prefix(RSA)?, 0x03)?;
    // The last byte has no unused bits.
    key.strip_prefix(b"\0").filter(|_| rest.is_empty() && end.is_empty())
}

/// Returns the content of the leading DER element if it has this kind, and the bytes behind it.
fn element(der: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = der.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
        _ => return None,
    };
    (found == kind).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ED25519: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";

    fn error(algorithm: TokenAlgorithm, content: &str) -> String {
        Keys::parse(algorithm, content.as_bytes()).err().unwrap().to_string()
    }

    fn count(keys: &Keys, id: Option<&str>) -> usize {
        keys.candidates(id).count()
    }

    #[test]
    fn what_a_file_lacks_is_said_and_never_quoted() {
        use TokenAlgorithm::{EdDsa, Es256, Hs256, Rs256};
        for (algorithm, content, part) in [
            (Hs256, "too short a secret", "at least 32 bytes of secret, holds 18"),
            (EdDsa, "0123456789abcdef0123456789abcdef", "BEGIN PUBLIC KEY"),
            (Es256, ED25519, "not one for ES256"),
            (Rs256, ED25519, "not one for RS256"),
            (Hs256, r#"{"keys":"a secret that stands in the wrong place"}"#, "no JWK set: the fault is in line 1"),
            (Hs256, r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#, "no key for HS256"),
            (EdDsa, r#"{"keys":[]}"#, "no key for EdDSA"),
        ] {
            let message = error(algorithm, content);
            assert!(message.contains(part) && !message.contains("a secret that"), "{content}: {message}");
        }
    }

    #[test]
    fn a_key_in_a_set_must_be_of_the_algorithm_and_for_signatures() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let key = |more: &str| format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"{more}}}"#);
        let set = |keys: &[String]| format!(r#"{{"keys":[{}]}}"#, keys.join(","));
        let keys = set(&[
            key(r#","kid":"a","alg":"EdDSA","use":"sig""#),
            key(r#","kid":"b","use":"enc""#),
            key(r#","kid":"c","alg":"ES256""#),
            key(r#","kid":"d""#),
        ]);
        let keys = Keys::parse(TokenAlgorithm::EdDsa, keys.as_bytes()).unwrap();
        assert_eq!(count(&keys, None), 2);
        assert_eq!([Some("a"), Some("b"), Some("d"), Some("e")].map(|id| count(&keys, id)), [1, 0, 1, 0]);
        let unnamed = Keys::parse(TokenAlgorithm::EdDsa, set(&[key("")]).as_bytes()).unwrap();
        assert_eq!(count(&unnamed, Some("whatever")), 1);
        assert_eq!(error(TokenAlgorithm::EdDsa, &set(&vec![key(""); 17])), KeyError::TooMany.to_string());
    }

    #[test]
    fn no_part_of_a_key_is_taken_for_one() {
        assert!(Keys::parse(TokenAlgorithm::EdDsa, ED25519.as_bytes()).is_ok());
        let rsa = [
            &b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x03\x82\x01\x0f\x00"[..],
            &[7; 270],
        ]
        .concat();
        assert_eq!(rsa_key(&rsa), Some(&[7; 270][..]));
        for length in 0..rsa.len() {
            assert_eq!(rsa_key(&rsa[..length]), None, "{length}");
        }
        assert_eq!(rsa_key(&[&rsa[..], b"x"].concat()), None);
    }
}
