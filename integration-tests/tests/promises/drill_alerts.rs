//! For each alert a fault on real processes fires it in a real Prometheus, and the command of its
//! runbook entry ends it.
//!
//! The rules are the committed ones with all durations divided by
//! [`HASTE`](signaling_integration_tests::prometheus::HASTE); commands run as they stand in the
//! runbook, with a stand-in for kubectl that acts on processes instead of pods.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use signaling_devmesh::{Server, find_in_path};
use signaling_integration_tests::prometheus::{Prometheus, alerts};
use signaling_integration_tests::redis;
use signaling_integration_tests::{
    Certificate, PacedSenders, Peer, SecureMesh, TestMesh, admin, admin_token, binaries, eventually, program,
    repository,
};
use signaling_rendezvous::{KeyHash, Ranking};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::sleep;

/// Room bytes of a node: about 200 rooms with 4,000 bytes of data.
const ROOM_BYTES: u32 = 1024 * 1024;

const STAND_IN: &str = include_str!("../../src/stand_in_kubectl");

#[tokio::test]
async fn alert_fires_on_its_fault_until_its_runbook_ends_it() {
    let Some(program) = program(&["prometheus"], "prometheus") else { return };
    assert!(find_in_path("curl").is_some(), "the runbook's commands need curl");
    // Its limits are small, so that few clients fill it.
    let main = TestMesh::with_options(|options| {
        options.balancers = 2;
        options.removal_delay = Duration::from_millis(200);
        options.node_args.extend(["--hold-ms=3000", "--hold-bytes=262144", "--resume-ms=2000"].map(str::to_owned));
        let flags = ["--max-sockets=40", "--max-client-buffer-bytes=1048576", "--drain-ms=1500"];
        options.balancer_args.extend(flags.map(str::to_owned));
    })
    .await;
    let second = SecureMesh::start(1, 1, &[]).await;
    let Some(redis) = redis::Server::start() else { return };
    let third = [format!("--room-bytes={ROOM_BYTES}"), format!("--room-journal={}", redis.url())];
    let third = TestMesh::with_servers((3, 1), &third.each_ref().map(String::as_str), &[]).await;
    let servers = [servers(&main, ""), servers(&second.mesh, "second-"), servers(&third, "third-")].concat();
    let prometheus = Prometheus::start(&program, &servers).await;
    let (operator, tls_operator) = (Operator::new(&prometheus, &main), Operator::new(&prometheus, &second.mesh));
    let rooms_operator = Operator::new(&prometheus, &third);
    let _controls = (main.serve_control().await, third.serve_control().await);

    tokio::join!(
        async {
            clients_write_to_absent_ones(&operator).await;
            tokio::join!(a_balancer_is_full(&operator), a_drained_balancer_gets_requests(&operator));
            all_nodes_are_drained(&operator).await;
            a_node_stalls(&operator).await;
            servers_hang(&operator).await;
        },
        async {
            certificate_ends(&tls_operator, &second).await;
            discovery_breaks(&tls_operator).await;
            an_owner_of_rooms_hangs(&rooms_operator).await;
            a_journal_is_full(&rooms_operator, &redis).await;
            clients_make_large_rooms(&rooms_operator).await;
        }
    );

    let operators = [&operator, &tls_operator, &rooms_operator];
    let drilled: BTreeSet<_> = operators.iter().flat_map(|operator| operator.drilled.borrow().clone()).collect();
    assert_eq!(drilled, alerts(), "each alert has its drill");
}

/// Returns the command of an alert's entry in the runbook, for `bash -euo pipefail`. Panics if the
/// entry is missing or does not end with a command.
fn command_of(alert: &str) -> String {
    let page = fs::read_to_string(repository().join("docs/RUNBOOK.md")).unwrap();
    let heading = format!("\n## {alert}\n");
    let text = page.split_once(&heading).unwrap_or_else(|| panic!("no entry for {alert}")).1;
    let text = text.split("\n## ").next().unwrap().trim_end();
    let command = text.strip_suffix("```").and_then(|text| text.rsplit_once("```sh\n"));
    command.unwrap_or_else(|| panic!("{alert} does not end with a command")).1.trim_end().to_owned()
}

fn servers(mesh: &TestMesh, prefix: &str) -> Vec<(String, String)> {
    let named = |server: &Server| (format!("{prefix}{}", server.id), server.internal.clone());
    mesh.state().servers().map(named).collect()
}

