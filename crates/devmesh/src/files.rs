use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Content of `DIR/mesh.json`: the running servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshFile {
    /// Balancers by number.
    pub balancers: Vec<BalancerEntry>,
    /// Nodes by number.
    pub nodes: Vec<NodeEntry>,
    /// `redis://HOST:PORT/` of a mesh with `--redis`, otherwise `None`.
    pub redis: Option<String>,
    /// Path of the file with the admin token of its servers. `None` in a file of an older release.
    #[serde(default)]
    pub admin_token_file: Option<String>,
}

/// A running balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerEntry {
    /// `balancer-N`.
    pub id: String,
    /// URL for clients, `ws://HOST:PORT` without a path.
    pub url: String,
    /// The internal listener, `http://HOST:PORT`.
    pub internal: String,
    /// Its process id.
    pub pid: u32,
}

/// A running node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// `node-N`.
    pub id: String,
    /// The internal listener, `http://HOST:PORT`.
    pub internal: String,
    /// URL for direct clients, `ws://HOST:PORT` without a path.
    pub public: String,
    /// Its process id.
    pub pid: u32,
}

/// A running node or balancer.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// `node-N` or `balancer-N`.
    pub id: &'a str,
    /// The internal listener, `http://HOST:PORT`.
    pub internal: &'a str,
    /// URL for clients, `ws://HOST:PORT` without a path.
    pub url: &'a str,
    /// Its process id.
    pub pid: u32,
}

/// One entry of `DIR/nodes.json`, the discovery file that all servers watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredNode {
    /// `node-N`.
    pub id: String,
    /// `HOST:PORT` of the internal listener.
    pub address: String,
    /// `true` once it drains, until its end.
    pub draining: bool,
}

impl MeshFile {
    /// Reads `mesh.json` of the mesh in `dir`.
    ///
    /// # Errors
    /// If there is no valid file. Without one no mesh runs there, or it is not ready yet.
    pub fn read(dir: impl AsRef<Path>) -> Result<Self> {
        let path = dir.as_ref().join("mesh.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}; is `mesh-dev up` running there, and ready?", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a mesh file", path.display()))
    }

    /// Returns all servers, the nodes first.
    pub fn servers(&self) -> impl Iterator<Item = Server<'_>> {
        let nodes =
            self.nodes.iter().map(|it| Server { id: &it.id, internal: &it.internal, url: &it.public, pid: it.pid });
        let balancers =
            self.balancers.iter().map(|it| Server { id: &it.id, internal: &it.internal, url: &it.url, pid: it.pid });
        nodes.chain(balancers)
    }

    /// Reads the admin token of the servers. Returns `None` if no file is named.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn admin_token(&self) -> Result<Option<String>> {
        let Some(path) = &self.admin_token_file else { return Ok(None) };
        let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        Ok(Some(token.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mesh_file_keeps_its_json_format() {
        let json = serde_json::json!({
            "balancers": [{"id": "balancer-0", "url": "ws://127.0.0.1:8080", "internal": "http://127.0.0.1:4001", "pid": 7}],
            "nodes": [{"id": "node-0", "internal": "http://127.0.0.1:4002", "public": "ws://127.0.0.1:4003", "pid": 8}],
            "redis": null,
            "admin_token_file": "/tmp/mesh/admin.secret",
        });
        let file: MeshFile = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(file).unwrap(), json);
    }
}
