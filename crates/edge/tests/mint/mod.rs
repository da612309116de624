//! Creates valid and invalid tokens like an application's server.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "test code")]

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

/// Audience and issuer of the tokens of tests.
pub const AUDIENCE: &str = "the-mesh";
pub const ISSUER: &str = "https://app.example";

/// A key that signs tokens.
pub struct Signer {
    /// Name in tokens and in `--token-algorithm`.
    pub algorithm: &'static str,
    /// Content of `--token-key-file`.
    pub key_file: Vec<u8>,
    /// Key for a JWK set, with only the members that RFC 7518 and RFC 8037 require.
    pub jwk: Value,
    sign: Box<Sign>,
}

type Sign = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

fn pkcs8(pem: &str) -> PrivatePkcs8KeyDer<'static> {
    PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

impl Signer {
    fn new(
        algorithm: &'static str,
        key_file: &[u8],
        jwk: Value,
        sign: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self { algorithm, key_file: key_file.to_vec(), jwk, sign: Box::new(sign) }
    }

    pub fn hs256() -> Self {
        Self::secret(b"a secret of tests, 32 bytes and more")
    }

    /// Signs by HS256.
    pub fn secret(secret: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let jwk = json!({ "kty": "oct", "k": URL_SAFE_NO_PAD.encode(secret) });
        Self::new("HS256", secret, jwk, move |message| hmac::sign(&key, message).as_ref().to_vec())
    }

    pub fn eddsa() -> Self {
        Self::eddsa_by(pkcs8(include_str!("../keys/eddsa.pem")).secret_pkcs8_der())
    }

    fn eddsa_by(der: &[u8]) -> Self {
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).unwrap();
        let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(key.public_key()) });
        Self::new("EdDSA", include_bytes!("../keys/eddsa.pub.pem"), jwk, move |message| {
            key.sign(message).as_ref().to_vec()
        })
    }

    pub fn es256() -> Self {
        Self::es256_by(pkcs8(include_str!("../keys/es256.pem")).secret_pkcs8_der())
    }

    fn es256_by(der: &[u8]) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random).unwrap();
        // The first byte marks an uncompressed point.
        let (x, y) = key.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let jwk = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y });
        Self::new("ES256", include_bytes!("../keys/es256.pub.pem"), jwk, move |message| {
            key.sign(&random, message).unwrap().as_ref().to_vec()
        })
    }

    pub fn rs256() -> Self {
        Self::rs256_by(include_str!("../keys/rs256.pem"))
    }

    fn rs256_by(pem: &str) -> Self {
        let key = RsaKeyPair::from_pkcs8(pkcs8(pem).secret_pkcs8_der()).unwrap();
        let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
        let jwk = json!({ "kty": "RSA", "n": URL_SAFE_NO_PAD.encode(n), "e": URL_SAFE_NO_PAD.encode(e) });
        Self::new("RS256", include_bytes!("../keys/rs256.pub.pem"), jwk, move |message| {
            let mut signature = vec![0; key.public().modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        })
    }

    /// Returns a signer by the same algorithm with another key. [`Signer::jwk`] has that key,
    /// [`Signer::key_file`] does not unless it is a secret.
    pub fn stranger(&self) -> Self {
        let random = SystemRandom::new();
        match self.algorithm {
            "HS256" => Self::secret(b"another secret, also of 32 bytes or more"),
            "EdDSA" => Self::eddsa_by(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()),
            "ES256" => {
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
                Self::es256_by(key.unwrap().as_ref())
            }
            // *ring* generates no RSA keys.
            _ => Self::rs256_by(include_str!("../keys/rs256-stranger.pem")),
        }
    }

    /// Returns a token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.token_headed(&json!({ "alg": self.algorithm, "typ": "JWT" }), claims)
    }

    /// Returns a token with any header.
    pub fn token_headed(&self, header: &Value, claims: &Value) -> String {
        let front = front(header, claims);
        format!("{front}.{}", URL_SAFE_NO_PAD.encode((self.sign)(front.as_bytes())))
    }
}

fn front(header: &Value, claims: &Value) -> String {
    let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// Returns a token without a signature.
pub fn unsigned(algorithm: &str, claims: &Value) -> String {
    format!("{}.", front(&json!({ "alg": algorithm, "typ": "JWT" }), claims))
}

/// Returns the seconds since 1970.
pub fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Returns claims that are valid for one minute.
pub fn claims(client: &str) -> Value {
    json!({ "sub": client, "aud": AUDIENCE, "iss": ISSUER, "exp": now() + 60, "iat": now() })
}

/// Returns [`claims`] with `others` replaced. `null` removes a claim.
pub fn claims_with(client: &str, others: &Value) -> Value {
    let mut claims = claims(client);
    for (name, value) in others.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}
