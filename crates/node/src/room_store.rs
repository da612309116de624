//! Where rooms are kept, from the flag to the stores.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use signaling_rooms::{Clock, MemoryStore, RedisRegistry, RedisStore, Rules, Store, StoreError};

/// What `--room-store` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomStoreAt {
    /// In this process.
    Memory,
    /// At this address.
    Redis(Box<str>),
}

/// How rooms are kept.
#[derive(Debug, Clone)]
pub struct RoomConfig {
    /// Where.
    pub store: RoomStoreAt,
    /// Most members of a room that has no capacity of its own; none: no limit.
    pub capacity: Option<u32>,
    /// Most clients in line for a room; none: no limit.
    pub line: Option<u32>,
    /// How long the seat of somebody is kept whose session has ended without a goodbye.
    pub grace: Duration,
    /// How often seats are refreshed.
    pub presence: Duration,
}

impl RoomConfig {
    /// Opens the stores. They connect when they are first asked.
    ///
    /// # Errors
    /// If the address is none.
    pub fn open(&self) -> Result<(Store, Option<RedisRegistry>), StoreError> {
        let rules = self.rules();
        match &self.store {
            RoomStoreAt::Memory => Ok((Store::Memory(MemoryStore::new(rules, Clock::Own)), None)),
            RoomStoreAt::Redis(url) => {
                let store = Store::Redis(RedisStore::new(url, rules, Clock::Own)?);
                Ok((store, Some(RedisRegistry::new(url, Clock::Own)?)))
            }
        }
    }

    /// By what numbers the store goes.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules { capacity: self.capacity, line: self.line, stale: Rules::stale_after(self.presence), ..Rules::default() }
    }

    /// How soon at the latest the others in a room see that somebody is gone: whose balancer has died, and whose node as well. A
    /// client that only falls silent is noticed by its edge's heartbeat first.
    #[must_use]
    pub fn bounds(&self, resume: Duration) -> (Duration, Duration) {
        // The store looks at a seat that ends by itself when the next refresh, or anything else, touches the room.
        let look = if self.grace > resume { self.presence } else { Duration::ZERO };
        let with_node = self.rules().stale + self.presence;
        (resume.max(self.grace) + look + SLACK, with_node + SLACK)
    }
}

/// What looking, asking the store and telling take.
const SLACK: Duration = Duration::from_secs(2);

impl FromStr for RoomStoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "memory" => Ok(Self::Memory),
            url if ["redis://", "redis-cluster://"].iter().any(|scheme| url.starts_with(scheme)) => {
                RedisStore::check_url(url).map_err(|error| error.to_string())?;
                Ok(Self::Redis(url.into()))
            }
            _ => Err(
                "is `memory`, `redis://[user:password@]host:port[/database]` or `redis-cluster://host:port,host:port`"
                    .into(),
            ),
        }
    }
}

impl fmt::Display for RoomStoreAt {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
                let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
                write!(f, "{scheme}://{place}")
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let at: RoomStoreAt = "redis://:secret@127.0.0.1:6379/2".parse().unwrap();
        assert_eq!(at.to_string(), "redis://127.0.0.1:6379/2");
        assert_eq!("memory".parse::<RoomStoreAt>().unwrap(), RoomStoreAt::Memory);
        assert!("http://127.0.0.1".parse::<RoomStoreAt>().is_err());
    }

    #[test]
    fn the_bounds_follow_from_the_settings() {
        let (grace, presence) = (Duration::from_secs(20), Duration::from_secs(20));
        let config = RoomConfig { store: RoomStoreAt::Memory, capacity: None, line: None, grace, presence };
        let seconds = |seconds| Duration::from_secs(seconds);
        assert_eq!(config.bounds(seconds(30)), (seconds(32), seconds(67)));
        assert_eq!(config.bounds(seconds(5)), (seconds(42), seconds(67)));
    }
}
