//! Addresses of internal listeners, from flags, discovery and views.

use std::net::Ipv6Addr;

/// Maximum length of a host name, in bytes.
const MAX_HOST: usize = 253;

signaling_protocol::checked_texts! {
    /// `HOST:PORT` of a node's internal listener, valid in a URL as it is. The host is a name or
    /// IPv4 address of 1 to 253 `A-Z a-z 0-9 . - _`, or an IPv6 address in brackets. The port is
    /// not 0.
    Address, check, AddressError;
}

impl Address {
    /// Returns the host, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.as_str().rsplit_once(':').map_or(self.as_str(), |(host, _)| host)
    }
}

/// The error of a text that is no address. Its text has the fault and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(&'static str);

const NO_PORT: AddressError = AddressError("has no port: write HOST:PORT");
const BAD_HOST: AddressError =
    AddressError("has no valid host: write a name, an IPv4 address, or an IPv6 address in brackets, before :PORT");
const BAD_PORT: AddressError = AddressError("has no valid port: it is a number from 1 to 65535");

fn check(text: &str) -> Result<(), AddressError> {
    let (host, port) = text.rsplit_once(':').ok_or(NO_PORT)?;
    if !is_host(host) {
        return Err(BAD_HOST);
    }
    // `u16` would take a sign too.
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(BAD_PORT);
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_the_address_without_the_port() {
        for (address, host) in [("node-0.nodes:7900", "node-0.nodes"), ("[::1]:1", "[::1]")] {
            assert_eq!(address.parse::<Address>().unwrap().host(), host);
        }
    }

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
