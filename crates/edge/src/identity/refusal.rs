//! Reasons to refuse a token, with the answers to its client.

use http::StatusCode;

use crate::metrics::AuthFailure;

/// Defect of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// There is no token.
    #[error("a token is required: send the subprotocol bearer.<token>, or Authorization: Bearer <token>")]
    Missing,
    /// It is no JWT, is longer than 4 KiB, has a `crit` header, or lacks `sub`, `exp`, `aud` or
    /// `iss`. Or `sub`, `exp` or `iat` has a wrong type.
    #[error("the token is not a JWT with `sub`, `exp`, `aud` and `iss`")]
    Malformed,
    /// Its header has another algorithm than the mesh.
    #[error("the token is not signed with the algorithm of this mesh")]
    Algorithm,
    /// It has a key id, and all keys of the mesh have others.
    #[error("the token names a key that this mesh does not have")]
    Key,
    /// No key matches its signature.
    #[error("the signature of the token is wrong")]
    Signature,
    /// It has expired.
    #[error("the token has expired; connect with a new one")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet (`nbf`); check the clocks")]
    NotYet,
    /// It has another audience.
    #[error("the token has another audience (`aud`)")]
    Audience,
    /// It has another issuer.
    #[error("the token has another issuer (`iss`)")]
    Issuer,
    /// Not issued after the latest kick of its client or subject. Without `iat` it is the oldest.
    #[error("the client was kicked after the token was issued; connect with a new one")]
    Kicked,
    /// Its `sub` is not the expected one, which is the client id for the native protocol.
    #[error("the token is for another client: its `sub` is not the client_id")]
    Subject,
    /// `rooms`, `signal` or `rate_class` has an invalid value; holds the claim with its rule.
    #[error("the claim {0}")]
    Claim(&'static str),
}

impl TokenRefusal {
    /// Returns the status of the answer, the `error.code` of its body, and the label of the metric.
    pub(crate) const fn answer(&self) -> (StatusCode, &'static str, AuthFailure) {
        match self {
            Self::Missing => (StatusCode::UNAUTHORIZED, "no_token", AuthFailure::Missing),
            Self::Malformed => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Malformed),
            Self::Algorithm => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Algorithm),
            Self::Key => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Key),
            Self::Signature => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Signature),
            Self::Expired => (StatusCode::UNAUTHORIZED, "token_expired", AuthFailure::Expired),
            Self::NotYet => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::NotYet),
            Self::Audience => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Audience),
            Self::Issuer => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Issuer),
            Self::Kicked => (StatusCode::UNAUTHORIZED, "bad_token", AuthFailure::Kicked),
            Self::Subject => (StatusCode::FORBIDDEN, "forbidden", AuthFailure::Subject),
            Self::Claim(_) => (StatusCode::FORBIDDEN, "forbidden", AuthFailure::Claim),
        }
    }
}
