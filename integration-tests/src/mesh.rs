//! A mesh of the real binaries, in a folder of its own, on free ports; it ends with the test.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use signaling_devmesh::{Binaries, Mesh, MeshFile, MeshOptions, control_socket, serve_control};
use signaling_rendezvous::{KeyHash, Ranking};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::metrics::becomes;
use crate::optional::{in_path, missing};
use crate::room_times::RoomTimes;
use crate::wait::eventually;

const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);

/// Folders of the meshes that this process has started.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A running mesh.
pub struct TestMesh {
    pub mesh: Arc<Mesh>,
    /// Its folder: logs, secret, discovery file.
    pub dir: TempDir,
}

impl TestMesh {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut MeshOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binaries = Binaries::locate(Some(&binaries())).expect("run `cargo build --workspace --bins` first");
        let mut options = MeshOptions::new(dir.path(), binaries);
        change(&mut options);
        FOLDERS.lock().unwrap().push(dir.path().to_owned());
        let mesh = Self { mesh: Arc::new(Mesh::start(options).await.unwrap()), dir };
        mesh.agrees().await;
        mesh.connects().await;
        mesh
    }

    pub async fn with_flags(nodes: u32, flags: &[&str]) -> Self {
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        Self::with(|options| (options.nodes, options.balancer_args) = (nodes, flags)).await
    }

    /// Nodes and balancers whose rooms are in a Redis of their own, with short times, and other options still. `None` where no Redis is
    /// installed.
    pub async fn with_redis(change: impl FnOnce(&mut MeshOptions)) -> Option<Self> {
        if in_path(&["redis-server"]).is_none() {
            missing("redis-server", "redis-server");
            return None;
        }
        let with_rooms = |options: &mut MeshOptions| {
            options.redis = true;
            options.node_args = RoomTimes::SHORT.flags();
            change(options);
        };
        Some(Self::with(with_rooms).await)
    }

    /// Serves the control socket, as `mesh-dev up` does, until the set is dropped. Returns once the socket is there. The
    /// demo page's buttons need [`with_buttons`] too.
    pub async fn serve_control(&self) -> JoinSet<()> {
        let mesh = Arc::clone(&self.mesh);
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve_control(mesh).await.unwrap() });
        let socket = control_socket(self.dir.path());
        eventually("the control socket", CONTROL_TIMEOUT, || async { socket.exists().then_some(()) }).await;
        serving
    }

    /// Waits until every server has seen every node.
    pub async fn agrees(&self) {
        let state = self.mesh.state();
        let nodes = state.nodes.len();
        let servers = state.nodes.iter().map(|node| &node.internal).chain(state.balancers.iter().map(|b| &b.internal));
        for internal in servers {
            becomes(internal, "signaling_view_nodes", nodes).await;
        }
    }

    /// Waits until every balancer can send clients to every node: from then on no client moves unasked.
    async fn connects(&self) {
        let state = self.mesh.state();
        for balancer in &state.balancers {
            becomes(&balancer.internal, "signaling_usable_nodes", state.nodes.len()).await;
        }
    }

    /// Kills a server that discovery goes on to name. `MeshOptions::notice` must outlast the test.
    pub async fn kill_unnoticed(&self, id: &str) {
        let is_down = || async {
            let servers = self.mesh.status();
            let is_down = servers.iter().any(|server| server.id == id && server.phase.starts_with("down"));
            is_down.then_some(())
        };
        let what = format!("{id} to be down");
        tokio::select! {
            killed = self.mesh.kill(id) => panic!("discovery has noticed: {killed:?}"),
            () = eventually(&what, KILL_TIMEOUT, is_down) => {}
        }
    }

    pub fn url(&self) -> String {
        self.mesh.state().balancers[0].url.clone()
    }

    pub fn address(&self) -> String {
        self.url().trim_start_matches("ws://").to_owned()
    }

    pub fn secret(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("mesh.secret")).unwrap().trim().to_owned()
    }

    pub fn owner(&self, client_id: &str) -> String {
        let state = self.mesh.state();
        let ranking = Ranking::new(0, state.nodes.iter().map(|node| node.id.as_str()));
        ranking.id(ranking.owner(KeyHash::of(client_id)).unwrap()).to_owned()
    }

    /// Waits until so many clients were handed off behind their sockets, and not moved as after a crash.
    pub async fn hands_off(&self, clients: usize) {
        becomes(&self.mesh.state().balancers[0].internal, "signaling_handoffs_total", clients).await;
    }

    pub fn id_owned_by(&self, node: &str, prefix: &str) -> String {
        (0..).map(|n| format!("{prefix}-{n}")).find(|id| self.owner(id) == node).unwrap()
    }
}

/// Has the balancers serve the demo page, with buttons.
pub fn with_buttons(options: &mut MeshOptions) {
    options.balancer_args.extend(["--demo", "--reveal-nodes"].map(str::to_owned));
    options.balancer_args.push(format!("--demo-control={}", control_socket(&options.dir).display()));
    options.node_args.push("--reveal-nodes".to_owned());
}

/// The admin token of the mesh that was started here and has this internal listener
/// (`http://HOST:PORT`).
pub fn admin_token(internal: &str) -> Option<String> {
    let is_of = |mesh: &MeshFile| {
        let nodes = mesh.nodes.iter().map(|node| &node.internal);
        nodes.chain(mesh.balancers.iter().map(|balancer| &balancer.internal)).any(|other| other == internal)
    };
    let folders = FOLDERS.lock().unwrap();
    let mesh = folders.iter().filter_map(|folder| MeshFile::read(folder).ok()).find(is_of)?;
    mesh.admin_token().unwrap()
}

/// Where the binaries are: beside the test's own, or where `SIGNALING_BIN_DIR` says.
pub fn binaries() -> PathBuf {
    if let Some(dir) = std::env::var_os("SIGNALING_BIN_DIR") {
        return dir.into();
    }
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(2).unwrap().to_owned()
}
