//! Addresses of a journal: one server, a cluster, or the sentinels that name the current master.
//! `url` checks them, and `link` connects to them.

use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::sentinel::SentinelNodeConnectionInfo;
use redis::{Client, ConnectionInfo, ErrorKind, IntoConnectionInfo as _, RedisError, RedisResult};

use super::link::CALL_TIMEOUT;
use super::url::{CLUSTER, SENTINEL};

/// Time limit for making a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Default port of a sentinel.
const SENTINEL_PORT: u16 = 26379;

/// A parsed address.
pub(super) enum Address {
    /// `redis://[user:password@]host:port[/database]`.
    One(Client),
    /// `redis-cluster://host:port,host:port`, each with `user:password@` if it needs one.
    Cluster(ClusterClient),
    /// `redis-sentinel://[user:password@]host:port,host:port/master[/database]`, with
    /// `?sentinelUsername=USER&sentinelPassword=PASSWORD` if the sentinels need them.
    Sentinel(Sentinels),
}

/// Sentinels, and the name of their master.
pub(super) struct Sentinels {
    /// Addresses and credentials of the sentinels.
    pub(super) sentinels: Vec<ConnectionInfo>,
    /// Name of the master at the sentinels.
    pub(super) master: Box<str>,
    /// User, password and database for the master.
    pub(super) server: SentinelNodeConnectionInfo,
}

impl Address {
    /// Parses an address without connecting to it. Fails if it has none of the three forms, or if
    /// the query behind sentinels has other options.
    pub(super) fn parse(url: &str) -> RedisResult<Self> {
        if let Some(servers) = url.strip_prefix(CLUSTER) {
            let servers = servers.split(',').map(|server| format!("redis://{server}"));
            let builder = ClusterClient::builder(servers.collect::<Vec<_>>());
            let builder = builder.connection_timeout(CONNECT_TIMEOUT).response_timeout(CALL_TIMEOUT).retries(1);
            return builder.build().map(Self::Cluster);
        }
        match url.strip_prefix(SENTINEL) {
            Some(rest) => Sentinels::parse(rest).map(Self::Sentinel),
            None => Client::open(url).map(Self::One),
        }
    }
}

impl Sentinels {
    fn parse(rest: &str) -> RedisResult<Self> {
        let invalid = |why| RedisError::from((ErrorKind::InvalidClientConfig, why));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(user, rest)| (user, rest));
        let (hosts, path) = rest.split_once('/').ok_or(invalid("no master is named"))?;
        let (master, database) = path.split_once('/').unwrap_or((path, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if master.is_empty() || !master.bytes().all(is_name) {
            return Err(invalid("not the name of a master"));
        }
        let credentials = sentinel_credentials(query).ok_or(invalid("not the options of sentinels"))?;
        let sentinel = |host: &str| {
            let port = if has_port(host) { String::new() } else { format!(":{SENTINEL_PORT}") };
            format!("redis://{credentials}{host}{port}").into_connection_info()
        };
        // The client parses URLs only, so user, password and database pass through one.
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let server = format!("redis://{user}master/{database}").into_connection_info()?;
        Ok(Self {
            sentinels: hosts.split(',').map(sentinel).collect::<RedisResult<_>>()?,
            master: master.into(),
            server: SentinelNodeConnectionInfo::default().set_redis_connection_info(server.redis_settings().clone()),
        })
    }
}

/// Returns user and password for the sentinels themselves as `user:password@`, percent-encoded, or
/// an empty text without a password. `None`: the query has other options.
fn sentinel_credentials(query: &str) -> Option<String> {
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%!$'()*+;".contains(&byte);
    let (mut user, mut password) = ("", None);
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=')?;
        match name {
            _ if !value.bytes().all(is_encoded) => return None,
            "sentinelUsername" => user = value,
            "sentinelPassword" => password = Some(value),
            _ => return None,
        }
    }
    Some(password.map(|password| format!("{user}:{password}@")).unwrap_or_default())
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok() && !host.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use redis::ConnectionAddr;

    use super::*;

    fn sentinels(url: &str) -> Sentinels {
        match Address::parse(url) {
            Ok(Address::Sentinel(sentinels)) => sentinels,
            _ => panic!("{url}"),
        }
    }

    #[test]
    fn sentinel_address_names_sentinels_master_and_database() {
        let parsed = sentinels("redis-sentinel://10.0.0.1:1,h,[::1]/rooms.eu/3");
        let tcp = |host: &str, port| ConnectionAddr::Tcp(host.to_owned(), port);
        let addresses: Vec<_> = parsed.sentinels.iter().map(|info| info.addr().clone()).collect();
        assert_eq!(addresses, [tcp("10.0.0.1", 1), tcp("h", 26379), tcp("::1", 26379)]);
        assert_eq!(&*parsed.master, "rooms.eu");
        assert!(format!("{:?}", parsed.server).contains("db: 3"), "{:?}", parsed.server);
    }

    #[test]
    fn sentinel_password_is_separate_from_the_masters() {
        let url = "redis-sentinel://me:m%40ster@h:1/rooms?sentinelUsername=you&sentinelPassword=s%3A";
        let parsed = sentinels(url);
        let [sentinel] = &parsed.sentinels[..] else { panic!("one") };
        assert_eq!(sentinel.redis_settings().username(), Some("you"));
        assert_eq!(sentinel.redis_settings().password(), Some("s:"));
        assert!(format!("{:?}", parsed.server).contains("me"), "{:?}", parsed.server);
    }

    #[test]
    fn sentinel_address_is_refused_when_incomplete() {
        for bad in [
            "h:1",
            "h:1/",
            "/rooms",
            "h:1/rooms/one",
            "h:1/ro oms",
            "h:1/rooms?password=x",
            "h:1/rooms?sentinelPassword=a@b",
        ] {
            assert!(Address::parse(&format!("redis-sentinel://{bad}")).is_err(), "{bad}");
        }
    }
}
