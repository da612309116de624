//! Token keys from a file, for `tokens`: a secret (HS256), a public key in PEM (EdDSA, ES256 or
//! RS256), or a JWK set (RFC 7517) for any of the four algorithms.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{self, Decode as _, Reader as _, SliceReader};
use x509_cert::spki::SubjectPublicKeyInfoRef;

/// Minimum length of an HS256 secret in bytes: the length of the hash (RFC 7518 section 3.2).
const MIN_SECRET: usize = 32;
/// Lengths of an RS256 modulus in bytes that the verifier accepts: 2,048 to 8,192 bits.
const MODULUS: RangeInclusive<usize> = 256..=1_024;
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
    /// The file begins with `{` and is no JWK set: error at this line and column, from 1.
    #[error("is JSON but not a JWK set: error in line {0}, column {1}")]
    Json(usize, usize),
    /// No key of the set is for signatures with the algorithm and has a valid length. HS256 needs
    /// at least 32 bytes, RS256 a modulus of 256 to 1,024 bytes.
    #[error("has no key for {0:?}")]
    NoneFits(Algorithm),
    /// The set has more than 16 keys for the algorithm.
    #[error("has more than {MAX_KEYS} keys for the algorithm")]
    TooMany,
    /// The file has no readable public key in PEM (`BEGIN PUBLIC KEY`) and does not begin with `{`.
    /// HS256 files never have this error.
    #[error("must hold a public key as PEM (BEGIN PUBLIC KEY) or a JWK set")]
    NoPem,
    /// The PEM key is damaged or not for this algorithm.
    #[error("has a public key of another kind than {0:?}")]
    OtherKind(Algorithm),
    /// The modulus of the RSA key in PEM has this number of bytes, not 256 to 1,024.
    #[error("must hold an RSA key with a modulus of 256 to 1,024 bytes (2,048 to 8,192 bits), has {0}")]
    ModulusLength(usize),
    /// The HS256 file begins as PEM: a public key or a certificate is no secret.
    #[error("begins with -----BEGIN, so it is no secret of HS256: give a secret, or the algorithm of the key")]
    PemSecret,
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
            return Self::of_set(algorithm, content);
        }
        let key = match algorithm {
            // Holders of a public key could sign tokens with it.
            Algorithm::HS256 if text.starts_with(b"-----BEGIN") => return Err(KeyError::PemSecret),
            Algorithm::HS256 if text.len() < MIN_SECRET => return Err(KeyError::ShortSecret(text.len())),
            Algorithm::HS256 => DecodingKey::from_secret(text),
            _ => public_key(algorithm, text)?,
        };
        Ok(Self(vec![(None, key)]))
    }

    fn of_set(algorithm: Algorithm, content: &[u8]) -> Result<Self, KeyError> {
        // serde's own message may quote a secret.
        let set: JwkSet =
            serde_json::from_slice(content).map_err(|error| KeyError::Json(error.line(), error.column()))?;
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

/// Returns a key of a set. `None`: it does not fit the algorithm, is not for signatures, has an
/// invalid length, or is damaged.
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
        (Algorithm::RS256, AlgorithmParameters::RSA(key)) => MODULUS.contains(&length(&key.n)),
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
        (Algorithm::RS256, Ok((RSA, None))) => match modulus_length(key).ok_or(other_kind)? {
            length if MODULUS.contains(&length) => Ok(DecodingKey::from_rsa_der(key)),
            length => Err(KeyError::ModulusLength(length)),
        },
        _ => Err(other_kind),
    }
}

/// Returns the length of an RSA key's modulus in bytes (RFC 8017 appendix A.1.1). `None`: the key
/// is damaged.
fn modulus_length(key: &[u8]) -> Option<usize> {
    let read = |reader: &mut SliceReader<'_>| -> der::Result<usize> {
        let modulus: UintRef<'_> = reader.decode()?;
        let _exponent: UintRef<'_> = reader.decode()?;
        Ok(modulus.as_bytes().len())
    };
    SliceReader::new(key).ok()?.sequence(read).ok()
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

    fn pem(der: &[u8]) -> String {
        let der = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
    }

    /// Encodes a DER value of less than 64 KiB.
    fn der_value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        let length = if content.len() < 128 { vec![low] } else { vec![0x82, high, low] };
        [&[tag][..], &length, &content].concat()
    }

    #[test]
    fn rsa_key_is_refused_if_its_modulus_has_another_length() {
        let rsa = der_value(0x30, &[&der_value(6, &[RSA.as_bytes()]), &der_value(5, &[])]);
        let parse = |length: usize| {
            let modulus = der_value(2, &[&[0], &vec![0xff; length]]);
            let key = der_value(0x30, &[&modulus, &der_value(2, &[&[1, 0, 1]])]);
            let info = der_value(0x30, &[&rsa, &der_value(3, &[&[0], &key])]);
            Keys::parse(Algorithm::RS256, pem(&info).as_bytes())
        };
        assert!(parse(256).is_ok() && parse(1_024).is_ok());
        let lengths = [255, 1_025];
        assert_eq!(lengths.map(|it| parse(it).err()), lengths.map(|it| Some(KeyError::ModulusLength(it))));
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
            (HS256, ED25519_KEY, "begins with -----BEGIN"),
            (HS256, "\n -----BEGIN PRIVATE KEY-----", "begins with -----BEGIN"),
            (HS256, "\n\n{\"keys\":1}", "not a JWK set: error in line 3"),
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
