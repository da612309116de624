//! Content of the mesh's files and of `mesh-dev status`.

use serde::{Deserialize, Serialize};

use super::{Listing, Phase, Roster};
use crate::files::{BalancerEntry, DiscoveredNode, MeshFile, NodeEntry};
use crate::id::ServerId;
use crate::launch::redis_url;

/// One line of `mesh-dev status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// `node-N`, `balancer-N` or `redis`.
    pub id: String,
    /// `ready`, `paused`, `draining`, ... or how the process ended.
    pub phase: String,
    /// The process id; `None` without a process.
    pub pid: Option<u32>,
    /// `HOST:PORT` of the internal listener.
    pub internal: String,
    /// `HOST:PORT` of the client listener.
    pub public: String,
}

impl Roster {
    pub(crate) fn mesh_file(&self) -> MeshFile {
        let mut file = MeshFile::default();
        for (id, server) in &self.server_by_id {
            if *id == ServerId::Redis {
                file.redis = Some(redis_url(server.addresses));
                continue;
            }
            let Some(pid) = server.pid.filter(|_| server.phase != Phase::Starting) else { continue };
            let (name, internal) = (id.to_string(), format!("http://{}", server.addresses.internal));
            let public = format!("ws://{}", server.addresses.public);
            match id {
                ServerId::Balancer(_) => file.balancers.push(BalancerEntry { id: name, url: public, internal, pid }),
                _ => file.nodes.push(NodeEntry { id: name, internal, public, pid }),
            }
        }
        file
    }

    pub(crate) fn discovery(&self) -> Vec<DiscoveredNode> {
        self.server_by_id
            .iter()
            .filter(|(_, server)| server.listing != Listing::Absent)
            .map(|(id, server)| DiscoveredNode {
                id: id.to_string(),
                address: server.addresses.internal.to_string(),
                draining: server.listing == Listing::Draining,
            })
            .collect()
    }

    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        self.server_by_id
            .iter()
            .map(|(id, server)| ServerStatus {
                id: id.to_string(),
                phase: server.phase.to_string(),
                pid: server.pid,
                internal: server.addresses.internal.to_string(),
                public: server.addresses.public.to_string(),
            })
            .collect()
    }
}
