//! Token keys from a file, for `tokens`: a secret (HS256), a public key in PEM (EdDSA, ES256 or
//! RS256), or a JWK set (RFC 7517) for any of the four algorithms.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::spki::SubjectPublicKeyInfoRef;

/// Minimum length of an HS256 secret in bytes: the length of the hash (RFC 7518 section 3.2).
const MIN_SECRET: usize = 32;
/// Minimum length of an RS256 modulus in bytes, as the verifier requires.
const MIN_MODULUS: usize = 256;
/// Maximum keys of one set that fit the algorithm. A token without a key id is tried with all.
const MAX_KEYS: usize = 16;

// RFC 8410, RFC 5480 and RFC 3279.
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const EC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Reason why a file has no usable keys. It never quotes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file begins with `{` and is no JWK set: error at this line and column. Both count from 1
    /// at the `{`.
    #[error("is JSON but not a JWK set: error in line {0}, column {1}")]
    Json(usize, usize),
    /// No key of the set is for signatures with the algorithm and long enough: HS256 needs at least
    /// 32 bytes, and RS256 a modulus of at least 256 bytes.
    #[error("has no key for {0:?}")]
    NoneFits(Algorithm),
    /// The set has more than 16 keys for the algorithm.
    #[error("has more than {MAX_KEYS} keys for the algorithm")]
    TooMany,
    /// The file has no readable public key in PEM (`BEGIN PUBLIC KEY`) and does not begin with `{`.
    /// HS256 files never have this error.
    #[error("must hold a public key as PEM (BEGIN PUBLIC KEY) or a JWK set")]
    NoPem,
    /// The PEM key is not for this algorithm, is damaged, or is an RSA key of at most 256 bytes in
    /// DER (about 1,950 bits). A longer one below 2,041 bits is accepted, but verifies no token.
    #[error("has a public key of another kind than {0:?}")]
    OtherKind(Algorithm),
    /// The HS256 secret has this number of bytes without the white space around it, fewer than 32.
    #[error("must hold a secret of at least {MIN_SECRET} bytes, has {0}")]
    ShortSecret(usize),
}

/// The keys of one file, each with its id if it has one.
pub(super) struct Keys(Vec<(Option<String>, DecodingKey)>);

impl Keys {
    /// Parses a key file for HS256, EdDSA, ES256 or RS256. White space at both ends is dropped. A
    /// file that begins with `{` is a JWK set, even for HS256. Keys of a set that do not fit the
    /// algorithm are skipped. Of a PEM file only the first public key is read.
    ///
    /// Fails if the file has no usable key, or more than 16.
    pub(super) fn parse(algorithm: Algorithm, content: &[u8]) -> Result<Self, KeyError> {
        let text = content.trim_ascii();
        if text.starts_with(b"{") {
            return Self::of_set(algorithm, text);
        }
        let key = match algorithm {
            Algorithm::HS256 if text.len() < MIN_SECRET => return Err(KeyError::ShortSecret(text.len())),
            Algorithm::HS256 => DecodingKey::from_secret(text),
            _ => public_key(algorithm, text)?,
        };
        Ok(Self(vec![(None, key)]))
    }

    fn of_set(algorithm: Algorithm, text: &[u8]) -> Result<Self, KeyError> {
        // serde's own message may quote a secret.
        let set: JwkSet = serde_json::from_slice(text).map_err(|error| KeyError::Json(error.line(), error.column()))?;
        let keys = set.keys.iter().filter_map(|jwk| Some((jwk.common.key_id.clone(), key_of_set(algorithm, jwk)?)));
        let keys: Vec<_> = keys.collect();
        match keys.len() {
            0 => Err(KeyError::NoneFits(algorithm)),
            1..=MAX_KEYS => Ok(Self(keys)),
            _ => Err(KeyError::TooMany),
        }
    }

    /// Returns the keys to try for a token with this key id (`kid`), in file order. A key without
    /// an id matches every token. A token without an id (`None`) matches every key. Empty: no key
    /// has this id.
    pub(super) fn candidates(&self, id: Option<&str>) -> impl Iterator<Item = &DecodingKey> {
        let may_be = move |name: &Option<String>| match (name.as_deref(), id) {
            (Some(name), Some(id)) => name == id,
            _ => true,
        };
        self.0.iter().filter(move |(name, _)| may_be(name)).map(|(_, key)| key)
    }
}

