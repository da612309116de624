//! A mesh of the real binaries, in a folder of its own, on free ports. It ends with the test.
//! Almost all tests start one.

use std::num::NonZeroU64;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use signaling_devmesh::{Binaries, Mesh, MeshFile, MeshOptions, control_socket, serve_control};
use signaling_rendezvous::{KeyHash, Ranking};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::http::host;
use crate::mint::{AUDIENCE, ISSUER, Signer};
use crate::{Peer, becomes, eventually, metric};

/// Seed of the rendezvous hash of each mesh, so that an id has one owner in all runs of a test.
const HASH_SEED: u64 = 0x5eed_5eed_5eed_5eed;
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
        Self::with_options(|_| {}).await
    }

    /// Starts a mesh with options changed by `change`. Returns once every server has all nodes in
    /// its view and every balancer can use them. Panics if a binary is missing or a server does not
    /// start.
    pub async fn with_options(change: impl FnOnce(&mut MeshOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binaries = Binaries::locate(Some(&binaries())).expect("run `cargo build --workspace --bins` first");
        let mut options = MeshOptions::new(dir.path(), binaries);
        options.hash_seed = NonZeroU64::new(HASH_SEED);
        change(&mut options);
        FOLDERS.lock().unwrap().push(dir.path().to_owned());
        let mesh = Self { mesh: Mesh::start(options).await.unwrap(), dir };
        mesh.until_views_agree().await;
        let state = mesh.state();
        // Before that a client can get another node than its owner, and be handed off later.
        for balancer in &state.balancers {
            becomes(&balancer.internal, "signaling_usable_nodes", state.nodes.len()).await;
        }
        mesh
    }

    /// Starts a mesh with these numbers of nodes and balancers, each with the flags of its kind.
    pub async fn with_servers(servers: (u32, u32), node_flags: &[&str], balancer_flags: &[&str]) -> Self {
        Self::with_options(|options| set_servers(options, servers, node_flags, balancer_flags)).await
    }

    /// Starts a mesh as [`TestMesh::with_servers`] does, which requires tokens of this signer.
    pub async fn with_tokens(
        signer: &Signer,
        servers: (u32, u32),
        node_flags: &[&str],
        balancer_flags: &[&str],
    ) -> Self {
        Self::with_options(|options| {
            set_servers(options, servers, node_flags, balancer_flags);
            ask_for_tokens(options, signer);
        })
        .await
    }

    /// Serves the control socket, as `mesh-dev up` does, until the returned set is dropped. Returns
    /// once the socket exists. The demo page's buttons need [`with_buttons`] too.
    pub async fn serve_control(&self) -> JoinSet<()> {
        let mesh = Arc::clone(&self.mesh);
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve_control(mesh).await.unwrap() });
        let socket = control_socket(self.dir.path());
        eventually("the control socket", async || socket.exists()).await;
        serving
    }

    /// Waits until the view of each running server has as many nodes as are running, also draining
    /// ones. Panics if one server takes longer than 60 s.
    pub async fn until_views_agree(&self) {
        let nodes = self.state().nodes.len();
        for internal in self.internals() {
            becomes(&internal, "signaling_view_nodes", nodes).await;
        }
    }

    /// Returns the entries of the discovery file, `{id, address, draining}` for each node, and
    /// `zone` with zones. Panics if the file is missing or invalid.
    pub fn discovery_entries(&self) -> Vec<Value> {
        serde_json::from_slice(&std::fs::read(self.dir.path().join("nodes.json")).unwrap()).unwrap()
    }

    /// Replaces the entries of the discovery file. The mesh overwrites them at its next change of a
    /// node's entry, such as a start, a drain or an end.
    pub fn set_discovery_entries(&self, nodes: &[Value]) {
        self.replace_file("nodes.json", &serde_json::to_string(nodes).unwrap());
    }

    /// Replaces a file of the mesh's folder atomically.
    pub fn replace_file(&self, name: &str, content: &str) {
        let (path, next) = (self.dir.path().join(name), self.dir.path().join("next"));
        std::fs::write(&next, content).unwrap();
        std::fs::rename(next, path).unwrap();
    }

    /// Kills a node (SIGKILL) that stays in the discovery file. Returns once it has ended. Panics
    /// if the file drops it first: `MeshOptions::removal_delay` must outlast the test.
    pub async fn kill_unnoticed(&self, id: &str) {
        let is_down = async || self.status().iter().any(|server| server.id == id && server.phase.starts_with("down"));
        let what = format!("{id} to be down");
        tokio::select! {
            killed = self.kill(id) => panic!("discovery has noticed: {killed:?}"),
            () = eventually(&what, is_down) => {}
        }
    }

    /// Returns the internal listener of a node, `http://HOST:PORT`. Running nodes count from 0, so
    /// the numbers of later nodes shift when one ends. Panics if fewer run.
    pub fn node_internal(&self, number: usize) -> String {
        self.state().nodes[number].internal.clone()
    }

    /// Returns the internal listener of the first running balancer, `http://HOST:PORT`.
    pub fn balancer_internal(&self) -> String {
        self.state().balancers[0].internal.clone()
    }

    /// Returns the internal listeners of all running servers, `http://HOST:PORT`, the nodes first.
    pub fn internals(&self) -> Vec<String> {
        self.state().servers().map(|server| server.internal.clone()).collect()
    }

    /// Returns the sum of a metric over all labels and running nodes. A missing metric counts as 0.
    pub async fn sum_over_nodes(&self, name: &str) -> f64 {
        self.metrics("node-", name, "").await.iter().sum()
    }

    /// Returns a metric of each running server whose id begins with `prefix` (empty: all), the
    /// nodes first: the sum of all samples whose labels contain the text `label` (empty: all), or 0
    /// without any.
    pub async fn metrics(&self, prefix: &str, name: &str, label: &str) -> Vec<f64> {
        let mut values = Vec::new();
        for server in self.state().servers().filter(|server| server.id.starts_with(prefix)) {
            values.push(metric(&server.internal, name, label).await);
        }
        values
    }

    /// Returns a metric of the first running balancer: the sum of all samples whose labels contain
    /// the text `label` (empty: all), or 0 without any.
    pub async fn balancer_metric(&self, name: &str, label: &str) -> f64 {
        metric(&self.balancer_internal(), name, label).await
    }

    /// Returns the number of clients that the first running balancer refused for this reason, a
    /// value of the label `reason` such as `409` or `tls`.
    pub async fn refused_connects(&self, reason: &str) -> f64 {
        self.balancer_metric("signaling_refused_connects_total", &format!("reason=\"{reason}\"")).await
    }

    /// Connects a plain client to the first running balancer. Panics if the balancer refuses it.
    pub async fn peer(&self, id: &str) -> Peer {
        Peer::connect(&self.url(), id).await
    }

    /// Connects a plain client to the first running balancer, with an id `PREFIX-N` that `node`
    /// owns. `node` is a node's id, such as `node-0`. Among the same nodes the same arguments give
    /// the same id.
    pub async fn peer_owned_by(&self, node: &str, prefix: &str) -> Peer {
        self.peer(&self.id_owned_by(node, prefix)).await
    }

    /// Connects plain clients with these ids to the first running balancer, one after the other.
    /// Panics if the balancer refuses one.
    pub async fn connect(&self, ids: impl IntoIterator<Item = String>) -> Vec<Peer> {
        Peer::connect_all(&self.url(), ids).await
    }

    /// Returns the log of all processes of a server, such as `node-0`. Panics if it never started.
    pub fn log(&self, id: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("logs/{id}.log"))).unwrap()
    }

    /// Returns the logs of all servers as one text, in any order, with those of ended servers.
    pub fn logs(&self) -> String {
        let files = std::fs::read_dir(self.dir.path().join("logs")).unwrap();
        files.map(|file| String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned()).collect()
    }

    /// Returns the client URL of the first running balancer, `ws://HOST:PORT`.
    pub fn url(&self) -> String {
        self.state().balancers[0].url.clone()
    }

    /// Returns the client address of the first running balancer, `HOST:PORT`.
    pub fn address(&self) -> String {
        host(&self.url()).to_owned()
    }

    /// Returns the content of the file of the mesh secret, without surrounding whitespace.
    pub fn secret(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("mesh.secret")).unwrap().trim().to_owned()
    }

    /// Returns the ids of all running nodes by their rank for a client or room, the owner first.
    /// The second one is the backup of a room. Draining nodes keep their rank here.
    pub fn ranked(&self, name: &str) -> Vec<String> {
        let state = self.state();
        let ranking = Ranking::new(self.hash_seed(), state.nodes.iter().map(|node| node.id.as_str()));
        ranking.candidates(KeyHash::of(name)).into_iter().map(|index| ranking.id(index).to_owned()).collect()
    }

    /// Returns the id of the running node that owns a client or room. Panics if no node runs.
    pub fn owner(&self, name: &str) -> String {
        self.ranked(name).remove(0)
    }

    /// Waits until the first running balancer has handed off exactly this number of sessions since
    /// its start. Moves after a crash do not count. Panics after 60 s.
    pub async fn until_handed_off(&self, clients: usize) {
        becomes(&self.balancer_internal(), "signaling_handoffs_total", clients).await;
    }

    /// Returns a client id `PREFIX-N` whose owner is `node`. Does not return if no such node runs.
    pub fn id_owned_by(&self, node: &str, prefix: &str) -> String {
        (0..).map(|n| format!("{prefix}-{n}")).find(|id| self.owner(id) == node).unwrap()
    }
}

