//! Host names of pages at the internal listener that need no token. A page of another site cannot
//! read them by a name that it resolves to this server (DNS rebinding). `run` of both servers
//! guards `/metrics` and `/dashboard`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::StatusCode;
use http::header::HOST;
use http::uri::Authority;
use nix::unistd::gethostname;
use signaling_protocol::NodeId;

use super::refusal;

/// Host names that a request may have. IP literals and `localhost` are always among them.
#[derive(Debug, Clone)]
pub struct Hosts(Arc<BTreeSet<String>>);

impl Hosts {
    /// Creates the set of the server's id, the machine's host name and these names.
    pub fn new(id: &NodeId, names: &[String]) -> Self {
        let machine = gethostname().ok().and_then(|name| name.into_string().ok());
        let own = ["localhost", id.as_str()].map(str::to_owned);
        let names = own.into_iter().chain(machine).chain(names.iter().cloned());
        Self(Arc::new(names.map(|name| name.to_ascii_lowercase()).collect()))
    }

    /// Makes these routes answer 421 to a request with another host name or without one.
    pub fn guard(self, routes: Router) -> Router {
        routes.route_layer(from_fn_with_state(self, require_host))
    }

    /// Returns `true` if the value of a `Host` header is an IP literal or one of the names.
    fn contain(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        literal.parse::<IpAddr>().is_ok() || self.0.contains(&name.to_ascii_lowercase())
    }
}

async fn require_host(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    // The host of an absolute target takes precedence (RFC 9112 section 3.2.2).
    let target = request.uri().authority().map(Authority::as_str);
    let host = target.or_else(|| request.headers().get(HOST)?.to_str().ok());
    if host.is_some_and(|host| hosts.contain(host)) {
        return next.run(request).await;
    }
    let message = "this server is not known by this host name: use its IP address, or name it in --internal-hosts";
    refusal(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message, None)
}

/// Parses a name for [`Hosts::new`]: a host name without a port.
///
/// # Errors
/// If the text is none.
pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    let is_name = |text: &&str| text.parse::<Authority>().is_ok_and(|authority| authority.host() == *text);
    Some(text).filter(is_name).map(str::to_owned).ok_or_else(|| "use a host name without a port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_contain_literals_and_the_servers_names() {
        let hosts = Hosts::new(&NodeId::new("node-1").unwrap(), &["Metrics.example".to_owned()]);
        let machine = gethostname().unwrap().into_string().unwrap();
        for host in
            ["10.0.0.1", "127.0.0.1:7900", "[::1]:7900", "localhost:80", "NODE-1:7900", &machine, "metrics.Example:1"]
        {
            assert!(hosts.contain(host), "{host}");
        }
        for host in
            ["evil.example", "node-1.evil.example", "localhost.evil.example:7900", "10.0.0.1.example", "", "a b"]
        {
            assert!(!hosts.contain(host), "{host}");
        }
    }

    #[test]
    fn host_with_a_port_is_no_setting() {
        assert_eq!(parse_host("metrics.example").as_deref(), Ok("metrics.example"));
        for other in ["", "a:80", "http://a", "a/b", "a b"] {
            assert!(parse_host(other).is_err(), "{other}");
        }
    }
}
