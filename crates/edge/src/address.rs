//! Client addresses: the remote end of the socket, or the address that a trusted proxy reports.
//! There is one per connection and one per request.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;
use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Of nginx, by convention.
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// Maximum PROXY header in bytes. The protocol requires receivers to accept this length.
const MAX_PROXY_HEADER: usize = 536;
/// Bytes of the fixed front: a signature, two bytes of type, and two with the length of the rest.
const PROXY_FRONT: usize = SIGNATURE.len() + 4;
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const ONLY_ADDRESSES: ParseConfig = ParseConfig { include_tlvs: false, allow_v1: false, allow_v2: true };

/// Source of clients' addresses, with networks of trusted proxies. Other peers have their socket's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ClientAddresses {
    /// The remote end of the socket.
    #[default]
    Socket,
    /// The `X-Forwarded-For` of a trusted proxy: the last address in it that is no trusted proxy.
    /// Addresses before an invalid one are ignored. If all others are trusted, the first of them
    /// counts; without any the proxy's own.
    XForwardedFor(Arc<[IpNet]>),
    /// The PROXY protocol, version 2, at the start of each connection of a trusted proxy. Without a
    /// valid header the connection is closed.
    ProxyV2(Arc<[IpNet]>),
}

/// A connection of a trusted proxy without a PROXY header of version 2 of at most 536 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection of a trusted proxy does not begin with a PROXY header of version 2")]
pub(super) struct NoProxyHeader;

impl ClientAddresses {
    /// Returns `true` if connections of the peer, a trusted proxy, carry requests of many clients.
    pub(super) fn is_shared(&self, peer: IpAddr) -> bool {
        matches!(self, Self::XForwardedFor(trusted) if contain(trusted, peer))
    }

    /// Returns `true` if the request names a client address by a header, and no header is trusted.
    pub(super) fn ignores(&self, headers: &HeaderMap) -> bool {
        *self == Self::Socket
            && [FORWARDED_FOR, header::FORWARDED, REAL_IP].iter().any(|name| headers.contains_key(name))
    }

    /// Reads the PROXY header of a trusted proxy, before HTTP or TLS. Returns the client's address,
    /// `peer` for other connections. IPv4-mapped addresses become IPv4.
    pub(super) async fn of_connection(
        &self,
        stream: &mut TcpStream,
        peer: SocketAddr,
    ) -> Result<SocketAddr, NoProxyHeader> {
        let peer = canonical(peer);
        match self {
            Self::ProxyV2(trusted) if contain(trusted, peer.ip()) => {}
            _ => return Ok(peer),
        }
        let mut header = [0; MAX_PROXY_HEADER];
        let (front, rest) = header.split_at_mut(PROXY_FRONT);
        stream.read_exact(front).await.map_err(|_| NoProxyHeader)?;
        let length = length_of(front).ok_or(NoProxyHeader)?;
        let rest = rest.get_mut(..length).ok_or(NoProxyHeader)?;
        stream.read_exact(rest).await.map_err(|_| NoProxyHeader)?;
        source_of(&header[..PROXY_FRONT + length], peer).ok_or(NoProxyHeader)
    }

    /// Returns the client address of a request on a connection of `peer`, port 0 if forwarded.
    pub(super) fn of_request(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        let Self::XForwardedFor(trusted) = self else { return peer };
        if !contain(trusted, peer.ip()) {
            return peer;
        }
        // From nearest to farthest. A trusted proxy writes only valid hops; others end the search.
        let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
        // An unreadable line counts as an invalid hop.
        let hops = lines.iter().rev().flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        let mut nearest = peer;
        for hop in hops {
            let Some(address) = read_hop(hop) else { break };
            nearest = SocketAddr::new(address, 0);
            if !contain(trusted, address) {
                break;
            }
        }
        nearest
    }
}

impl FromStr for ClientAddresses {
    type Err = String;

    /// Parses `socket`, `x-forwarded-for:RANGES` or `proxy-v2:RANGES`. `RANGES` is at least one
    /// network, separated by commas. An error names the remedy.
    fn from_str(text: &str) -> Result<Self, String> {
        let (source, ranges) = text.split_once(':').unwrap_or((text, ""));
        let source = match source {
            "socket" if text == source => return Ok(Self::Socket),
            "x-forwarded-for" => Self::XForwardedFor,
            "proxy-v2" => Self::ProxyV2,
            _ => return Err("use socket, x-forwarded-for:RANGES or proxy-v2:RANGES".into()),
        };
        let read = |range: &str| {
            let why = || format!("{range:?} is no network like 10.0.0.0/8 or fd00::/8");
            range.trim().parse::<IpNet>().map_err(|_| why())
        };
        Ok(source(ranges.split(',').map(read).collect::<Result<_, _>>()?))
    }
}

