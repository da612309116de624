//! A mesh of the real binaries, in a folder of its own, on free ports. It ends with the test.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use signaling_devmesh::{Binaries, Mesh, MeshFile, MeshOptions, control_socket, serve_control};
use signaling_rendezvous::{KeyHash, Ranking};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::http::host;
use crate::optional::program;
use crate::{Peer, RoomTimes, becomes, eventually, metric};

/// Folders of the meshes that this process has started.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A running mesh.
pub struct TestMesh {
    pub mesh: Arc<Mesh>,
    /// Folder with logs, secret and discovery file.
    pub dir: TempDir,
}

impl Deref for TestMesh {
    type Target = Arc<Mesh>;

    fn deref(&self) -> &Arc<Mesh> {
        &self.mesh
    }
}

impl TestMesh {
    /// Starts a mesh with default options: three nodes and a balancer.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts a mesh with options changed by `change`, and waits for its views and trunks.
    pub async fn with(change: impl FnOnce(&mut MeshOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binaries = Binaries::locate(Some(&binaries())).expect("run `cargo build --workspace --bins` first");
        let mut options = MeshOptions::new(dir.path(), binaries);
        change(&mut options);
        FOLDERS.lock().unwrap().push(dir.path().to_owned());
        let mesh = Self { mesh: Mesh::start(options).await.unwrap(), dir };
        mesh.agrees().await;
        mesh.connects().await;
        mesh
    }

    /// Starts a mesh with so many nodes and one balancer with these flags.
    pub async fn with_flags(nodes: u32, flags: &[&str]) -> Self {
        Self::of((nodes, 1), &[], flags).await
    }

    /// Starts a mesh with these numbers of nodes and balancers, and with their flags.
    pub async fn of((nodes, balancers): (u32, u32), node_flags: &[&str], balancer_flags: &[&str]) -> Self {
        Self::with(|options| {
            (options.nodes, options.balancers) = (nodes, balancers);
            options.node_args.extend(node_flags.iter().map(ToString::to_string));
            options.balancer_args.extend(balancer_flags.iter().map(ToString::to_string));
        })
        .await
    }

    /// Starts a mesh with rooms in a Redis of its own, short times, and the options of `change`.
    /// Returns `None` without an installed Redis.
    pub async fn with_redis(change: impl FnOnce(&mut MeshOptions)) -> Option<Self> {
        program(&["redis-server"], "redis-server")?;
        let with_rooms = |options: &mut MeshOptions| {
            options.redis = true;
            options.node_args = RoomTimes::SHORT.flags();
            change(options);
        };
        Some(Self::with(with_rooms).await)
    }

    /// Serves the control socket, as `mesh-dev up` does, until the returned set is dropped. Returns
    /// once the socket exists. The demo page's buttons need [`with_buttons`] too.
    pub async fn serve_control(&self) -> JoinSet<()> {
        let mesh = Arc::clone(&self.mesh);
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve_control(mesh).await.unwrap() });
        let socket = control_socket(self.dir.path());
        eventually("the control socket", async || socket.exists().then_some(())).await;
        serving
    }

    /// Waits until every server has every node in its view.
    pub async fn agrees(&self) {
        let nodes = self.state().nodes.len();
        for internal in self.internals() {
            becomes(&internal, "signaling_view_nodes", nodes).await;
        }
    }

    /// Waits until every balancer has trunks to all nodes. No client is handed off without a reason
    /// after that.
    async fn connects(&self) {
        let state = self.state();
        for balancer in &state.balancers {
            becomes(&balancer.internal, "signaling_usable_nodes", state.nodes.len()).await;
        }
    }

    /// Returns the entries of the discovery file.
    pub fn named_nodes(&self) -> Vec<Value> {
        serde_json::from_slice(&std::fs::read(self.dir.path().join("nodes.json")).unwrap()).unwrap()
    }

    /// Writes these entries into the discovery file. Later changes of the set of nodes undo it.
    pub fn name_nodes(&self, nodes: &[Value]) {
        self.replace_file("nodes.json", &serde_json::to_string(nodes).unwrap());
    }

    /// Replaces a file of the mesh's folder atomically.
    pub fn replace_file(&self, name: &str, content: &str) {
        let (path, next) = (self.dir.path().join(name), self.dir.path().join("next"));
        std::fs::write(&next, content).unwrap();
        std::fs::rename(next, path).unwrap();
    }

    /// Kills a server that stays in discovery. `MeshOptions::removal_delay` must outlast the test.
    pub async fn kill_unnoticed(&self, id: &str) {
        let is_down = async || {
            let servers = self.status();
            let is_down = servers.iter().any(|server| server.id == id && server.phase.starts_with("down"));
            is_down.then_some(())
        };
        let what = format!("{id} to be down");
        tokio::select! {
            killed = self.kill(id) => panic!("discovery has noticed: {killed:?}"),
            () = eventually(&what, is_down) => {}
        }
    }

    /// Returns the internal listener of a node.
    pub fn node(&self, number: usize) -> String {
        self.state().nodes[number].internal.clone()
    }

    /// Returns the internal listener of the first balancer.
    pub fn balancer(&self) -> String {
        self.state().balancers[0].internal.clone()
    }

    /// Returns the internal listeners of all servers, the nodes first.
    pub fn internals(&self) -> Vec<String> {
        self.state().servers().map(|server| server.internal.clone()).collect()
    }

    /// Returns the sum of a metric over all nodes.
    pub async fn total(&self, name: &str) -> f64 {
        self.metrics("node-", name, "").await.iter().sum()
    }

    /// Returns a metric of each server whose id begins with `prefix`, as [`metric`] does.
    pub async fn metrics(&self, prefix: &str, name: &str, label: &str) -> Vec<f64> {
        let mut values = Vec::new();
        for server in self.state().servers().filter(|server| server.id.starts_with(prefix)) {
            values.push(metric(&server.internal, name, label).await);
        }
        values
    }

    /// Returns a metric of the first balancer.
    pub async fn of_balancer(&self, name: &str, label: &str) -> f64 {
        metric(&self.balancer(), name, label).await
    }

    /// Returns the number of clients that the first balancer refused for this reason.
    pub async fn refused(&self, reason: &str) -> f64 {
        self.of_balancer("signaling_refused_connects_total", &format!("reason=\"{reason}\"")).await
    }

    /// Connects a client to the first balancer.
    pub async fn peer(&self, id: &str) -> Peer {
        Peer::connect(&self.url(), id).await
    }

    /// Connects a client whose owner is this node.
    pub async fn peer_at(&self, node: &str, prefix: &str) -> Peer {
        self.peer(&self.id_owned_by(node, prefix)).await
    }

    /// Connects clients with these ids, one after the other.
    pub async fn connect(&self, ids: impl IntoIterator<Item = String>) -> Vec<Peer> {
        Peer::connect_all(&self.url(), ids).await
    }

    /// Returns the log of a server.
    pub fn log(&self, id: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("logs/{id}.log"))).unwrap()
    }

    /// Returns the logs of all servers.
    pub fn logs(&self) -> String {
        let files = std::fs::read_dir(self.dir.path().join("logs")).unwrap();
        files.map(|file| String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned()).collect()
    }

    /// Returns the client URL of the first balancer, without a path.
    pub fn url(&self) -> String {
        self.state().balancers[0].url.clone()
    }

    /// Returns the client address of the first balancer, `HOST:PORT`.
    pub fn address(&self) -> String {
        host(&self.url()).to_owned()
    }

    /// Returns the mesh secret.
    pub fn secret(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("mesh.secret")).unwrap().trim().to_owned()
    }

    /// Returns the ids of all nodes, the owner of a client or room first, then its backup.
    pub fn ranked(&self, name: &str) -> Vec<String> {
        let state = self.state();
        let ranking = Ranking::new(0, state.nodes.iter().map(|node| node.id.as_str()));
        ranking.candidates(KeyHash::of(name)).into_iter().map(|index| ranking.id(index).to_owned()).collect()
    }

    /// Returns the id of the node that owns a client or room.
    pub fn owner(&self, name: &str) -> String {
        self.ranked(name).remove(0)
    }

    /// Waits until this number of clients was handed off behind their sockets, not moved as after a
    /// crash.
    pub async fn hands_off(&self, clients: usize) {
        becomes(&self.balancer(), "signaling_handoffs_total", clients).await;
    }

    /// Returns a client id with this prefix whose owner is `node`.
    pub fn id_owned_by(&self, node: &str, prefix: &str) -> String {
        (0..).map(|n| format!("{prefix}-{n}")).find(|id| self.owner(id) == node).unwrap()
    }
}

/// Has the balancers serve the demo page with buttons.
pub fn with_buttons(options: &mut MeshOptions) {
    options.balancer_args.extend(["--demo", "--reveal-nodes"].map(str::to_owned));
    options.balancer_args.push(format!("--demo-control={}", control_socket(&options.dir).display()));
    options.node_args.push("--reveal-nodes".to_owned());
}

/// Returns the admin token of the mesh that this process started with this internal listener
/// (`http://HOST:PORT`); `None` if there is no such mesh.
pub fn admin_token(internal: &str) -> Option<String> {
    let is_of = |mesh: &MeshFile| mesh.servers().any(|server| server.internal == internal);
    let folders = FOLDERS.lock().unwrap();
    let mesh = folders.iter().filter_map(|folder| MeshFile::read(folder).ok()).find(is_of)?;
    Some(mesh.admin_token().unwrap())
}

/// Returns the folder of the binaries: `SIGNALING_BIN_DIR`, or that of the test binary.
pub fn binaries() -> PathBuf {
    if let Some(dir) = std::env::var_os("SIGNALING_BIN_DIR") {
        return dir.into();
    }
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(2).unwrap().to_owned()
}
