//! Readers of what strangers send that are no part of the interface, for the fuzzer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::HeaderMap;
use signaling_protocol::ClientId;

use super::address::{AddressSource, ClientAddresses, of_proxy_header};
use super::query::Query;

/// Whose query this is, and what of it is handed on; none if it is refused.
#[must_use]
pub fn query(query: &str) -> Option<(ClientId, String)> {
    Query::parse(query).ok().map(|query| (query.client_id, query.rest))
}

/// Whom a proxy at 127.0.0.1 names that is trusted.
#[must_use]
pub fn address(headers: &HeaderMap) -> IpAddr {
    let proxy = Ipv4Addr::LOCALHOST.into();
    let addresses = ClientAddresses::new(AddressSource::XForwardedFor, [ipnet::IpNet::from(proxy)]);
    addresses.of_request(SocketAddr::new(proxy, 1), headers).ip()
}

/// Whom a PROXY header names that a connection of a trusted proxy begins with, and its length; none if there is none.
#[must_use]
pub fn proxy_header(bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    of_proxy_header(bytes, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1))
}
