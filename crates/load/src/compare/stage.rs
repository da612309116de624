use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use signaling_devmesh::{Mesh, MeshFile, hold_port};
use signaling_rendezvous::{KeyHash, Ranking};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::config::{self, Backend};
use super::contestant::Contestant;
use super::own_mesh;
use super::programs::Programs;
use super::server::Server;
use crate::costs::{Watched, watched};
use crate::fleet::{FleetOptions, FleetPlan, connect_url};

const NODES: u32 = 3;

/// Nodes with contestants in front of them, in a directory of their own. All end when this value is dropped.
pub(super) struct Stage {
    front_by_contestant: BTreeMap<Contestant, Front>,
    mesh: Option<Mesh>,
    // Dropped last: the others write into it.
    _dir: TempDir,
}

struct Front {
    server: Server,
    address: SocketAddr,
    _port: TcpSocket,
}

/// The address and the processes of a contestant.
pub(super) struct Target {
    pub(super) contestant: Contestant,
    pub(super) watched: Vec<Watched>,
    base: String,
    /// Owners of clients, for a proxy that has to be given the node; `None` for other contestants.
    owners: Option<Ranking>,
}

impl Stage {
    /// Starts the nodes if a contestant needs them, then the contestants.
    pub(super) async fn start(programs: &Programs, contestants: &[Contestant]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("mesh-compare-").tempdir().context("cannot make a directory")?;
        let mesh = match &programs.mesh {
            Some(binaries) if contestants.iter().any(|contestant| contestant.has_nodes()) => {
                let balancers = u32::from(contestants.contains(&Contestant::Balancer));
                Some(own_mesh::start(&dir.path().join("mesh"), binaries, NODES, balancers).await?)
            }
            _ => None,
        };
        let backends = mesh.as_ref().map(|mesh| backends(&mesh.state())).transpose()?.unwrap_or_default();
        let mut front_by_contestant = BTreeMap::new();
        for contestant in contestants.iter().filter(|contestant| **contestant != Contestant::Balancer) {
            let front = Front::start(programs.of(*contestant)?, *contestant, &backends, dir.path()).await?;
            front_by_contestant.insert(*contestant, front);
        }
        Ok(Self { front_by_contestant, mesh, _dir: dir })
    }

    /// Returns the target of a started contestant.
    pub(super) fn target(&self, contestant: Contestant) -> Result<Target> {
        let mesh = self.mesh.as_ref().map(Mesh::state);
        if contestant == Contestant::Balancer {
            let mesh = mesh.context("there is no mesh")?;
            let base = mesh.balancers.first().context("there is no balancer")?.url.clone();
            return Ok(Target { contestant, watched: watched(Some(&mesh), &[]), base, owners: None });
        }
        let front = self.front_by_contestant.get(&contestant).context("it was not started")?;
        // Without the idle balancer, whose work is not the contestant's.
        let nodes = mesh.filter(|_| contestant.has_nodes()).map(|mesh| MeshFile { balancers: Vec::new(), ..mesh });
        Ok(Target {
            contestant,
            watched: watched(nodes.as_ref(), &[(contestant.name().to_owned(), front.server.pid())]),
            base: format!("ws://{}", front.address),
            owners: nodes.map(|mesh| Ranking::new(0, mesh.nodes.iter().map(|node| &node.id))),
        })
    }

    /// Stops all servers in order.
    pub(super) async fn end(self) -> Result<()> {
        drop(self.front_by_contestant);
        match &self.mesh {
            Some(mesh) => mesh.down().await,
            None => Ok(()),
        }
    }
}

impl Front {
    async fn start(program: &Path, contestant: Contestant, backends: &[Backend], dir: &Path) -> Result<Self> {
        let port = hold_port((Ipv4Addr::LOCALHOST, 0).into()).context("no free port")?;
        let address = port.local_addr()?;
        let (file, log) = (dir.join(format!("{}.conf", contestant.name())), dir.join(contestant.name()));
        let (listen, errors) = (address.to_string(), dir.join("nginx-errors.log"));
        let text = match contestant {
            Contestant::Nginx => config::nginx(address, backends, dir),
            Contestant::Haproxy => config::haproxy(address, backends),
            Contestant::Balancer | Contestant::Echo => String::new(),
        };
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let arguments: Vec<&OsStr> = match contestant {
            Contestant::Nginx => {
                let (dir, errors) = (dir.as_os_str(), errors.as_os_str());
                vec!["-p".as_ref(), dir, "-e".as_ref(), errors, "-c".as_ref(), file.as_os_str()]
            }
            Contestant::Haproxy => vec!["-db".as_ref(), "-f".as_ref(), file.as_os_str()],
            Contestant::Balancer | Contestant::Echo => vec!["--listen".as_ref(), listen.as_ref()],
        };
        let server = Server::start(program, &arguments, &log, address).await?;
        Ok(Self { server, address, _port: port })
    }
}

impl Target {
    /// Returns the group of costs that has the front's processes.
    pub(super) fn front(&self) -> &'static str {
        if self.contestant == Contestant::Balancer { "balancers" } else { "others" }
    }

    /// Returns how these clients connect, at a rate per second.
    pub(super) fn plan(&self, fleet: &FleetOptions, rate: u32) -> Result<FleetPlan> {
        let url = |number| {
            let id = fleet.client_id(number);
            let owner = self.owners.as_ref().and_then(|owners| Some(owners.id(owners.owner(KeyHash::of(&id))?)));
            let node = owner.map(|node| format!("&node={node}")).unwrap_or_default();
            vec![connect_url(&self.base, &id) + &node]
        };
        let urls = (0..usize::try_from(fleet.clients)?).map(url).collect();
        Ok(FleetPlan { urls, rate, come_back: false })
    }
}

fn backends(mesh: &MeshFile) -> Result<Vec<Backend>> {
    let backend = |url: &str| url.trim_start_matches("ws://").parse().with_context(|| format!("{url} is no address"));
    mesh.nodes.iter().map(|node| Ok((node.id.clone(), backend(&node.public)?))).collect()
}
