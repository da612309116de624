//! Why a token is refused, and what its client is told.

use http::StatusCode;

use crate::shell::metrics::AuthFailure;

/// What is wrong with a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// There is none.
    #[error(
        "this mesh asks for a token: send it as the subprotocol bearer.<token>, or as Authorization: Bearer <token>"
    )]
    Missing,
    /// It is no JWT, or lacks a claim that it must have.
    #[error("the token is not a JWT with `sub`, `exp`, `aud` and `iss`")]
    Malformed,
    /// It says that it is signed in another way.
    #[error("the token is not signed by the algorithm that this mesh asks for")]
    Algorithm,
    /// It names a key that is not known.
    #[error("the token is signed by a key that this mesh does not know")]
    Key,
    /// No key has signed it.
    #[error("the token's signature is wrong")]
    Signature,
    /// It is over.
    #[error("the token has expired; come back with a new one")]
    Expired,
    /// It is not yet good.
    #[error("the token is not good yet (`nbf`); are the clocks right?")]
    NotYet,
    /// It is meant for somebody else.
    #[error("the token is for another audience (`aud`)")]
    Audience,
    /// Somebody else has made it.
    #[error("the token is of another issuer (`iss`)")]
    Issuer,
    /// It was made before its client was put out.
    #[error("an operator has put this client out since the token was made; come back with a new one")]
    Kicked,
    /// It is another client's.
    #[error("the token is for another client: its `sub` is not the client_id")]
    Subject,
    /// It says of its client what makes no sense.
    #[error("the token's claim {0}")]
    Claim(&'static str),
}

impl TokenRefusal {
    /// The answer to the upgrade.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Subject | Self::Claim(_) => StatusCode::FORBIDDEN,
            _ => StatusCode::UNAUTHORIZED,
        }
    }

    /// The body's `error.code`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing => "no_token",
            Self::Expired => "token_expired",
            Self::Subject | Self::Claim(_) => "forbidden",
            _ => "bad_token",
        }
    }

    pub(crate) const fn label(&self) -> AuthFailure {
        match self {
            Self::Missing => AuthFailure::Missing,
            Self::Malformed => AuthFailure::Malformed,
            Self::Algorithm => AuthFailure::Algorithm,
            Self::Key => AuthFailure::Key,
            Self::Signature => AuthFailure::Signature,
            Self::Expired => AuthFailure::Expired,
            Self::NotYet => AuthFailure::NotYet,
            Self::Audience => AuthFailure::Audience,
            Self::Issuer => AuthFailure::Issuer,
            Self::Kicked => AuthFailure::Kicked,
            Self::Subject => AuthFailure::Subject,
            Self::Claim(_) => AuthFailure::Claim,
        }
    }
}