fn contain(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Returns the number of bytes after the front of a PROXY header; `None` without its signature.
fn length_of(front: &[u8]) -> Option<usize> {
    let rest = front.strip_prefix(SIGNATURE)?;
    Some(usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?])))
}

/// Returns the source of a whole PROXY header: the proxy's own for `LOCAL` and for Unix sockets.
fn source_of(header: &[u8], proxy: SocketAddr) -> Option<SocketAddr> {
    let (header, _) = ProxyHeader::parse(header, ONLY_ADDRESSES).ok()?;
    Some(header.proxied_address().map_or(proxy, |address| canonical(address.source)))
}

/// Parses `ADDRESS`, `ADDRESS:PORT`, or `[ADDRESS]` with or without a port.
fn read_hop(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let address = hop
        .parse::<IpAddr>()
        .ok()
        .or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok())?;
    Some(address.to_canonical())
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    fn of_request(peer: &str, lines: &[&str]) -> String {
        let addresses: ClientAddresses = "x-forwarded-for:10.0.0.0/8,fd00::/8".parse().unwrap();
        let value = |line: &str| HeaderValue::from_bytes(line.as_bytes()).unwrap();
        let headers = lines.iter().map(|line| (FORWARDED_FOR, value(line))).collect();
        addresses.of_request(SocketAddr::new(peer.parse().unwrap(), 5), &headers).ip().to_string()
    }

    #[test]
    fn forwarded_for_ends_at_the_first_untrusted_hop() {
        for (lines, client) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1, 10.2.3.4"], "192.0.2.1"),
            (&["203.0.113.9", "192.0.2.1", "10.2.3.4,10.2.3.5"], "192.0.2.1"),
            (&["192.0.2.1:4711"], "192.0.2.1"),
            (&["[2001:db8::1]:443, fd00::1"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            (&["10.9.9.9, 10.2.3.4"], "10.9.9.9"),
            (&[], "10.0.0.1"),
            (&["unknown"], "10.0.0.1"),
            (&["192.0.2.1, nonsense, 10.2.3.4"], "10.2.3.4"),
            (&["192.0.2.1, "], "10.0.0.1"),
            (&["203.0.113.9", "näher", "10.2.3.4"], "10.2.3.4"),
            (&["203.0.113.9", "192.0.2.1, näher"], "10.0.0.1"),
        ] {
            assert_eq!(of_request("10.0.0.1", lines), client, "{lines:?}");
        }
    }

    #[test]
    fn forwarded_for_of_an_untrusted_peer_is_ignored() {
        assert_eq!(of_request("192.0.2.7", &["203.0.113.9"]), "192.0.2.7");
        let headers = [(FORWARDED_FOR, HeaderValue::from_static("192.0.2.1"))].into_iter().collect();
        let peer = "10.0.0.1:5".parse().unwrap();
        for other in [ClientAddresses::Socket, "proxy-v2:10.0.0.0/8".parse().unwrap()] {
            assert_eq!(other.of_request(peer, &headers), peer);
        }
    }

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &length, body, b"GET /"].concat()
    }

    #[tokio::test]
    async fn proxy_header_names_the_client_or_fails_and_is_consumed() {
        let v4 = [192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x34, 0, 80];
        let with_more = [&v4[..], &[4, 0, 1, 42]].concat();
        let v6 = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat();
        let v6 = [&v6[..], &[0, 1, 0, 2]].concat();
        for (bytes, client) in [
            (header(0x21, 0x11, &v4), Some("192.0.2.1")),
            (header(0x21, 0x11, &with_more), Some("192.0.2.1")),
            (header(0x21, 0x21, &v6), Some("2001:db8::1")),
            (header(0x20, 0x00, b""), Some("127.0.0.1")),
            (header(0x31, 0x11, &v4), None),
            (header(0x21, 0x11, &v4[..11]), None),
            (header(0x21, 0x11, &v4)[..20].to_vec(), None),
            (header(0x21, 0x11, &[0; 600]), None),
            (b"PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n".to_vec(), None),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut stream, peer) = listener.accept().await.unwrap();
            sender.write_all(&bytes).await.unwrap();
            drop(sender);
            let addresses: ClientAddresses = "proxy-v2:127.0.0.0/8".parse().unwrap();
            let found = addresses.of_connection(&mut stream, peer).await.ok();
            assert_eq!(found.map(|address| address.ip().to_string()).as_deref(), client, "{bytes:?}");
            if client.is_some() {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await.unwrap();
                assert_eq!(rest, b"GET /", "{bytes:?}");
            }
        }
    }
}
