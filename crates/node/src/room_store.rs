//! Configuration of the room store, for `config` and `run`: parses `--room-store`, opens stores.

use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::time::Duration;

use signaling_core::edge::Rate;
use signaling_rooms::{Clock, KeyPrefix, RedisStore, Rules, StoreError};

/// Location of the rooms, from `--room-store`. Its text has no user or password.
#[derive(Clone, PartialEq, Eq)]
pub enum RoomLocation {
    /// At the nodes of the mesh, without a store.
    Mesh,
    /// In the Redis at this valid URL, which may contain a password.
    Redis(Box<str>),
}

/// Maximum clients in a room's waiting queue; a further join is refused as `overloaded`. Equal on
/// all nodes. It bounds the memory of rooms.
pub const MAX_WAITING_CLIENTS: u32 = 10_000;

/// New rooms/s of a client. No page needs more; a bot has a rate class.
pub const NEW_ROOMS: u32 = 5;

/// Location, times and limits of rooms, from the flags of a node.
#[derive(Debug, Clone)]
pub struct RoomConfig {
    /// Location of the rooms.
    pub store: RoomLocation,
    /// First part of every key in a Redis; without effect at the nodes.
    pub prefix: KeyPrefix,
    /// Maximum members of a room without a capacity of its own; `None`: no limit.
    pub capacity: Option<u32>,
    /// Members/s that one client reaches in the long run, and at once; `None`: no limit.
    pub broadcast_rate: Option<Rate>,
    /// Time that a seat is kept after its client's socket was lost. At least the resume time.
    pub seat_grace: Duration,
    /// Maximum bytes of the rooms that this node owns or has copies of.
    pub max_bytes: usize,
    /// Time that a room remembers a client which left, and is kept without members.
    pub remembered: Duration,
    /// Interval of presence refreshes, equal on all nodes. A seat without a refresh expires after
    /// 2.25 intervals. The store writes once per seat and interval.
    pub presence_refresh: Duration,
}

impl RoomConfig {
    /// Creates the store, which connects at its first request. `None`: the nodes own the rooms.
    ///
    /// # Errors
    /// If the address is invalid, which a parsed [`RoomLocation`] is not.
    pub fn open(&self) -> Result<Option<RedisStore>, StoreError> {
        match &self.store {
            RoomLocation::Mesh => Ok(None),
            RoomLocation::Redis(url) => {
                let store = RedisStore::new(url, self.rules(), Clock::Own)?;
                Ok(Some(store.with_prefix(self.prefix.clone())))
            }
        }
    }

    /// Returns the rules that the store or the rooms' owners apply. Others have their defaults.
    pub fn rules(&self) -> Rules {
        let stale = Rules::stale_after(self.presence_refresh);
        let claimed = self.store == RoomLocation::Mesh;
        let (capacity, max_waiting, remembered) = (self.capacity, Some(MAX_WAITING_CLIENTS), self.remembered);
        Rules { capacity, max_waiting, stale, claimed, remembered, ..Rules::default() }
    }
}

impl FromStr for RoomLocation {
    type Err = String;

    /// Errors never quote the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let why = "is `mesh`, `redis://[user:password@]host:port[/database]`, `redis-cluster://host:port,host:port` or \
             `redis-sentinel://[user:password@]host:port,host:port/master[/database]`";
        match text {
            "mesh" => Ok(Self::Mesh),
            url if [SINGLE, CLUSTER, SENTINEL].iter().any(|scheme| url.starts_with(scheme)) => {
                // A store connects at first use, so this checks only the syntax.
                match RedisStore::new(url, Rules::default(), Clock::Own) {
                    Ok(_) => Ok(Self::Redis(url.into())),
                    Err(_) => Err(why.into()),
                }
            }
            _ => Err(why.into()),
        }
    }
}

impl RoomLocation {
    /// Adds the password in a file's content to the URL of each Redis server. Sentinels get none.
    ///
    /// # Errors
    /// If the rooms are at the nodes, the URL has a password, or the file is empty or not one line
    /// without control characters. Never quotes the password.
    pub fn with_password(self, content: &[u8]) -> Result<Self, &'static str> {
        let Self::Redis(url) = &self else { return Err("requires a Redis in --room-store, which is `mesh`") };
        let password = content.trim_ascii();
        if password.is_empty() || password.iter().any(u8::is_ascii_control) {
            return Err("must hold a password in one line");
        }
        let password = percent_encoded(password);
        let (scheme, servers) = servers_of(url);
        let with = |server: &str| match server.rsplit_once('@') {
            None => Ok(format!(":{password}@{server}")),
            Some((user, place)) if !user.contains(':') => Ok(format!("{user}:{password}@{place}")),
            Some(_) => Err("has a password, and so has --room-store: remove the one in --room-store"),
        };
        let servers = servers.into_iter().map(with).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Redis(format!("{scheme}{}", servers.join(",")).into()))
    }
}