/// The tools of an operator on call.
struct Operator<'a> {
    prometheus: &'a Prometheus,
    mesh: &'a TestMesh,
    dir: TempDir,
    drilled: RefCell<BTreeSet<String>>,
}

impl<'a> Operator<'a> {
    fn new(prometheus: &'a Prometheus, mesh: &'a TestMesh) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kubectl = dir.path().join("kubectl");
        fs::write(&kubectl, STAND_IN).unwrap();
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
        Self { prometheus, mesh, dir, drilled: RefCell::default() }
    }

    /// Waits until the alerts fire, runs their common command, and waits until they are over.
    async fn drill(&self, alerts: &[&str], variables: &[(&str, String)]) {
        for alert in alerts {
            self.prometheus.fires(alert).await;
            assert_eq!(command_of(alert), command_of(alerts[0]));
        }
        self.end(alerts[0], variables).await;
        for alert in alerts {
            self.is_over(alert).await;
        }
    }

    /// Runs an alert's command unchanged, with these variables. Panics if it fails.
    async fn end(&self, alert: &str, variables: &[(&str, String)]) {
        let path = format!("{}:{}", self.dir.path().display(), std::env::var("PATH").unwrap());
        let state = self.mesh.state();
        let nodes: Vec<_> = state.nodes.iter().map(|node| node.id.clone()).collect();
        let shown = |path: PathBuf| path.display().to_string();
        let mut all = vec![
            ("CALLS", shown(self.dir.path().join("calls"))),
            ("MESH_DEV", shown(binaries().join("mesh-dev"))),
            ("MESH_CTL", shown(binaries().join("mesh-ctl"))),
            ("MESH_DIR", shown(self.mesh.dir.path().to_owned())),
            ("NODES", nodes.join(" ")),
            ("ADMIN_TOKEN", admin_token(&state.nodes[0].internal).unwrap()),
        ];
        all.extend_from_slice(variables);
        let command = command_of(alert);
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &command]).env("PATH", path).envs(all);
        let output = bash.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{alert}: {command}\n{}", String::from_utf8_lossy(&text));
    }

    async fn is_over(&self, alert: &str) {
        self.prometheus.is_over(alert).await;
        self.drilled.borrow_mut().insert(alert.to_owned());
    }

    fn internal(&self, id: &str) -> String {
        self.mesh.state().servers().find(|server| server.id == id).unwrap().internal.clone()
    }

    fn pid(&self, node: &str) -> Option<u32> {
        self.mesh.state().nodes.into_iter().find(|other| other.id == node).map(|node| node.pid)
    }

    fn url(&self, balancer: usize) -> String {
        self.mesh.state().balancers[balancer].url.clone()
    }

    fn server(&self, id: &str) -> (&'static str, String) {
        ("SERVER", self.internal(id))
    }
}

async fn clients_write_to_absent_ones(operator: &Operator<'_>) {
    let url = operator.url(0);
    let mut nagger = PacedSenders::default();
    nagger.writes(&url, "nagger", "nobody", (50, 10), Some(0)).await;
    let named = async || operator.mesh.logs().contains("client=nagger");
    eventually("the log to name the client that writes to an absent one", named).await;

    // node-0 of three owns all of them; of five nodes, it owns half of them.
    let seed = operator.mesh.hash_seed();
    let ranking = |nodes: u32| Ranking::new(seed, (0..nodes).map(|node| format!("node-{node}")));
    let (three, five) = (ranking(3), ranking(5));
    let owner = |ranking: &Ranking, id: &str| ranking.id(ranking.owner(KeyHash::of(id)).unwrap()).to_owned();
    let absent = |stays: bool| {
        let (three, five) = (&three, &five);
        let fits = move |id: &String| owner(three, id) == "node-0" && (owner(five, id) == "node-0") == stays;
        (0..).map(|n| format!("absent-{n}")).filter(fits).take(2)
    };
    let mut askers = PacedSenders::default();
    for (number, recipient) in absent(true).chain(absent(false)).enumerate() {
        askers.writes(&url, &format!("asker-{number}"), &recipient, (20, 900), None).await;
    }
    operator.drill(&["SignalingHoldFull"], &[("REPLICAS", "5".to_owned())]).await;
    drop(askers);
    // Any node accepts the kick: the socket is at balancer-0.
    let kick = [("CLIENT", "nagger".to_owned()), operator.server("node-1")];
    operator.drill(&["SignalingMessagesUndelivered"], &kick).await;
}