/// Sets the numbers of nodes and balancers, and adds the flags of each kind.
fn set_servers(options: &mut MeshOptions, servers: (u32, u32), node_flags: &[&str], balancer_flags: &[&str]) {
    (options.nodes, options.balancers) = servers;
    options.node_args.extend(node_flags.iter().map(ToString::to_string));
    options.balancer_args.extend(balancer_flags.iter().map(ToString::to_string));
}

/// Has all servers require tokens of this signer, without leeway for expired ones.
pub fn ask_for_tokens(options: &mut MeshOptions, signer: &Signer) {
    let path = key_file(&options.dir);
    std::fs::write(&path, &signer.key_file).unwrap();
    let flags = [
        format!("--token-key-file={}", path.display()),
        format!("--token-algorithm={}", signer.algorithm),
        format!("--token-audience={AUDIENCE}"),
        format!("--token-issuer={ISSUER}"),
        "--token-leeway-s=0".to_owned(),
    ];
    options.node_args.extend(flags.clone());
    options.balancer_args.extend(flags);
}

/// Returns the path of the key file of a mesh in the folder `dir` that requires tokens.
pub fn key_file(dir: &Path) -> PathBuf {
    dir.join("token.keys")
}

/// Has the balancers serve the demo page with buttons that start, drain and kill nodes. They work
/// while [`TestMesh::serve_control`] runs.
pub fn with_buttons(options: &mut MeshOptions) {
    options.balancer_args.extend(["--demo", "--reveal-nodes"].map(str::to_owned));
    options.balancer_args.push(format!("--demo-control={}", control_socket(&options.dir).display()));
    options.node_args.push("--reveal-nodes".to_owned());
}

/// Returns the admin token of the mesh with this internal listener, `http://HOST:PORT`. `None`: no
/// running server of this process has it.
pub fn admin_token(internal: &str) -> Option<String> {
    let is_of = |mesh: &MeshFile| mesh.servers().any(|server| server.internal == internal);
    let folders = FOLDERS.lock().unwrap();
    let mesh = folders.iter().filter_map(|folder| MeshFile::read(folder).ok()).find(is_of)?;
    Some(mesh.admin_token().unwrap())
}

/// Returns the folder of the binaries: `SIGNALING_BIN_DIR`, or else the one above the folder of the
/// test binary, such as `target/debug` for `target/debug/deps`.
pub fn binaries() -> PathBuf {
    if let Some(dir) = std::env::var_os("SIGNALING_BIN_DIR") {
        return dir.into();
    }
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
}
