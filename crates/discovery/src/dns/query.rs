//! Text form of a DNS query, for [`Source`](crate::Source).

use std::fmt;
use std::net::IpAddr;

use crate::SourceError;

/// Maximum length of a name (RFC 1035).
const MAX_NAME: usize = 253;

/// A query for the records of a mesh: `NAME:PORT` or `_SERVICE._tcp.NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuery {
    /// The DNS name; for SRV records with its labels `_SERVICE._tcp`.
    pub name: String,
    /// The port of all internal listeners, at the addresses of the name. `None`: the name has SRV
    /// records, each with a node and its port.
    pub port: Option<u16>,
}

const NO_PORT: &str = "dns: has no port; write dns:NAME:PORT, or dns:_SERVICE._tcp.NAME for SRV records";
const BAD_NAME: &str = "dns: has no valid name; write 1 to 253 of A-Z a-z 0-9 . - _, and no IP address";
const BAD_PORT: &str = "dns: has no valid port; write a number from 1 to 65535";
const PORT_OF_SERVICE: &str = "dns: has a port, but SRV records have their own; write dns:_SERVICE._tcp.NAME";

impl DnsQuery {
    pub(crate) fn parse(text: &str) -> Result<Self, SourceError> {
        let (name, port) = text.rsplit_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
        if !is_name(name) {
            return Err(BAD_NAME.into());
        }
        match (name.starts_with('_'), port) {
            (true, None) => Ok(Self { name: name.into(), port: None }),
            (true, Some(_)) => Err(PORT_OF_SERVICE.into()),
            (false, None) => Err(NO_PORT.into()),
            (false, Some(port)) => Ok(Self { name: name.into(), port: Some(parse_port(port)?) }),
        }
    }
}

fn parse_port(text: &str) -> Result<u16, SourceError> {
    // `parse` would accept a sign.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&port: &u16| digits && port > 0).ok_or(BAD_PORT.into())
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && text.parse::<IpAddr>().is_err()
}

impl fmt::Display for DnsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