/// Returns a key of a set. `None`: it does not fit the algorithm, is not for signatures, is too
/// short, or is damaged.
fn key_of_set(algorithm: Algorithm, jwk: &Jwk) -> Option<DecodingKey> {
    let common = &jwk.common;
    if common.key_algorithm.is_some_and(|named| named != KeyAlgorithm::from(algorithm))
        || common.public_key_use.as_ref().is_some_and(|named| *named != PublicKeyUse::Signature)
    {
        return None;
    }
    let length = |text: &str| URL_SAFE_NO_PAD.decode(text).map_or(0, |bytes| bytes.len());
    let fits = match (algorithm, &jwk.algorithm) {
        (Algorithm::HS256, AlgorithmParameters::OctetKey(key)) => length(&key.value) >= MIN_SECRET,
        (Algorithm::EdDSA, AlgorithmParameters::OctetKeyPair(key)) => {
            key.curve == EllipticCurve::Ed25519 && length(&key.x) == 32
        }
        (Algorithm::ES256, AlgorithmParameters::EllipticCurve(key)) => {
            key.curve == EllipticCurve::P256 && length(&key.x) == 32 && length(&key.y) == 32
        }
        (Algorithm::RS256, AlgorithmParameters::RSA(key)) => length(&key.n) >= MIN_MODULUS,
        _ => false,
    };
    if fits { DecodingKey::from_jwk(jwk).ok() } else { None }
}

/// Reads a public key as OpenSSL writes it: SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).
fn public_key(algorithm: Algorithm, text: &[u8]) -> Result<DecodingKey, KeyError> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(text).map_err(|_| KeyError::NoPem)?;
    let other_kind = KeyError::OtherKind(algorithm);
    let info = SubjectPublicKeyInfoRef::from_der(&der).map_err(|_| other_kind)?;
    let key = info.subject_public_key.as_bytes().unwrap_or_default();
    match (algorithm, info.algorithm.oids()) {
        (Algorithm::EdDSA, Ok((ED25519, None))) if key.len() == 32 => Ok(DecodingKey::from_ed_der(key)),
        // An uncompressed point.
        (Algorithm::ES256, Ok((EC_KEY, Some(P256)))) if key.len() == 65 && key.starts_with(&[4]) => {
            Ok(DecodingKey::from_ec_der(key))
        }
        (Algorithm::RS256, Ok((RSA, None))) if key.len() > MIN_MODULUS => Ok(DecodingKey::from_rsa_der(key)),
        _ => Err(other_kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n";

    fn error(algorithm: Algorithm, content: &str) -> String {
        Keys::parse(algorithm, content.as_bytes()).err().unwrap().to_string()
    }

    fn count(keys: &Keys, id: Option<&str>) -> usize {
        keys.candidates(id).count()
    }

    #[test]
    fn error_names_the_defect_and_never_quotes_the_file() {
        use Algorithm::{ES256, EdDSA, HS256, RS256};
        for (algorithm, content, part) in [
            (HS256, "too short a secret", "at least 32 bytes, has 18"),
            (EdDSA, "0123456789abcdef0123456789abcdef", "BEGIN PUBLIC KEY"),
            (ES256, ED25519_KEY, "another kind than ES256"),
            (RS256, ED25519_KEY, "another kind than RS256"),
            (HS256, r#"{"keys":"a secret that stands in the wrong place"}"#, "not a JWK set: error in line 1"),
            (HS256, r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#, "no key for HS256"),
            (EdDSA, r#"{"keys":[]}"#, "no key for EdDSA"),
        ] {
            let message = error(algorithm, content);
            assert!(message.contains(part) && !message.contains("a secret that"), "{content}: {message}");
        }
    }

    #[test]
    fn key_of_a_set_counts_only_for_its_algorithm_and_use() {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let key = |more: &str| format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"{more}}}"#);
        let set = |keys: &[String]| format!(r#"{{"keys":[{}]}}"#, keys.join(","));
        let keys = set(&[
            key(r#","kid":"a","alg":"EdDSA","use":"sig""#),
            key(r#","kid":"b","use":"enc""#),
            key(r#","kid":"c","alg":"ES256""#),
            key(r#","kid":"d""#),
        ]);
        let keys = Keys::parse(Algorithm::EdDSA, keys.as_bytes()).unwrap();
        assert_eq!(count(&keys, None), 2);
        assert_eq!([Some("a"), Some("b"), Some("d"), Some("e")].map(|id| count(&keys, id)), [1, 0, 1, 0]);
        let unnamed = Keys::parse(Algorithm::EdDSA, set(&[key("")]).as_bytes()).unwrap();
        assert_eq!(count(&unnamed, Some("whatever")), 1);
        assert_eq!(error(Algorithm::EdDSA, &set(&vec![key(""); 17])), KeyError::TooMany.to_string());
    }

    #[test]
    fn truncated_key_is_refused() {
        let pem = |der: &[u8]| {
            let der = base64::engine::general_purpose::STANDARD.encode(der);
            format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
        };
        let der = SubjectPublicKeyInfoDer::from_pem_slice(ED25519_KEY.as_bytes()).unwrap();
        let whole = der.as_ref();
        assert!(Keys::parse(Algorithm::EdDSA, pem(whole).as_bytes()).is_ok());
        for length in 0..whole.len() {
            let parsed = Keys::parse(Algorithm::EdDSA, pem(&whole[..length]).as_bytes());
            assert!(parsed.is_err(), "{length}");
        }
        assert!(Keys::parse(Algorithm::EdDSA, pem(&[whole, b"x"].concat()).as_bytes()).is_err());
    }
}
