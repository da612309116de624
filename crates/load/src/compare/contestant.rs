//! Servers under comparison, for `compare`: programs, configurations and order in a round.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use signaling_devmesh::{Binaries, find_in_path};

use crate::message::Wire;

/// A server under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// This mesh's balancer.
    Balancer,
    /// nginx in front of the nodes' public listeners.
    Nginx,
    /// HAProxy in front of the nodes' public listeners.
    Haproxy,
    /// The npm package `peer`, a server of PeerJS clients.
    Peer,
    /// The server of the npm package `y-webrtc`.
    YWebrtc,
}

impl Contestant {
    /// Returns the servers of a protocol, in table order.
    pub(super) fn serving(wire: Wire) -> &'static [Self] {
        match wire {
            Wire::Native => &[Self::Balancer, Self::Nginx, Self::Haproxy],
            Wire::Peerjs => &[Self::Balancer, Self::Peer],
            Wire::YWebrtc => &[Self::Balancer, Self::YWebrtc],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Balancer => "balancer",
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Peer => "peer",
            Self::YWebrtc => "y-webrtc",
        }
    }

    /// Returns `true` if it forwards messages to the nodes of the mesh.
    pub(super) fn has_nodes(self) -> bool {
        !matches!(self, Self::Peer | Self::YWebrtc)
    }
}

/// Returns the order of a round (from 0), which begins with another contestant each time.
pub(super) fn order(contestants: &[Contestant], round: u32) -> Vec<Contestant> {
    let mut order = contestants.to_vec();
    let first = round as usize % order.len().max(1);
    order.rotate_left(first);
    order
}

/// A node's name and public listener.
pub(super) type Backend = (String, SocketAddr);

const NGINX: &str = include_str!("nginx.conf");
const HAPROXY: &str = include_str!("haproxy.cfg");

/// Returns `nginx.conf` for a proxy that stays in the foreground and keeps all its files in `dir`.
pub(super) fn nginx_config(listen: SocketAddr, backends: &[Backend], dir: &Path) -> String {
    let owner = |(node, address): &Backend| format!("        {node} {address};\n");
    NGINX
        .replace("@LISTEN@", &listen.to_string())
        .replace("@OWNERS@", &backends.iter().map(owner).collect::<String>())
        .replace("@DIR@", &dir.display().to_string())
}

/// Returns `haproxy.cfg` for a proxy that logs nothing.
pub(super) fn haproxy_config(listen: SocketAddr, backends: &[Backend]) -> String {
    let backend = |(node, address): &Backend| format!("backend {node}\n    server {node} {address}\n");
    HAPROXY
        .replace("@LISTEN@", &listen.to_string())
        .replace("@BACKENDS@\n", &backends.iter().map(backend).collect::<String>())
}

/// Programs of the contestants, found before anything is started.
pub(super) struct Programs {
    /// Programs of the mesh; `None` if no contestant needs them.
    pub(super) mesh: Option<Binaries>,
    /// Programs of all contestants but the balancer, which the mesh starts.
    pub(super) by_contestant: BTreeMap<Contestant, PathBuf>,
}

impl Programs {
    /// Finds the servers of the mesh in `bin_dir` or beside this program, and all others in `PATH`.
    /// Fails if one is missing.
    pub(super) fn find(contestants: &[Contestant], bin_dir: Option<&Path>) -> Result<Self> {
        let has_nodes = contestants.iter().any(|contestant| contestant.has_nodes());
        let mut by_contestant = BTreeMap::new();
        for contestant in contestants {
            let (name, installation) = match contestant {
                Contestant::Balancer => continue,
                Contestant::Nginx => ("nginx", "make deps-bench"),
                Contestant::Haproxy => ("haproxy", "make deps-bench"),
                Contestant::Peer => ("peerjs", "npm install --global peer"),
                Contestant::YWebrtc => ("y-webrtc-signaling", "npm install --global y-webrtc"),
            };
            let missing = || format!("there is no {name}: run `{installation}`, or name the others with --only");
            by_contestant.insert(*contestant, find_in_path(name).with_context(missing)?);
        }
        Ok(Self { mesh: has_nodes.then(|| Binaries::locate(bin_dir)).transpose()?, by_contestant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_begin_with_each_contestant_in_turn() {
        let all = Contestant::value_variants();
        for (round, first) in (0..).zip(all) {
            let mut order = order(all, round);
            assert_eq!(order[0], *first);
            order.sort_unstable();
            assert_eq!(order, all);
        }
    }

    #[test]
    fn proxies_route_to_the_node_of_the_client() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let backends = [("node-0".to_owned(), address(9_000)), ("node-1".to_owned(), address(9_001))];
        let nginx = nginx_config(address(8_000), &backends, Path::new("/tmp/here"));
        let haproxy = haproxy_config(address(8_000), &backends);

        for line in [
            "map $arg_node $owner {\n        node-0 127.0.0.1:9000;\n        node-1 127.0.0.1:9001;\n",
            "listen 127.0.0.1:8000 ",
            "proxy_pass http://$owner;",
        ] {
            assert!(nginx.contains(line), "{line} is missing");
        }
        let names_a_file = |line: &&str| ["_temp_path", "pid ", "_log /"].iter().any(|word| line.contains(word));
        let files: Vec<&str> = nginx.lines().filter(names_a_file).collect();
        assert_eq!(files.len(), 7);
        assert!(files.iter().all(|line| line.contains(" /tmp/here/")), "{nginx}");
        for line in [
            "bind 127.0.0.1:8000 ",
            "use_backend %[url_param(node)]\nbackend node-0\n    server node-0 127.0.0.1:9000\n\
             backend node-1\n    server node-1 127.0.0.1:9001\n",
        ] {
            assert!(haproxy.contains(line), "{line} is missing");
        }
        assert!(!nginx.contains('@') && !haproxy.contains('@'));
    }
}
