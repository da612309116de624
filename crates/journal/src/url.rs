//! The address of a journal as text: checked, shown without passwords, joined with one of a file.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::address::Address;

const SINGLE: &str = "redis://";
pub(crate) const CLUSTER: &str = "redis-cluster://";
pub(crate) const SENTINEL: &str = "redis-sentinel://";

/// A valid address of a journal, which may contain a password. It is shown without users and
/// passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct JournalUrl(Box<str>);

impl FromStr for JournalUrl {
    type Err = String;

    /// Errors never quote the text, which may contain a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_known = [SINGLE, CLUSTER, SENTINEL].iter().any(|scheme| text.starts_with(scheme));
        if is_known && Address::parse(text).is_ok() {
            return Ok(Self(text.into()));
        }
        Err("is no address of a Redis: write `redis://[user:password@]host:port[/database]`, \
             `redis-cluster://host:port,host:port` or \
             `redis-sentinel://[user:password@]host:port,host:port/master[/database]`"
            .to_owned())
    }
}

impl JournalUrl {
    /// Adds the password in a file's content to each Redis server. Sentinels get none.
    ///
    /// # Errors
    /// If the address has a password, or the file is empty or not one line without control
    /// characters. Never quotes the password.
    pub fn with_password(&self, content: &[u8]) -> Result<Self, &'static str> {
        let password = content.trim_ascii();
        if password.is_empty() || password.iter().any(u8::is_ascii_control) {
            return Err("must hold a password in one line");
        }
        let password = percent_encoded(password);
        let (scheme, servers) = servers_of(&self.0);
        let with = |server: &str| match server.rsplit_once('@') {
            None => Ok(format!(":{password}@{server}")),
            Some((user, place)) if !user.contains(':') => Ok(format!("{user}:{password}@{place}")),
            Some(_) => Err("has a password, and so has --room-journal: remove the one in --room-journal"),
        };
        let servers = servers.into_iter().map(with).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(format!("{scheme}{}", servers.join(",")).into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

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

impl fmt::Display for JournalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Options of sentinels contain their password.
        let url = self.0.split_once('?').map_or(&*self.0, |(url, _)| url);
        let (scheme, servers) = servers_of(url);
        let place = |server: &str| server.rsplit_once('@').map_or(server, |(_, place)| place).to_owned();
        write!(f, "{scheme}{}", servers.into_iter().map(place).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Debug for JournalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://:secret@127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
            ("redis-cluster://:secret@10.0.0.1:1,u:secret@10.0.0.2:2", "redis-cluster://10.0.0.1:1,10.0.0.2:2"),
            (
                "redis-sentinel://u:secret@10.0.0.1:1,10.0.0.2/rooms/2?sentinelPassword=secret",
                "redis-sentinel://10.0.0.1:1,10.0.0.2/rooms/2",
            ),
        ] {
            let parsed: JournalUrl = url.parse().unwrap();
            assert_eq!(format!("{parsed} {parsed:?}"), format!("{shown} {shown}"));
        }
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
            let why = bad.parse::<JournalUrl>().unwrap_err();
            assert!(!why.contains("cret") && !why.contains("two"), "{why}");
        }
    }

    #[test]
    fn password_comes_from_a_file() {
        let with = |url: &str, content: &str| url.parse::<JournalUrl>().unwrap().with_password(content.as_bytes());
        let redis = |url: &str| Ok(JournalUrl(url.into()));
        assert_eq!(with("redis://h:1/2", "secret\n"), redis("redis://:secret@h:1/2"));
        assert_eq!(with("redis://me@h:1", "a/b:c@d,e%"), redis("redis://me:a%2Fb%3Ac%40d%2Ce%25@h:1"));
        assert_eq!(with("redis-cluster://h:1,me@h:2", "p"), redis("redis-cluster://:p@h:1,me:p@h:2"));
        assert_eq!(
            with("redis-sentinel://h:1,h:2/rooms?sentinelPassword=s", "p"),
            redis("redis-sentinel://:p@h:1,h:2/rooms?sentinelPassword=s")
        );
        for (url, content, part) in [
            ("redis://:other@h:1", "secret", "remove the one in --room-journal"),
            ("redis://h:1", " \n", "one line"),
            ("redis://h:1", "secret\nsecret", "one line"),
        ] {
            let why = with(url, content).unwrap_err();
            assert!(why.contains(part) && !why.contains("secret"), "{why}");
        }
    }
}
