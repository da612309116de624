//! The nodes with contestants in front of them, which `rounds` starts and `measure` uses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use signaling_devmesh::{Binaries, Mesh, MeshFile, MeshOptions, Service, hold_port};
use signaling_rendezvous::{KeyHash, Ranking};
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::contestant::{Backend, Contestant, Programs, haproxy_config, nginx_config};
use crate::fleet::{FleetOptions, FleetPlan, connect_url};
use crate::message::Wire;
use crate::servers::{Watched, fetch, http, sum, watched};

const NODES: u32 = 3;
/// Accepts all clients at once.
const ACCEPT_RATE: &str = "--accept-rate=1000000";
const VIEW_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Contestants and their nodes, in a temporary directory. All end when this value is dropped.
pub(super) struct Testbed {
    front_by_contestant: BTreeMap<Contestant, Front>,
    mesh: Option<Arc<Mesh>>,
    // Dropped last: the others write into it.
    _dir: TempDir,
}

/// A contestant beside the balancer.
struct Front {
    service: Service,
    address: SocketAddr,
    _port: TcpSocket,
}

pub(super) struct Target {
    pub(super) contestant: Contestant,
    /// Processes whose usage counts: the front's, and the nodes'.
    pub(super) watched: Vec<Watched>,
    base: String,
    /// Owners of clients, for a proxy that has to be given the node; `None` for other contestants.
    owners: Option<Ranking>,
}

impl Testbed {
    /// Starts nodes, if a contestant needs them, and all contestants. Fails if one does not accept
    /// connections in time.
    pub(super) async fn start(programs: &Programs, contestants: &[Contestant]) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("mesh-compare-").tempdir().context("cannot make a directory")?;
        let mesh = match &programs.mesh {
            Some(binaries) if contestants.iter().any(|contestant| contestant.has_nodes()) => {
                let balancers = u32::from(contestants.contains(&Contestant::Balancer));
                Some(start_mesh(&dir.path().join("mesh"), binaries, balancers).await?)
            }
            _ => None,
        };
        let backends = mesh.as_ref().map(|mesh| backends(&mesh.state())).transpose()?.unwrap_or_default();
        let mut front_by_contestant = BTreeMap::new();
        for (contestant, program) in programs.by_contestant.iter().filter(|(it, _)| contestants.contains(it)) {
            let front = Front::start(program, *contestant, &backends, dir.path()).await?;
            front_by_contestant.insert(*contestant, front);
        }
        Ok(Self { front_by_contestant, mesh, _dir: dir })
    }

    /// Returns a started contestant. Fails for another one.
    pub(super) fn target(&self, contestant: Contestant) -> Result<Target> {
        let mesh = self.mesh.as_ref().map(|mesh| mesh.state());
        if contestant == Contestant::Balancer {
            let mesh = mesh.context("there is no mesh")?;
            let base = mesh.balancers.first().context("there is no balancer")?.url.clone();
            return Ok(Target { contestant, watched: watched(Some(&mesh), &[]), base, owners: None });
        }
        let front = self.front_by_contestant.get(&contestant).context("it was not started")?;
        // Excludes the idle balancer, whose work does not belong to the contestant.
        let nodes = mesh.filter(|_| contestant.has_nodes()).map(|mesh| MeshFile { balancers: Vec::new(), ..mesh });
        let hash_seed = self.mesh.as_ref().map_or(0, |mesh| mesh.hash_seed());
        Ok(Target {
            contestant,
            watched: watched(nodes.as_ref(), &[(contestant.name().to_owned(), front.service.pid())]),
            base: format!("ws://{}", front.address),
            owners: nodes.map(|mesh| Ranking::new(hash_seed, mesh.nodes.iter().map(|node| &node.id))),
        })
    }

    /// Stops all servers. Fails if a node or balancer does not stop; others are killed.
    pub(super) async fn end(self) -> Result<()> {
        drop(self.front_by_contestant);
        match &self.mesh {
            Some(mesh) => mesh.down().await,
            None => Ok(()),
        }
    }
}

