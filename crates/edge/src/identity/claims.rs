//! Claims of a token about its client's rights, converted into the grant for nodes. For `tokens`.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use signaling_protocol::ids::MAX_NAME;
use signaling_wire::grant::{Grant, MAX_PATTERNS, MAX_SUBJECT, RoomPattern, SignalScope};

use super::TokenRefusal;
use signaling_core::rate_class::RateClass;

/// The claims that are read, each `None` if absent. `exp` and `iat` are in seconds since 1970. A
/// claim of rights that is `null` is present: it must not grant what an absent claim does.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) sub: Option<String>,
    pub(super) exp: Option<f64>,
    pub(super) iat: Option<f64>,
    #[serde(default, deserialize_with = "present")]
    rooms: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    signal: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    rate_class: Option<Value>,
}

/// Rooms that a client may join: a pattern alone, or with a capacity.
#[derive(Deserialize)]
#[serde(untagged)]
enum RoomClaim {
    Pattern(String),
    WithCapacity {
        room: String,
        #[serde(default, deserialize_with = "present")]
        capacity: Option<u32>,
    },
}

/// Reads a value of which `null` is not the absence.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

const ROOMS: TokenRefusal = TokenRefusal::Claim(
    "`rooms` must be a list of at most 256 names or {\"room\",\"capacity\"}, with * for any characters",
);
const SIGNAL: TokenRefusal = TokenRefusal::Claim("`signal` must be \"any\" or \"room\"");
const RATE_CLASS: TokenRefusal = TokenRefusal::Claim("`rate_class` must be a name of A-Z a-z 0-9 . _ ~ : @ -");

impl Claims {
    /// Converts `rooms`, `signal` and `sub` into the grant for nodes; absent claims into `None`. It
    /// lacks the rate of new rooms.
    ///
    /// # Errors
    /// [`TokenRefusal::Claim`] if `rooms` or `signal` has an invalid value.
    pub(super) fn grant(&self) -> Result<Grant, TokenRefusal> {
        let signal = match self.signal.as_ref().map(Value::as_str) {
            None => None,
            Some(Some("any")) => Some(SignalScope::Any),
            Some(Some("room")) => Some(SignalScope::Room),
            Some(_) => return Err(SIGNAL),
        };
        let rooms = self.rooms.as_ref().map(room_patterns).transpose()?;
        let subject = self.sub.as_ref().map(|sub| sub.chars().take(MAX_SUBJECT).collect());
        Ok(Grant { rooms, signal, subject, new_rooms: None })
    }

    /// Returns `rate_class`; `None` if it is absent. An invalid name is a [`TokenRefusal::Claim`].
    pub(super) fn rate_class(&self) -> Result<Option<RateClass>, TokenRefusal> {
        let name = |claim: &Value| claim.as_str().and_then(|name| RateClass::new(name).ok()).ok_or(RATE_CLASS);
        self.rate_class.as_ref().map(name).transpose()
    }
}

fn room_patterns(claim: &Value) -> Result<Vec<RoomPattern>, TokenRefusal> {
    let claims = Vec::<RoomClaim>::deserialize(claim).map_err(|_| ROOMS)?;
    if claims.len() > MAX_PATTERNS {
        return Err(ROOMS);
    }
    let pattern = |claim| {
        let (pattern, capacity) = match claim {
            RoomClaim::Pattern(pattern) => (pattern, None),
            RoomClaim::WithCapacity { room, capacity } => (room, capacity),
        };
        if pattern.is_empty() || pattern.len() > MAX_NAME { Err(ROOMS) } else { Ok(RoomPattern { pattern, capacity }) }
    };
    claims.into_iter().map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(claims: Value) -> Claims {
        serde_json::from_value(claims).unwrap()
    }

    #[test]
    fn rooms_signal_and_rate_class_are_read() {
        let claims = claims(json!({ "rooms": ["team-*", { "room": "big", "capacity": 50 }, { "room": "hall" }],
                                    "signal": "room", "rate_class": "bots" }));
        let pattern = |pattern: &str, capacity| RoomPattern { pattern: pattern.into(), capacity };
        let rooms = vec![pattern("team-*", None), pattern("big", Some(50)), pattern("hall", None)];
        let signal = Some(SignalScope::Room);
        assert_eq!(claims.grant().unwrap(), Grant { rooms: Some(rooms), signal, ..Grant::default() });
        assert_eq!(claims.rate_class().unwrap(), Some(RateClass::new("bots").unwrap()));
        let none = self::claims(json!({}));
        assert_eq!((none.grant().unwrap(), none.rate_class().unwrap()), (Grant::default(), None));
    }

    #[test]
    fn subject_of_a_grant_has_255_characters() {
        let subject = |sub: &str| claims(json!({ "sub": sub })).grant().unwrap().subject;
        assert_eq!(subject("auth0|1"), Some("auth0|1".to_owned()), "it need not be a client id");
        assert_eq!(subject(&"ü".repeat(300)), Some("ü".repeat(MAX_SUBJECT)));
    }

    #[test]
    fn invalid_claim_is_refused() {
        for claim in [
            json!({ "rooms": null }),
            json!({ "rooms": "team-*" }),
            json!({ "rooms": [7] }),
            json!({ "rooms": [""] }),
            json!({ "rooms": [{ "room": "x", "capacity": -1 }] }),
            json!({ "rooms": [{ "room": "x", "capacity": null }] }),
            json!({ "rooms": vec!["x"; 257] }),
            json!({ "rooms": ["x".repeat(129)] }),
            json!({ "signal": "nobody" }),
            json!({ "signal": true }),
            json!({ "signal": null }),
        ] {
            assert!(matches!(claims(claim.clone()).grant(), Err(TokenRefusal::Claim(_))), "{claim}");
        }
        for class in [json!(7), json!(""), json!("a b"), json!(null)] {
            assert_eq!(claims(json!({ "rate_class": class })).rate_class(), Err(RATE_CLASS));
        }
    }
}
