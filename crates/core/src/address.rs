//! Addresses of internal listeners, from flags, discovery and views.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Maximum length of a host name, in bytes.
const MAX_HOST: usize = 253;

/// `HOST:PORT` of a node's internal listener, valid in a URL as it is. The host is a name or IPv4
/// address of 1 to 253 `A-Z a-z 0-9 . - _`, or an IPv6 address in brackets. The port is not 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(Arc<str>);

/// The error of a text that is no address. Its text has the fault and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(&'static str);

const NO_PORT: AddressError = AddressError("has no port: write HOST:PORT");
const BAD_HOST: AddressError =
    AddressError("has no valid host: write a name, an IPv4 address, or an IPv6 address in brackets, before :PORT");
const BAD_PORT: AddressError = AddressError("has no valid port: it is a number from 1 to 65535");

impl Address {
    /// Returns the address as text, `HOST:PORT`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(NO_PORT)?;
        if !is_host(host) {
            return Err(BAD_HOST);
        }
        // `u16` would take a sign too.
        if !port.bytes().all(|byte| byte.is_ascii_digit()) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(BAD_PORT);
        }
        Ok(Self(text.into()))
    }
}

fn is_host(text: &str) -> bool {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => {
            (1..=MAX_HOST).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        }
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.as_str().into()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_both_kinds_of_ip_addresses_are_taken() {
        for good in ["127.0.0.1:1", "node-0.nodes:7900", "[::1]:65535", "my_host:80"] {
            assert_eq!(good.parse::<Address>().map(|address| address.to_string()).as_deref(), Ok(good));
        }
    }

    #[test]
    fn address_without_port_or_with_a_bad_one_is_refused() {
        assert_eq!("localhost".parse::<Address>(), Err(NO_PORT));
        for bad in ["a:", "a:0", "a:65536", "a:+80", "a:80 ", "a:x"] {
            assert_eq!(bad.parse::<Address>(), Err(BAD_PORT), "{bad:?}");
        }
    }

    #[test]
    fn host_that_would_change_a_url_is_refused() {
        for bad in [":80", "::1:80", "[::1:80", "[x]:80", "a/b:80", "user@a:80", "a b:80", "a?b:80", "a#b:80"] {
            assert_eq!(bad.parse::<Address>(), Err(BAD_HOST), "{bad:?}");
        }
        assert_eq!(format!("{}:80", "a".repeat(254)).parse::<Address>(), Err(BAD_HOST));
    }
}
