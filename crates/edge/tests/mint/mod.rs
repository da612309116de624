//! Makes tokens, as an application's server would: good ones, and whatever else may come.

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

/// What signs.
pub enum Signer {
    /// HS256.
    Secret(Vec<u8>),
    EdDsa(Ed25519KeyPair),
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

fn pkcs8(pem: &str) -> PrivatePkcs8KeyDer<'static> {
    PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

impl Signer {
    /// HS256 with the secret that [`Signer::key_file`] shows.
    pub fn hs256() -> Self {
        Self::Secret(b"a secret of tests, 32 bytes and more".to_vec())
    }

    pub fn eddsa() -> Self {
        let key = pkcs8(include_str!("../keys/eddsa.pem"));
        Self::EdDsa(Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.secret_pkcs8_der()).unwrap())
    }

    pub fn es256() -> Self {
        let (key, random) = (pkcs8(include_str!("../keys/es256.pem")), SystemRandom::new());
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_pkcs8_der(), &random);
        Self::Es256(key.unwrap())
    }

    pub fn rs256() -> Self {
        Self::rs256_by(include_str!("../keys/rs256.pem"))
    }

    fn rs256_by(pem: &str) -> Self {
        Self::Rs256(RsaKeyPair::from_pkcs8(pkcs8(pem).secret_pkcs8_der()).unwrap())
    }

    /// One of the same kind with another key, which [`Signer::jwk`] shows and [`Signer::key_file`]
    /// does not.
    pub fn stranger(&self) -> Self {
        let random = SystemRandom::new();
        match self {
            Self::Secret(_) => Self::Secret(b"another secret, also of 32 bytes or more".to_vec()),
            Self::EdDsa(_) => {
                let key = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Self::EdDsa(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
            }
            Self::Es256(_) => {
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
                let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
                Self::Es256(key.unwrap())
            }
            // *ring* makes no keys of this kind.
            Self::Rs256(_) => Self::rs256_by(include_str!("../keys/rs256-stranger.pem")),
        }
    }

    /// As it stands in tokens and in `--token-algorithm`.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Secret(_) => "HS256",
            Self::EdDsa(_) => "EdDSA",
            Self::Es256(_) => "ES256",
            Self::Rs256(_) => "RS256",
        }
    }

    /// What `--token-key-file` holds for it.
    pub fn key_file(&self) -> Vec<u8> {
        match self {
            Self::Secret(secret) => secret.clone(),
            Self::EdDsa(_) => include_bytes!("../keys/eddsa.pub.pem").to_vec(),
            Self::Es256(_) => include_bytes!("../keys/es256.pub.pem").to_vec(),
            Self::Rs256(_) => include_bytes!("../keys/rs256.pub.pem").to_vec(),
        }
    }

    /// What verifies it, as a key of a JWK set: no more than the members that RFC 7518 and RFC 8037
    /// ask for.
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Secret(secret) => json!({ "kty": "oct", "k": text(secret) }),
            Self::EdDsa(key) => json!({ "kty": "OKP", "crv": "Ed25519", "x": text(key.public_key().as_ref()) }),
            Self::Es256(key) => {
                // Behind a byte that says that both are there.
                let point: &[u8] = key.public_key().as_ref();
                let (x, y) = point[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": text(x), "y": text(y) })
            }
            Self::Rs256(key) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "n": text(&n), "e": text(&e) })
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Secret(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec(),
            Self::EdDsa(key) => key.sign(message).as_ref().to_vec(),
            Self::Es256(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.token_headed(&json!({ "alg": self.algorithm(), "typ": "JWT" }), claims)
    }

    /// The same with any header.
    pub fn token_headed(&self, header: &Value, claims: &Value) -> String {
        let front = front(header, claims);
        let signature = URL_SAFE_NO_PAD.encode(self.sign(front.as_bytes()));
        format!("{front}.{signature}")
    }
}

fn front(header: &Value, claims: &Value) -> String {
    let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A token without a signature.
pub fn unsigned(algorithm: &str, claims: &Value) -> String {
    format!("{}.", front(&json!({ "alg": algorithm, "typ": "JWT" }), claims))
}

/// Seconds since 1970.
pub fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Claims that are good for a minute.
pub fn claims(client: &str) -> Value {
    json!({ "sub": client, "aud": AUDIENCE, "iss": ISSUER, "exp": now() + 60, "iat": now() })
}

/// The same with others in their place; `null` takes one out.
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
