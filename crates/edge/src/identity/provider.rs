//! Signature checks of `jsonwebtoken` by *ring*, which TLS uses too. `tokens` installs them.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind, new_error};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs this provider in the process. It has no effect if a provider is already installed.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let (algorithm, key) = (*algorithm, key.clone());
    if algorithm.family() != key.family() {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    Ok(Box::new(RingVerifier { algorithm, key }))
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let wrong = |_| signature::Error::new();
        let by: &'static dyn VerificationAlgorithm = match (self.algorithm, self.key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                // Compares in constant time.
                return hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), message, signature).map_err(wrong);
            }
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n, e };
                return key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).map_err(wrong);
            }
            (Algorithm::RS256, DecodingKeyKind::SecretOrDer(_)) => &RSA_PKCS1_2048_8192_SHA256,
            (Algorithm::ES256, _) => &ECDSA_P256_SHA256_FIXED,
            (Algorithm::EdDSA, _) => &ED25519,
            _ => return Err(signature::Error::new()),
        };
        let key = self.key.try_get_as_bytes().map_err(|_| signature::Error::new())?;
        UnparsedPublicKey::new(by, key).verify(message, signature).map_err(wrong)
    }
}
