//! Detection of requests that a foreign web page may have sent, for servers without an admin token.
//! Browsers send the site of the page and the host of its URL. Both are checked, because a page
//! whose foreign name resolves to this server (DNS rebinding) has the same origin. Pure.

use std::net::{IpAddr, SocketAddr};

use ::http::header::{HOST, ORIGIN};
use ::http::uri::Authority;
use ::http::{HeaderMap, HeaderName, Uri};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Hosts that a request without a token may name: a loopback address, `localhost`, the bound
/// address (any, for a wildcard) and the names of this server.
#[derive(Debug, Clone)]
pub struct OwnHosts {
    bound: IpAddr,
    names: Box<[String]>,
}

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Foreign {
    /// A page of another site sent the request, or its headers are ambiguous.
    #[error("requests of other sites' pages are refused; set --admin-token-file, and send the token")]
    Page,
    /// The request names a host outside [`OwnHosts`], or several.
    #[error("the host is not this server; use its IP address, or set --admin-token-file, and send the token")]
    Host,
}

impl OwnHosts {
    /// Creates the hosts of a server bound to `bound`. `names` are its host names, without port.
    #[must_use]
    pub fn new(bound: SocketAddr, names: impl IntoIterator<Item = String>) -> Self {
        Self { bound: bound.ip().to_canonical(), names: names.into_iter().collect() }
    }

    /// Checks target and headers of a request. Returns an error if a web page may have sent it.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Foreign> {
        let site = single(headers, &SEC_FETCH_SITE).map_err(|_| Foreign::Page)?;
        if !matches!(site, None | Some("same-origin" | "none")) {
            return Err(Foreign::Page);
        }
        let header = single(headers, &HOST).map_err(|_| Foreign::Host)?;
        // A host in the request target overrides the header (RFC 9112 section 3.2.2).
        let Some(host) = uri.authority().map(Authority::as_str).or(header) else {
            // Every browser sends a host.
            let origin = single(headers, &ORIGIN).map_err(|_| Foreign::Page)?;
            return origin.map_or(Ok(()), |_| Err(Foreign::Page));
        };
        if !self.is_own(host) {
            return Err(Foreign::Host);
        }
        let origin = single(headers, &ORIGIN).map_err(|_| Foreign::Page)?;
        let is_of_host =
            |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        if origin.is_none_or(is_of_host) { Ok(()) } else { Err(Foreign::Page) }
    }

    fn is_own(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let host = authority.host();
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            // No name makes a browser send an address here. A server cannot list its own addresses:
            // those of services and forwarded ports are not the machine's.
            let address = address.to_canonical();
            return address.is_loopback() || self.bound.is_unspecified() || address == self.bound;
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        host.eq_ignore_ascii_case("localhost") || self.names.iter().any(|name| host.eq_ignore_ascii_case(name))
    }
}

/// Returns the header's value, if any; an error for two values, or one of not only visible ASCII.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: &str = "127.0.0.1:7900";
    const ANYWHERE: [&str; 2] = ["0.0.0.0:7900", "[::]:7900"];

    fn check(bound: &str, lines: &[(&str, &str)]) -> Result<(), Foreign> {
        let hosts = OwnHosts::new(bound.parse().unwrap(), ["node-1".to_owned()]);
        let line = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        hosts.check(&Uri::from_static("/admin/drain"), &lines.iter().map(line).collect())
    }

    #[test]
    fn programs_are_admitted_by_every_own_host() {
        for host in
            [LOCAL, "localhost:7900", "LOCALHOST.:1", "[::1]:7900", "[::ffff:127.0.0.1]", "node-1", "Node-1:7900"]
        {
            assert_eq!(check(LOCAL, &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(check(LOCAL, &[]), Ok(()), "programs may omit the host");
        assert_eq!(check("10.0.0.5:7900", &[("host", "10.0.0.5:7900")]), Ok(()));
    }

    #[test]
    fn wildcard_bind_admits_every_address_and_no_name() {
        for bound in ANYWHERE {
            for host in ["10.1.2.3:7900", "[fd00::5]:7900", "192.0.2.7"] {
                assert_eq!(check(bound, &[("host", host)]), Ok(()), "{host}");
            }
            for host in ["evil.example", "node-1.evil.example:7900", "10.1.2.3.evil.example", "localhost.evil.example"]
            {
                assert_eq!(check(bound, &[("host", host)]), Err(Foreign::Host), "{host}");
            }
        }
    }

    #[test]
    fn foreign_hosts_are_refused_however_same_their_origin() {
        for host in ["evil.example:7900", "10.0.0.9", "", "a b"] {
            let origin = format!("http://{host}");
            let lines = [("host", host), ("origin", &origin), ("sec-fetch-site", "same-origin")];
            assert_eq!(check(LOCAL, &lines), Err(Foreign::Host), "{host}");
        }
        assert_eq!(check(LOCAL, &[("host", LOCAL), ("host", LOCAL)]), Err(Foreign::Host));
        let hosts = OwnHosts::new(LOCAL.parse().unwrap(), []);
        let headers = [(HOST, LOCAL.parse().unwrap())].into_iter().collect();
        assert_eq!(hosts.check(&Uri::from_static("http://evil.example/admin/drain"), &headers), Err(Foreign::Host));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "http://127.0.0.1:8080"),
            ("origin", "http://127.0.0.1"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(check(LOCAL, &[("host", LOCAL), (name, value)]), Err(Foreign::Page), "{name}: {value}");
        }
        assert_eq!(check(LOCAL, &[("origin", "https://evil.example")]), Err(Foreign::Page));
    }

    #[test]
    fn pages_of_the_server_itself_are_admitted() {
        for site in ["same-origin", "none"] {
            let lines = [("host", LOCAL), ("origin", "http://127.0.0.1:7900"), ("sec-fetch-site", site)];
            assert_eq!(check(LOCAL, &lines), Ok(()), "{site}");
        }
    }
}
