use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use signaling_devmesh::MeshFile;
use signaling_rendezvous::{KeyHash, Ranking};

/// Which URL each client connects to.
#[derive(Debug)]
pub(crate) enum Route {
    /// In turn to each of these, `ws://HOST:PORT`.
    Any(Vec<String>),
    /// To the public listener of the node that owns the client.
    Owner(Owners),
    /// To a URL with `{client_id}` and `{node}` filled in; the latter needs to know the nodes.
    Template(String, Option<Owners>),
}

/// Who owns which client, and where it listens.
#[derive(Debug)]
pub(crate) struct Owners {
    ranking: Ranking,
    url_by_node: BTreeMap<String, String>,
}

impl Owners {
    pub(crate) fn of(mesh: &MeshFile) -> Self {
        Self {
            ranking: Ranking::new(0, mesh.nodes.iter().map(|node| &node.id)),
            url_by_node: mesh.nodes.iter().map(|node| (node.id.clone(), node.public.clone())).collect(),
        }
    }

    fn owner(&self, client_id: &str) -> Result<&str> {
        let index = self.ranking.owner(KeyHash::of(client_id)).context("the mesh has no node")?;
        Ok(self.ranking.id(index))
    }
}

impl Route {
    /// All whole URLs that the client of this number and name may connect to, its own first.
    pub(crate) fn urls(&self, number: usize, client_id: &str) -> Result<Vec<String>> {
        let count = if let Self::Any(bases) = self { bases.len().max(1) } else { 1 };
        (number..number + count).map(|number| self.url(number, client_id)).collect()
    }

    /// The whole URL for the client of this number and name.
    pub(crate) fn url(&self, number: usize, client_id: &str) -> Result<String> {
        match self {
            Self::Any(bases) if bases.is_empty() => bail!("there is no URL to connect to"),
            Self::Any(bases) => Ok(connect_url(&bases[number % bases.len()], client_id)),
            Self::Owner(owners) => {
                let url = owners.url_by_node.get(owners.owner(client_id)?).context("the owner has no address")?;
                Ok(connect_url(url, client_id))
            }
            Self::Template(template, owners) => {
                let url = template.replace("{client_id}", client_id);
                match owners {
                    Some(owners) => Ok(url.replace("{node}", owners.owner(client_id)?)),
                    None if url.contains("{node}") => bail!("{{node}} in --target-template needs --dir"),
                    None => Ok(url),
                }
            }
        }
    }
}

fn connect_url(base: &str, client_id: &str) -> String {
    format!("{}/v1/connect?client_id={client_id}", base.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use signaling_devmesh::NodeEntry;

    use super::*;

    fn mesh() -> MeshFile {
        let node = |number: u32| NodeEntry {
            id: format!("node-{number}"),
            internal: "http://127.0.0.1:1".into(),
            public: format!("ws://127.0.0.1:{}", 9_000 + number),
            pid: 1,
        };
        MeshFile { nodes: (0..12).map(node).collect(), ..MeshFile::default() }
    }

    #[test]
    fn clients_take_the_urls_in_turn() {
        let route = Route::Any(vec!["ws://127.0.0.1:1".into(), "ws://127.0.0.1:2/".into()]);

        assert_eq!(route.url(0, "a").unwrap(), "ws://127.0.0.1:1/v1/connect?client_id=a");
        assert_eq!(route.url(3, "b").unwrap(), "ws://127.0.0.1:2/v1/connect?client_id=b");
    }

    #[test]
    fn a_template_and_the_direct_way_agree_on_the_owner() {
        let direct = Route::Owner(Owners::of(&mesh()));
        let template = Route::Template("ws://h/x?c={client_id}&node={node}".into(), Some(Owners::of(&mesh())));

        for client in (0..50).map(|number| format!("load-{number}")) {
            let proxied = template.url(0, &client).unwrap();
            let number: u32 = proxied.rsplit_once("node-").unwrap().1.parse().unwrap();
            assert!(direct.url(0, &client).unwrap().starts_with(&format!("ws://127.0.0.1:{}/v1", 9_000 + number)));
        }
    }

    #[test]
    fn a_template_that_needs_the_nodes_says_so() {
        let error = Route::Template("ws://h/?n={node}".into(), None).url(0, "a").unwrap_err().to_string();

        assert!(error.contains("--dir"), "{error}");
    }
}