async fn a_balancer_is_full(operator: &Operator<'_>) {
    let mut crowd = PacedSenders::default();
    for number in 0..34 {
        crowd.writes(&operator.url(1), &format!("crowd-{number}"), &format!("gone-{number}"), (7, 900), None).await;
    }
    let full = [("INSTANCE", "balancer-1".to_owned()), operator.server("balancer-1")];
    operator.drill(&["SignalingSocketsNearLimit", "SignalingMemoryShort"], &full).await;
    Peer::connect(&operator.url(1), "who-comes-afterwards").await.close().await;
}

async fn a_drained_balancer_gets_requests(operator: &Operator<'_>) {
    let mut knocking = PacedSenders::default();
    knocking.reconnects(&operator.url(0), "knocking", Duration::from_millis(50));
    admin(&operator.internal("balancer-0"), "POST", "drain").await;
    let refuses = [("REASON", "503".to_owned()), operator.server("balancer-0")];
    operator.drill(&["SignalingRefusals"], &refuses).await;
}

/// Has a client join rooms of all nodes while one of them is paused.
async fn an_owner_of_rooms_hangs(operator: &Operator<'_>) {
    let joins = async {
        let mut peer = operator.mesh.peer_owned_by("node-0", "asker").await;
        for number in 0.. {
            peer.send(&json!({"type": "join", "room": format!("r{}", number % 100), "id": number})).await;
            sleep(Duration::from_millis(50)).await;
        }
    };
    operator.mesh.pause("node-1").await.unwrap();
    let node = [("NODE", "node-1".to_owned())];
    tokio::select! {
        () = joins => {}
        () = operator.drill(&["SignalingRoomsWait"], &node) => {}
    }
}

/// Fills the Redis of the journal, and has a client join a room.
async fn a_journal_is_full(operator: &Operator<'_>, redis: &redis::Server) {
    redis.cli(&["config", "set", "maxmemory", "1"]);
    let mut client = operator.mesh.peer("writer").await;
    client.send(&json!({"type": "join", "room": "unwritten"})).await;
    client.recv_type("joined").await;
    let variables = [("JOURNAL_PORT", redis.port.to_string()), ("MEMORY", "0".to_owned())];
    operator.drill(&["SignalingRoomJournalDown"], &variables).await;
}

/// Has clients make rooms with large data until a node uses 80% of its room bytes.
async fn clients_make_large_rooms(operator: &Operator<'_>) {
    let is_above = async || {
        let bytes = operator.mesh.metrics("node-", "signaling_room_bytes", "").await;
        bytes.into_iter().any(|bytes| bytes > 0.8 * f64::from(ROOM_BYTES))
    };
    // Changes take memory until the backup has them.
    let is_nearly_full = async || {
        is_above().await && {
            sleep(Duration::from_secs(1)).await;
            is_above().await
        }
    };
    let mut makers = Vec::new();
    while !is_nearly_full().await {
        assert!(makers.len() < 100, "the rooms of 100 clients are not counted");
        // Equally full nodes all get room from new ones.
        let id = |number: usize, name: &str| operator.mesh.id_owned_by(&format!("node-{}", number % 3), name);
        let maker_id = id(makers.len(), &format!("maker-{}", makers.len()));
        let mut maker = operator.mesh.peer(&maker_id).await;
        // The data of one client in all its rooms may have 64 KiB.
        for number in 0..16 {
            let (room, data) = (id(number, &format!("room-{}-{number}", makers.len())), "x".repeat(4_000));
            maker.send(&json!({"type": "join", "room": room, "data": data})).await;
            maker.recv_type("joined").await;
        }
        makers.push(maker);
    }
    // Two of five nodes keep a room, in place of two of three.
    operator.drill(&["SignalingRoomsFull"], &[("REPLICAS", "5".to_owned())]).await;
}

async fn all_nodes_are_drained(operator: &Operator<'_>) {
    let mut clients = PacedSenders::default();
    for number in 0..20 {
        clients.listens(&operator.url(0), &format!("quiet-{number}")).await;
    }
    let nodes: Vec<_> = operator.mesh.state().nodes.into_iter().map(|node| node.internal).collect();
    for node in &nodes {
        admin(node, "POST", "drain").await;
    }
    operator.prometheus.fires("SignalingDrainStuck").await;
    for node in nodes {
        operator.end("SignalingDrainStuck", &[("SERVER", node)]).await;
    }
    operator.is_over("SignalingDrainStuck").await;
}

