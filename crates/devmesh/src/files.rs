//! Formats of the files in a mesh's folder that other programs read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Content of `DIR/mesh.json`: the servers that run, also paused ones, except starting ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshFile {
    /// Balancers, by rising number.
    pub balancers: Vec<Server>,
    /// Nodes, by rising number.
    pub nodes: Vec<Server>,
    /// Path of the file with the admin token of all servers whose flags name no other file.
    pub admin_token_file: PathBuf,
    /// Path of the file with the HS256 secret of client tokens, which have [`TOKEN_AUDIENCE`] and
    /// [`TOKEN_ISSUER`]. `None` without `--tokens`.
    #[serde(default)]
    pub token_key_file: Option<PathBuf>,
}

/// Claim `aud` of client tokens of a mesh with `--tokens`.
pub const TOKEN_AUDIENCE: &str = "mesh";
/// Claim `iss` of client tokens of a mesh with `--tokens`.
pub const TOKEN_ISSUER: &str = "mesh-dev";

/// A running node or balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// `node-N` or `balancer-N`.
    pub id: String,
    /// URL for clients, `ws://HOST:PORT` without a path.
    pub url: String,
    /// The internal listener, `http://HOST:PORT`.
    pub internal: String,
    /// Process id.
    pub pid: u32,
}

/// One entry of `DIR/nodes.json`, the discovery file that all servers watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredNode {
    /// `node-N`.
    pub id: String,
    /// `HOST:PORT` of the internal listener.
    pub address: String,
    /// `true` while it drains.
    pub draining: bool,
    /// `zone-N` with [`MeshOptions::zones`](crate::MeshOptions::zones), else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl MeshFile {
    /// Reads `mesh.json` of the mesh in `dir`.
    ///
    /// # Errors
    /// If there is no valid file. Without one no mesh runs there, or it is not ready yet. A killed
    /// `mesh-dev` leaves its file.
    pub fn read(dir: impl AsRef<Path>) -> Result<Self> {
        let path = dir.as_ref().join("mesh.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}; is `mesh-dev up` running there, and ready?", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a mesh file", path.display()))
    }

    /// Returns all servers, the nodes first.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().chain(&self.balancers)
    }

    /// Reads the token in [`Self::admin_token_file`], without surrounding whitespace.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn admin_token(&self) -> Result<String> {
        let path = &self.admin_token_file;
        let token = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(token.trim().to_owned())
    }
}
