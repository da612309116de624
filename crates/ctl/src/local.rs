//! Folder of a mesh that `mesh-dev` runs on this machine: its servers, and the file of their admin
//! token. They are defaults of the options `--server` and `--secret-file`.

use std::path::{Path, PathBuf};

use reqwest::Url;
use serde::Deserialize;

/// Folder of `make run`.
const DEFAULT_DIR: &str = ".mesh";

/// A mesh on this machine: its folder, and the parts of `mesh.json` in use here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LocalMesh {
    #[serde(skip)]
    dir: PathBuf,
    nodes: Vec<Server>,
    balancers: Vec<Server>,
    admin_token_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Server {
    internal: String,
}

impl LocalMesh {
    /// Reads `mesh.json` in `dir`; `None`: in `.mesh`. Returns `None` if it is missing or invalid.
    pub(crate) fn find(dir: Option<&Path>) -> Option<Self> {
        let dir = dir.unwrap_or(Path::new(DEFAULT_DIR));
        let text = std::fs::read(dir.join("mesh.json")).ok()?;
        Some(Self { dir: dir.to_owned(), ..serde_json::from_slice(&text).ok()? })
    }

    /// Returns the URL of the first node's internal listener; `None` without a node.
    pub(crate) fn server(&self) -> Option<&str> {
        self.nodes.first().map(|node| node.internal.as_str())
    }

    /// Returns the token file of a server of this mesh; `None` for other servers, or without one.
    /// The file is always in the mesh's own folder, whatever `mesh.json` contains, so that no other
    /// file is ever sent.
    pub(crate) fn token_file(&self, server: &Url) -> Option<PathBuf> {
        let is_it = |other: &Server| Url::parse(&other.internal).is_ok_and(|other| other.origin() == server.origin());
        let is_of_mesh = self.nodes.iter().chain(&self.balancers).any(is_it);
        let name = self.admin_token_file.as_deref().and_then(Path::file_name).filter(|_| is_of_mesh)?;
        Some(self.dir.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"balancers":[{"id":"balancer-0","internal":"http://127.0.0.1:4001","pid":1}],
        "nodes":[{"id":"node-0","internal":"http://127.0.0.1:4002"}],"admin_token_file":"/elsewhere/admin.secret"}"#;

    #[test]
    fn token_is_sent_only_to_servers_of_the_mesh() {
        let mesh = LocalMesh { dir: "DIR".into(), ..serde_json::from_str(FILE).unwrap() };
        assert_eq!(mesh.server(), Some("http://127.0.0.1:4002"), "the first node is the default");
        let token = |server: &str| mesh.token_file(&Url::parse(server).unwrap());
        for server in ["http://127.0.0.1:4001", "http://127.0.0.1:4002/"] {
            assert_eq!(token(server), Some("DIR/admin.secret".into()), "{server}");
        }
        assert_eq!([token("http://127.0.0.1:4003"), token("http://192.0.2.1:4001")], [None, None]);
    }
}