async fn a_node_stalls(operator: &Operator<'_>) {
    let mut talk = PacedSenders::default();
    for number in 0..10 {
        let id = |node, name: &str| operator.mesh.id_owned_by(node, &format!("{name}-{number}"));
        let (from, to) = (id("node-2", "from"), id("node-1", "to"));
        talk.listens(&operator.url(0), &to).await;
        talk.writes(&operator.url(0), &from, &to, (10, 100), None).await;
    }
    // Most scrapes of a node that pauses for so long get an answer.
    tokio::select! {
        () = stalls(operator, Duration::from_millis(600), async || ()) => {}
        () = operator.prometheus.fires(SICK[0]) => {}
    }
    // It may be paused now, and no pause may be longer than intended.
    let _ = operator.mesh.resume("node-1").await;
    // Too short for the other nodes to suspect it.
    let node = [("INSTANCE", "node-1".to_owned())];
    tokio::select! {
        () = stalls(operator, Duration::from_millis(1_200), async || ()) => {}
        () = operator.drill(&["SignalingDeliverySlow"], &node) => {}
    }
    // Long enough. Only a trunk that is open again is lost again, and balancers wait ever longer.
    let internal = operator.mesh.state().nodes[1].internal.clone();
    let all_trunks = async || {
        eventually("trunks of both balancers", async || {
            admin(&internal, "GET", "server").await["edges"].as_array().unwrap().len() >= 2
        })
        .await;
    };
    tokio::select! {
        () = stalls(operator, Duration::from_millis(2_500), all_trunks) => {}
        () = async {
            // Scrapes of a node that pauses for so long are too rare for the first alert.
            for alert in &SICK[1..] {
                operator.prometheus.fires(alert).await;
            }
        } => {}
    }
}

/// Alerts of a node that pauses again and again.
const SICK: [&str; 3] = ["SignalingEventLoopStalls", "SignalingNodeSuspect", "SignalingTrunkLoop"];

/// Pauses the process that is node-1 now for `still`, repeatedly, each time after `recovered`. Its
/// successor is not paused.
async fn stalls(operator: &Operator<'_>, still: Duration, recovered: impl AsyncFn()) {
    let sick = operator.pid("node-1");
    while operator.pid("node-1") == sick {
        // It may be killed meanwhile.
        let _ = operator.mesh.pause("node-1").await;
        sleep(still).await;
        let _ = operator.mesh.resume("node-1").await;
        // It is scraped at least once, and once more before the rules forget its values.
        sleep(Duration::from_millis(600)).await;
        recovered().await;
    }
    std::future::pending::<()>().await;
}

async fn servers_hang(operator: &Operator<'_>) {
    // The node that stalled is replaced first.
    let replaced = |alert: &str| command_of(alert).replace("$NODE", "$INSTANCE");
    assert!(SICK.iter().all(|alert| replaced(alert) == replaced(SICK[0])), "one command ends all three");
    let node = [("NODE", "node-1".to_owned()), ("INSTANCE", "node-1".to_owned())];
    operator.end(SICK[0], &node).await;

    operator.mesh.pause("balancer-1").await.unwrap();
    operator.drill(&["SignalingServerDown"], &[("INSTANCE", "balancer-1".to_owned())]).await;
    for alert in SICK {
        operator.is_over(alert).await;
    }

    let mut clients = PacedSenders::default();
    clients.listens(&operator.url(0), "waiting").await;
    for node in operator.mesh.state().nodes {
        operator.mesh.pause(&node.id).await.unwrap();
    }
    operator.drill(&["SignalingNoNodes", "SignalingSessionsStuck"], &[]).await;
}

async fn certificate_ends(tls_operator: &Operator<'_>, second: &SecureMesh) {
    let new = Certificate::new(second.folder.path(), "second", 90);
    let shown = |path: &std::path::Path| path.display().to_string();
    let files = [
        ("CERT", shown(&new.path)),
        ("KEY", shown(&new.key)),
        ("SECRET", shown(tls_operator.dir.path())),
        ("MOUNTED_CERTIFICATE", shown(&second.certificate.path)),
        ("MOUNTED_KEY", shown(&second.certificate.key)),
    ];
    tls_operator.drill(&["SignalingCertificateExpires"], &files).await;
}

async fn discovery_breaks(tls_operator: &Operator<'_>) {
    let list = tls_operator.mesh.dir.path().join("nodes.json");
    let good = tls_operator.dir.path().join("good.json");
    fs::copy(&list, &good).unwrap();
    fs::write(&list, "broken").unwrap();
    tls_operator.drill(&["SignalingDiscoveryStale"], &[("GOOD_LIST", good.display().to_string())]).await;
}