const SINGLE: &str = "redis://";
const CLUSTER: &str = "redis-cluster://";
const SENTINEL: &str = "redis-sentinel://";

/// Splits an address into its scheme and one part per server. All sentinels lead to one server.
fn servers_of(url: &str) -> (&'static str, Vec<&str>) {
    if let Some(servers) = url.strip_prefix(CLUSTER) {
        return (CLUSTER, servers.split(',').collect());
    }
    match url.strip_prefix(SENTINEL) {
        Some(master) => (SENTINEL, vec![master]),
        None => (SINGLE, vec![url.strip_prefix(SINGLE).unwrap_or(url)]),
    }
}

/// Escapes bytes for the user part of a URL (RFC 3986 section 3.2.1).
fn percent_encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        // Writing to a string cannot fail.
        let _ = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => write!(text, "{}", char::from(byte)),
            _ => write!(text, "%{byte:02X}"),
        };
        text
    })
}

impl fmt::Display for RoomLocation {
    /// Omits users and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mesh => f.write_str("mesh"),
            Self::Redis(url) => {
                // Options of sentinels contain their password.
                let (scheme, servers) = servers_of(url.split_once('?').map_or(url, |(url, _)| url));
                let place = |server: &str| server.rsplit_once('@').map_or(server, |(_, place)| place).to_owned();
                write!(f, "{scheme}{}", servers.into_iter().map(place).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl fmt::Debug for RoomLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Parses `--room-store` for clap, with errors as values: clap would quote the invalid text.
pub(crate) fn parse_location(text: &str) -> Result<Result<RoomLocation, String>, Infallible> {
    Ok(text.parse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_its_password() {
        let at: RoomLocation = "redis://:secret@127.0.0.1:6379/2".parse().unwrap();
        assert_eq!(format!("{at} {at:?}"), "redis://127.0.0.1:6379/2 redis://127.0.0.1:6379/2");
        let cluster: RoomLocation = "redis-cluster://:secret@10.0.0.1:1,u:secret@10.0.0.2:2".parse().unwrap();
        assert_eq!(cluster.to_string(), "redis-cluster://10.0.0.1:1,10.0.0.2:2");
        let sentinels: RoomLocation =
            "redis-sentinel://u:secret@10.0.0.1:1,10.0.0.2/rooms/2?sentinelPassword=secret".parse().unwrap();
        assert_eq!(sentinels.to_string(), "redis-sentinel://10.0.0.1:1,10.0.0.2/rooms/2");
        assert_eq!(format!("{:?}", parse_location("redis://:secret@h").unwrap()), "Ok(redis://h)");
        assert_eq!("mesh".parse::<RoomLocation>().unwrap(), RoomLocation::Mesh);
        assert!("http://127.0.0.1".parse::<RoomLocation>().is_err());
    }

    #[test]
    fn invalid_address_is_not_quoted() {
        for bad in [
            "http://:secret@127.0.0.1",
            "redis://:secret@",
            "redis://:secret@127.0.0.1/two",
            "redis-cluster://:se,cret@h",
            "redis-sentinel://:secret@h:1",
            "redis-sentinel://h:1/rooms?sentinelPassword=sec@ret",
        ] {
            let why = bad.parse::<RoomLocation>().unwrap_err();
            assert!(!why.contains("cret") && !why.contains("two"), "{why}");
        }
    }

    #[test]
    fn password_comes_from_a_file() {
        let with = |url: &str, content: &str| url.parse::<RoomLocation>().unwrap().with_password(content.as_bytes());
        let redis = |url: &str| Ok(RoomLocation::Redis(url.into()));
        assert_eq!(with("redis://h:1/2", "secret\n"), redis("redis://:secret@h:1/2"));
        assert_eq!(with("redis://me@h:1", "a/b:c@d,e%"), redis("redis://me:a%2Fb%3Ac%40d%2Ce%25@h:1"));
        assert_eq!(with("redis-cluster://h:1,me@h:2", "p"), redis("redis-cluster://:p@h:1,me:p@h:2"));
        assert_eq!(
            with("redis-sentinel://h:1,h:2/rooms?sentinelPassword=s", "p"),
            redis("redis-sentinel://:p@h:1,h:2/rooms?sentinelPassword=s")
        );
        assert_eq!(with("redis://h:1", "a/b:c@d,e%").unwrap().to_string(), "redis://h:1");
        assert!("redis://:a%2Fb%3Ac%40d%2Ce%25@h:1".parse::<RoomLocation>().is_ok());
        for (url, content, part) in [
            ("mesh", "secret", "mesh"),
            ("redis://:other@h:1", "secret", "remove the one in --room-store"),
            ("redis://h:1", " \n", "one line"),
            ("redis://h:1", "secret\nsecret", "one line"),
        ] {
            let why = with(url, content).unwrap_err();
            assert!(why.contains(part) && !why.contains("secret"), "{why}");
        }
    }
}
