//! Token verification, for new clients and for renewed tokens.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode};
use serde::Deserialize;
use signaling_protocol::limits;
use signaling_server::unix_time;

use super::claims::Claims;
use super::keys::{KeyError, Keys};
use super::provider;
use super::refusal::TokenRefusal;
use signaling_core::edge::{KickName, VerifiedToken};
use signaling_core::rate_class::RateClass;
use signaling_wire::grant::Grant;

/// Requirements on every token, and rates by its class.
#[derive(Debug, Clone)]
pub struct TokenRules {
    /// The signature algorithm. The header of a token cannot choose another one.
    pub algorithm: Algorithm,
    /// The required `aud`, or one of its values.
    pub audience: String,
    /// The required `iss`.
    pub issuer: String,
    /// Clock tolerance after `exp` and before `nbf`. Fractions of a second are dropped.
    pub leeway: Duration,
    /// New rooms per second of a client (0: no limit) by the rate class of its token.
    pub new_rooms: BTreeMap<RateClass, u32>,
}

/// Verifier of tokens with the current keys.
pub struct Tokens {
    algorithm: Algorithm,
    validation: Validation,
    new_rooms: BTreeMap<RateClass, u32>,
    keys: RefCell<Keys>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// The header of a token. References to other keys (`jku`, `x5u`, `jwk`) are never read.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must understand (RFC 7515 section 4.1.11). All are refused.
    crit: Option<serde::de::IgnoredAny>,
}

impl Header {
    fn read(token: &str) -> Option<Self> {
        serde_json::from_str(&part(token, 0)?).ok()
    }
}

/// Decodes a part of a token. All of it must be UTF-8 (RFC 7519 section 7.2), and the JSON reader
/// does not check the fields that it skips.
fn part(token: &str, at: usize) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(token.split('.').nth(at)?).ok()?).ok()
}

impl Tokens {
    /// Creates a verifier with these rules and the keys of a file.
    ///
    /// # Errors
    /// If the file has no key for the algorithm, more than 16, or is invalid.
    pub fn new(rules: &TokenRules, key_file: &[u8]) -> Result<Self, KeyError> {
        provider::install();
        let TokenRules { algorithm, ref audience, ref issuer, leeway, ref new_rooms } = *rules;
        let mut validation = Validation::new(algorithm);
        validation.leeway = leeway.as_secs();
        validation.validate_nbf = true;
        validation.set_audience(&[audience]);
        validation.set_issuer(&[issuer]);
        validation.set_required_spec_claims(&["exp", "sub", "aud", "iss"]);
        let (new_rooms, keys) = (new_rooms.clone(), RefCell::new(Keys::parse(algorithm, key_file)?));
        Ok(Self { algorithm, validation, new_rooms, keys })
    }

    /// Replaces the keys by those of a new file. Verified tokens stay valid until they expire.
    ///
    /// # Errors
    /// If the file has no key for the algorithm, more than 16, or is invalid. The old keys stay.
    pub fn change_keys(&self, key_file: &[u8]) -> Result<(), KeyError> {
        *self.keys.borrow_mut() = Keys::parse(self.algorithm, key_file)?;
        Ok(())
    }

    /// Verifies a token, whose `sub` must be `subject`; `None`: any. Returns its rights and times,
    /// ending at `exp` plus the clock tolerance.
    ///
    /// # Errors
    /// Returns the defect; without a token [`TokenRefusal::Missing`]. The signature is checked
    /// before any claim. Kicks are not checked.
    pub fn verify(&self, subject: Option<&str>, token: Option<&str>) -> Result<VerifiedToken, TokenRefusal> {
        let token = token.ok_or(TokenRefusal::Missing)?;
        let header = Some(token).filter(|token| token.len() <= limits::MAX_TOKEN_BYTES).and_then(Header::read);
        let header = header.filter(|header| header.crit.is_none()).ok_or(TokenRefusal::Malformed)?;
        if header.alg.parse().ok() != Some(self.algorithm) {
            return Err(TokenRefusal::Algorithm);
        }
        let mut refused = TokenRefusal::Key;
        for key in self.keys.borrow().candidates(header.kid.as_deref()) {
            match decode::<Claims>(token, key, &self.validation) {
                Ok(_) if part(token, 1).is_none() => return Err(TokenRefusal::Malformed),
                Ok(token) => return self.verified(subject, &token.claims),
                Err(error) => match refusal_of(error.kind()) {
                    TokenRefusal::Signature => refused = TokenRefusal::Signature,
                    other => return Err(other),
                },
            }
        }
        Err(refused)
    }

    fn verified(&self, subject: Option<&str>, claims: &Claims) -> Result<VerifiedToken, TokenRefusal> {
        if subject.is_some() && claims.sub.as_deref() != subject {
            return Err(TokenRefusal::Subject);
        }
        let leeway = Duration::from_secs(self.validation.leeway);
        let left = claims.exp.unwrap_or_default() + leeway.as_secs_f64() - unix_time().as_secs_f64();
        let expires = Duration::try_from_secs_f64(left.max(0.0)).ok().and_then(|left| Instant::now().checked_add(left));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time below 0 counts as 0, and one above 2^64 as 2^64"
        )]
        let issued = claims.iat.map_or(0, |iat| iat as u64);
        let rate_class = claims.rate_class()?;
        let new_rooms = rate_class.as_ref().and_then(|class| self.new_rooms.get(class)).copied();
        Ok(VerifiedToken {
            subject: claims.sub.as_deref().map(KickName::new),
            grant: Grant { new_rooms, ..claims.grant()? }.to_bytes().into(),
            issued,
            expires,
            rate_class,
        })
    }
}

fn refusal_of(error: &ErrorKind) -> TokenRefusal {
    match error {
        ErrorKind::InvalidSignature => TokenRefusal::Signature,
        ErrorKind::ExpiredSignature => TokenRefusal::Expired,
        ErrorKind::ImmatureSignature => TokenRefusal::NotYet,
        ErrorKind::InvalidAudience => TokenRefusal::Audience,
        ErrorKind::InvalidIssuer => TokenRefusal::Issuer,
        ErrorKind::InvalidAlgorithm => TokenRefusal::Algorithm,
        _ => TokenRefusal::Malformed,
    }
}
