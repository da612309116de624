use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use signaling_devmesh::{Mesh, MeshFile, hold_port};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::certificate::Certificate;
use super::config;
use super::contestant::Contestant;
use super::programs::Programs;
use super::server::Server;
use crate::costs::{Watched, watched};
use crate::fleet::{FleetOptions, FleetPlan};
use crate::own_mesh;
use crate::route::{Owners, Route};
use crate::wire::Trust;

const NODES: u32 = 3;

/// The nodes, and contestants in front of them, in a folder of their own. All end when this value is dropped.
pub(super) struct Stage {
    front_by_contestant: BTreeMap<Contestant, Front>,
    mesh: Option<Mesh>,
    tls: Option<Certificate>,
    // Dropped last: the others write into it.
    _dir: TempDir,
}

struct Front {
    server: Server,
    address: SocketAddr,
    _port: TcpSocket,
}

/// Where the clients of a contestant connect, and which processes do its work.
pub(super) struct Target {
    pub(super) contestant: Contestant,
    pub(super) watched: Vec<Watched>,
    /// Where TLS is spoken.
    pub(super) secure: Option<Secure>,
    route: Route,
}

/// A front that speaks TLS.
pub(super) struct Secure {
    pub(super) address: SocketAddr,
    pub(super) certificate: PathBuf,
}

impl Stage {
    /// Starts the nodes where somebody needs them, then the contestants, with TLS or without.
    pub(super) async fn start(programs: &Programs, contestants: &[Contestant], is_secure: bool) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("mesh-compare-").tempdir().context("cannot make a folder")?;
        let tls = is_secure.then(|| Certificate::new(dir.path())).transpose()?;
        let mesh = match &programs.mesh {
            Some(binaries) if contestants.iter().any(|contestant| contestant.has_nodes()) => {
                let balancers = u32::from(contestants.contains(&Contestant::Balancer));
                let flags = tls.iter().flat_map(Certificate::flags).collect::<Vec<_>>();
                Some(own_mesh::start(&dir.path().join("mesh"), binaries, (NODES, balancers), &flags).await?)
            }
            _ => None,
        };
        let backends = mesh.as_ref().map(|mesh| backends(&mesh.state())).transpose()?.unwrap_or_default();
        let mut front_by_contestant = BTreeMap::new();
        for contestant in contestants.iter().filter(|contestant| **contestant != Contestant::Balancer) {
            let program = programs.of(*contestant)?;
            let front = Front::start(program, *contestant, &backends, tls.as_ref(), dir.path()).await?;
            front_by_contestant.insert(*contestant, front);
        }
        Ok(Self { front_by_contestant, mesh, tls, _dir: dir })
    }

    /// One of those that were started.
    pub(super) fn target(&self, contestant: Contestant) -> Result<Target> {
        let mesh = self.mesh.as_ref().map(Mesh::state);
        if contestant == Contestant::Balancer {
            let mesh = mesh.context("there is no mesh")?;
            let address = address(&mesh.balancers.first().context("there is no balancer")?.url)?;
            let route = Route::Any(vec![format!("{}://{address}", self.scheme())]);
            return Ok(Target { contestant, watched: watched(Some(&mesh), &[]), secure: self.secure(address), route });
        }
        let front = self.front_by_contestant.get(&contestant).context("it was not started")?;
        let origin = format!("{}://{}", self.scheme(), front.address);
        let url = format!("{origin}/v1/connect?client_id={{client_id}}&node={{node}}");
        let named = [(contestant.name().to_owned(), front.server.pid())];
        // An idle balancer's work is not the contestant's.
        let nodes = mesh.filter(|_| contestant.has_nodes()).map(|mesh| MeshFile { balancers: Vec::new(), ..mesh });
        let route = match &nodes {
            Some(nodes) => Route::Template(url, Some(Owners::of(nodes))),
            None => Route::Any(vec![origin]),
        };
        let secure = self.secure(front.address);
        Ok(Target { contestant, watched: watched(nodes.as_ref(), &named), secure, route })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "wss" } else { "ws" }
    }

    fn secure(&self, address: SocketAddr) -> Option<Secure> {
        self.tls.as_ref().map(|tls| Secure { address, certificate: tls.path.clone() })
    }

    /// Stops all in good order.
    pub(super) async fn end(self) -> Result<()> {
        drop(self.front_by_contestant);
        match &self.mesh {
            Some(mesh) => mesh.down().await,
            None => Ok(()),
        }
    }
}

impl Front {
    async fn start(
        program: &Path,
        contestant: Contestant,
        backends: &[config::Backend],
        tls: Option<&Certificate>,
        dir: &Path,
    ) -> Result<Self> {
        let (port, address) = free_port()?;
        let (file, log) = (dir.join(format!("{}.conf", contestant.name())), dir.join(contestant.name()));
        let written = |text: String| {
            std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            anyhow::Ok(file.as_os_str())
        };
        let (listen, errors) = (address.to_string(), dir.join("nginx-errors.log"));
        let arguments: Vec<&OsStr> = match contestant {
            Contestant::Nginx => {
                let file = written(config::nginx(address, backends, dir, tls))?;
                vec!["-p".as_ref(), dir.as_os_str(), "-e".as_ref(), errors.as_os_str(), "-c".as_ref(), file]
            }
            Contestant::Haproxy => {
                vec!["-db".as_ref(), "-f".as_ref(), written(config::haproxy(address, backends, tls))?]
            }
            Contestant::Balancer | Contestant::Echo => vec!["--listen".as_ref(), listen.as_ref()],
        };
        let server = Server::start(program, &arguments, &log, address).await?;
        Ok(Self { server, address, _port: port })
    }
}

fn free_port() -> Result<(TcpSocket, SocketAddr)> {
    let port = hold_port((Ipv4Addr::LOCALHOST, 0).into()).context("no free port")?;
    let address = port.local_addr()?;
    Ok((port, address))
}

impl Target {
    /// The group of costs that the front's processes are in.
    pub(super) fn front(&self) -> &'static str {
        if self.contestant == Contestant::Balancer { "balancers" } else { "others" }
    }

    /// How these clients connect to it, so many a second.
    pub(super) fn plan(&self, fleet: &FleetOptions, rate: u32) -> Result<FleetPlan> {
        let clients = usize::try_from(fleet.clients)?;
        let urls =
            (0..clients).map(|number| self.route.urls(number, &fleet.client_id(number))).collect::<Result<_>>()?;
        let trust = self.secure.as_ref().map(|secure| Trust::of(&secure.certificate)).transpose()?;
        Ok(FleetPlan { urls, sources: Vec::new(), trust, rate, come_back: false })
    }
}

fn backends(mesh: &MeshFile) -> Result<Vec<config::Backend>> {
    mesh.nodes.iter().map(|node| Ok((node.id.clone(), address(&node.public)?))).collect()
}

fn address(url: &str) -> Result<SocketAddr> {
    url.trim_start_matches("ws://").parse().with_context(|| format!("{url} is no address"))
}