impl Front {
    /// Starts a contestant, with its files in `dir`, and waits until it accepts connections. Fails
    /// as [`Service::start`].
    async fn start(program: &Path, contestant: Contestant, backends: &[Backend], dir: &Path) -> Result<Self> {
        let port = hold_port((Ipv4Addr::LOCALHOST, 0).into()).context("no free port")?;
        let address = port.local_addr()?;
        let config = dir.join(format!("{}.conf", contestant.name()));
        let mut line: Vec<OsString> = vec![program.into()];
        match contestant {
            Contestant::Nginx => {
                std::fs::write(&config, nginx_config(address, backends, dir)).context("cannot write nginx.conf")?;
                let errors = dir.join("nginx-errors.log");
                line.extend(["-p".into(), dir.into(), "-e".into(), errors.into(), "-c".into(), config.into()]);
            }
            Contestant::Haproxy => {
                std::fs::write(&config, haproxy_config(address, backends)).context("cannot write haproxy.cfg")?;
                line.extend(["-db".into(), "-f".into(), config.into()]);
            }
            Contestant::YWebrtc => line = vec!["env".into(), format!("PORT={}", address.port()).into(), program.into()],
            Contestant::Balancer | Contestant::Peer => {
                line.extend(["--host", "127.0.0.1", "--path", "/peerjs", "--port"].map(OsString::from));
                line.extend([address.port().to_string().into(), "--concurrent_limit".into(), "100000".into()]);
            }
        }
        let accepts = async {
            while TcpStream::connect(address).await.is_err() {
                sleep(POLL_INTERVAL).await;
            }
        };
        let (service, ()) = Service::start(&line, &dir.join(contestant.name()), accepts).await?;
        Ok(Self { service, address, _port: port })
    }
}

impl Target {
    /// Returns the name of the group of costs with the contestant's processes.
    pub(super) fn front(&self) -> &'static str {
        if self.contestant == Contestant::Balancer { "balancers" } else { "others" }
    }

    /// Returns the plan of this many clients that connect at `rate` per second and do not
    /// reconnect.
    pub(super) fn plan(&self, clients: u32, rate: u32, wire: Wire) -> Result<FleetPlan> {
        let fleet = FleetOptions::new(clients);
        let url = |number| {
            let id = fleet.client_id(number);
            let owner = self.owners.as_ref().and_then(|owners| Some(owners.id(owners.owner(KeyHash::of(&id))?)));
            let node = owner.map(|node| format!("&node={node}")).unwrap_or_default();
            vec![connect_url(&self.base, &id, wire, None) + &node]
        };
        let urls = (0..usize::try_from(clients)?).map(url).collect();
        Ok(FleetPlan { urls, hello: wire.hello(), rate, reconnect: false })
    }
}

fn backends(mesh: &MeshFile) -> Result<Vec<Backend>> {
    let backend = |url: &str| url.trim_start_matches("ws://").parse().with_context(|| format!("{url} is no address"));
    mesh.nodes.iter().map(|node| Ok((node.id.clone(), backend(&node.url)?))).collect()
}

/// Starts a mesh in `dir`, which ends when the value is dropped.
async fn start_mesh(dir: &Path, binaries: &Binaries, balancers: u32) -> Result<Arc<Mesh>> {
    let mut options = MeshOptions::new(dir, binaries.clone());
    (options.nodes, options.balancers) = (NODES, balancers);
    options.node_args = vec![ACCEPT_RATE.to_owned()];
    options.balancer_args = vec![ACCEPT_RATE.to_owned(), "--dialects=peerjs,y-webrtc".to_owned()];
    let mesh = Mesh::start(options).await.context("cannot start the nodes")?;
    let state = mesh.state();
    let all_agree = timeout(VIEW_TIMEOUT, agree(&state)).await;
    all_agree.with_context(|| format!("not every server has seen all nodes after {VIEW_TIMEOUT:?}"))??;
    Ok(mesh)
}

async fn agree(mesh: &MeshFile) -> Result<()> {
    let http = http()?;
    let wanted = mesh.nodes.len() as u64;
    for server in mesh.servers() {
        while sum(&fetch(&http, &server.internal).await.unwrap_or_default(), "signaling_view_nodes") != wanted {
            sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}
