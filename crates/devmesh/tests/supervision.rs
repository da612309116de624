//! The supervisor with stand-ins for the servers: scripts start this test program again, which
//! answers `/readyz` and stops on SIGTERM. `integration-tests` tests the real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signaling_devmesh::{Act, Binaries, DiscoveredNode, Mesh, MeshFile, MeshOptions, Target, serve_control};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn started_mesh_is_listed_in_its_files() {
    let (mesh, dir) = start(3, 2).await;

    let file = MeshFile::read(dir.path()).unwrap();

    assert_eq!(file, mesh.state());
    assert_eq!(ids(&file), ["node-0", "node-1", "node-2", "balancer-0", "balancer-1"]);
    assert_eq!(discovery(dir.path()), ["node-0", "node-1", "node-2"]);
    for server in file.servers() {
        TcpStream::connect(server.url.strip_prefix("ws://").unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_are_listed_in_zones_by_turns() {
    let dir = tempfile::tempdir().unwrap();
    let _mesh = Mesh::start(MeshOptions { zones: 2, ..options(dir.path(), 3, 0, &[]) }).await.unwrap();

    let text = fs::read_to_string(dir.path().join("nodes.json")).unwrap();
    let nodes: Vec<DiscoveredNode> = serde_json::from_str(&text).unwrap();

    let zones: Vec<_> = nodes.iter().filter_map(|node| node.zone.as_deref()).collect();
    assert_eq!(zones, ["zone-0", "zone-1", "zone-0"]);
}

#[tokio::test]
async fn scaling_starts_and_drains_nodes() {
    let (mesh, dir) = start(1, 1).await;

    mesh.scale(4).await.unwrap();
    assert_eq!(discovery(dir.path()), ["node-0", "node-1", "node-2", "node-3"]);
    mesh.scale(2).await.unwrap();

    assert_eq!(discovery(dir.path()), ["node-0", "node-1"]);
    assert_eq!(ids(&MeshFile::read(dir.path()).unwrap()), ["node-0", "node-1", "balancer-0"]);
    let phases: Vec<_> = mesh.status().into_iter().map(|server| server.phase).collect();
    assert_eq!(phases, ["ready", "ready", "ready", "down: exited", "down: exited"]);

    mesh.drain("node-0").await.unwrap();
    mesh.scale(3).await.unwrap();
    assert_eq!(discovery(dir.path()), ["node-0", "node-1", "node-2"], "the lowest free numbers start");
}

#[tokio::test]
async fn killed_node_leaves_discovery_after_the_notice_time() {
    let (mesh, dir) = start(2, 0).await;
    let begin = Instant::now();

    let (killed, ()) = tokio::join!(mesh.kill("node-1"), async {
        eventually(|| ids(&MeshFile::read(dir.path()).unwrap()) == ["node-0"]).await;
        assert_eq!(discovery(dir.path()), ["node-0", "node-1"]);
    });

    killed.unwrap();
    assert!(begin.elapsed() >= NOTICE);
    assert_eq!(discovery(dir.path()), ["node-0"]);
}

#[tokio::test]
async fn late_notice_is_ignored_after_a_restart() {
    let (mesh, dir) = start(1, 0).await;

    let (killed, ()) = tokio::join!(mesh.kill("node-0"), async {
        eventually(|| mesh.status()[0].phase == "down: killed by SIGKILL").await;
        mesh.restart("node-0").await.unwrap();
    });
    tokio::time::sleep(NOTICE).await;

    killed.unwrap();
    assert_eq!(discovery(dir.path()), ["node-0"]);
}

#[tokio::test]
async fn operation_is_refused_when_it_does_not_fit_the_server() {
    let (mesh, _dir) = start(1, 1).await;
    mesh.pause("node-0").await.unwrap();

    let refusals = [mesh.drain("node-0").await, mesh.replace("node-0").await, mesh.replace("balancer-0").await];
    let unknown = mesh.pause("node-7").await.unwrap_err().to_string();

    let expected =
        ["drain node-0: it is paused", "replace node-0: it is paused", "replace balancer-0: it is not a node"];
    assert_eq!(refusals.map(|it| it.unwrap_err().to_string()), expected.map(|text| format!("cannot {text}")));
    assert_eq!(unknown, "node-7 does not exist; use one of: balancer-0, node-0");
    mesh.kill("node-0").await.unwrap();
}

#[tokio::test]
async fn replaced_node_leaves_when_its_successor_is_ready() {
    let (mesh, dir) = start(2, 0).await;

    mesh.replace("node-0").await.unwrap();

    assert_eq!(discovery(dir.path()), ["node-1", "node-2"]);
    assert_eq!(ids(&mesh.state()), ["node-1", "node-2"]);
}

#[tokio::test]
async fn restarted_node_keeps_its_ports() {
    let (mesh, dir) = start(2, 0).await;
    let before = mesh.state().nodes;

    mesh.restart("node-1").await.unwrap();
    mesh.kill("node-0").await.unwrap();
    mesh.restart("node-0").await.unwrap();

    for (old, new) in before.iter().zip(mesh.state().nodes) {
        assert_eq!((&old.id, &old.internal, &old.url), (&new.id, &new.internal, &new.url));
        assert_ne!(old.pid, new.pid);
    }
    assert_eq!(discovery(dir.path()), ["node-0", "node-1"]);
}

#[tokio::test]
async fn draining_node_is_listed_as_draining_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = Mesh::start(options(dir.path(), 2, 0, &["--slow-drain"])).await.unwrap();

    let (drained, ()) = tokio::join!(
        mesh.drain("node-0"),
        eventually(
            || discovery(dir.path()) == ["node-0 draining", "node-1"] && ids(&mesh.state()) == ["node-0", "node-1"]
        )
    );

    drained.unwrap();
    assert_eq!(discovery(dir.path()), ["node-1"]);
}

#[tokio::test]
async fn unexpected_exit_is_shown_in_status_and_discovery() {
    let (mesh, dir) = start(2, 0).await;
    let pid = mesh.state().nodes[1].pid;

    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();

    eventually(|| mesh.status()[1].phase == "down: killed by SIGKILL").await;
    assert_eq!(discovery(dir.path()), ["node-0", "node-1"]);
    eventually(|| discovery(dir.path()) == ["node-0"]).await;
}

#[tokio::test]
async fn paused_node_does_not_answer_until_it_is_resumed() {
    let (mesh, dir) = start(1, 0).await;
    let ready = format!("{}/readyz", mesh.state().nodes[0].internal);
    let client = reqwest::Client::builder().timeout(Duration::from_millis(300)).no_proxy().build().unwrap();

    fs::write(dir.path().join("nodes.json"), "[]").unwrap();
    mesh.pause("node-0").await.unwrap();
    assert_eq!(discovery(dir.path()), [""; 0], "an edited file stays until the set of nodes changes");
    assert!(client.get(&ready).send().await.unwrap_err().is_timeout());
    mesh.resume("node-0").await.unwrap();

    assert_eq!(client.get(&ready).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn failed_start_shows_the_log_and_leaves_no_mesh() {
    let dir = tempfile::tempdir().unwrap();

    let error = Mesh::start(options(dir.path(), 1, 0, &["--fail"])).await.err().unwrap().to_string();

    assert!(error.contains("node-0 did not start: it ended during its start"), "{error}");
    assert!(error.contains("the reason for it"), "{error}");
    assert!(!dir.path().join("mesh.json").exists());
}

#[tokio::test]
async fn mesh_ends_its_processes_when_dropped() {
    let (mesh, dir) = start(2, 1).await;
    let file = mesh.state();

    drop(mesh);

    for server in file.servers() {
        eventually(|| !is_running(server.pid)).await;
    }
    assert!(MeshFile::read(dir.path()).is_err());
}

#[tokio::test]
async fn servers_end_when_mesh_dev_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let bin = options(dir.path(), 0, 0, &[]).binaries.node;
    let mut mesh_dev = tokio::process::Command::new(env!("CARGO_BIN_EXE_mesh-dev"))
        .args(["up", "--nodes=1", "--listen=127.0.0.1:0", "--dir"])
        .arg(dir.path())
        .arg("--bin-dir")
        .arg(bin.parent().unwrap())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually(|| MeshFile::read(dir.path()).is_ok_and(|file| !file.balancers.is_empty())).await;
    let file = MeshFile::read(dir.path()).unwrap();

    mesh_dev.kill().await.unwrap();

    for server in file.servers() {
        eventually(|| !is_running(server.pid)).await;
    }
}

#[tokio::test]
async fn control_socket_executes_all_commands() {
    let (mesh, dir) = start(1, 1).await;
    let serving = tokio::spawn(serve_control(mesh));
    eventually(|| dir.path().join("control.sock").exists()).await;
    let request = async |act: Act| act.request(dir.path()).await;
    let server = |id: &str| Target { id: id.to_owned() };
    let commands = [
        Act::Scale { nodes: 3 },
        Act::Drain(server("node-0")),
        Act::Kill(server("node-1")),
        Act::Restart(server("node-0")),
        Act::Pause(server("balancer-0")),
    ];

    for command in commands {
        request(command).await.unwrap();
    }
    let lane = Act::CutLane { from: "any".to_owned(), to: "node-1".to_owned() };
    assert_eq!(request(lane).await.unwrap_err().to_string(), "no lane from any to node-1");
    let refused = request(Act::Drain(server("balancer-0"))).await.unwrap_err().to_string();
    let unknown = request(Act::Kill(server("node-9"))).await.unwrap_err().to_string();

    assert_eq!(ids(&MeshFile::read(dir.path()).unwrap()), ["node-0", "node-2", "balancer-0"]);
    assert_eq!(refused, "cannot drain balancer-0: it is paused");
    assert!(unknown.contains("node-9 does not exist; use one of: balancer-0, node-0"), "{unknown}");
    assert_eq!(request(Act::Status).await.unwrap()[0].phase, "paused");

    request(Act::Down).await.unwrap();
    serving.await.unwrap().unwrap();
    assert!(!dir.path().join("mesh.json").exists());
    assert!(request(Act::Status).await.is_err());
}

const NOTICE: Duration = Duration::from_millis(300);

async fn start(nodes: u32, balancers: u32) -> (Arc<Mesh>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mesh = Mesh::start(options(dir.path(), nodes, balancers, &[])).await.unwrap();
    (mesh, dir)
}

fn options(dir: &Path, nodes: u32, balancers: u32, node_args: &[&str]) -> MeshOptions {
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    for name in ["signaling-node", "signaling-balancer"] {
        let own = std::env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\n\
             case \"$*\" in *--fail*) echo the reason for it; exit 1;; esac\n\
             STAND_IN=\"$*\" exec {} stand_in_for_a_server --exact --nocapture --test-threads=1\n",
            own.display()
        );
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    MeshOptions {
        nodes,
        balancers,
        removal_delay: NOTICE,
        node_args: node_args.iter().map(ToString::to_string).collect(),
        ..MeshOptions::new(dir, Binaries::locate(Some(&bin)).unwrap())
    }
}

/// Not a test: the program of the scripts. Without `STAND_IN` it does nothing.
#[tokio::test]
async fn stand_in_for_a_server() {
    let Ok(flags) = std::env::var("STAND_IN") else { return };
    let flags: Vec<&str> = flags.split(' ').collect();
    let value = |names: [&str; 2]| flags[flags.iter().position(|flag| names.contains(flag)).unwrap() + 1];
    let internal = TcpListener::bind(value(["--internal-listen"; 2])).await.unwrap();
    let _public = TcpListener::bind(value(["--public-listen", "--listen"])).await.unwrap();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    loop {
        tokio::select! {
            accepted = internal.accept() => {
                let (mut socket, _) = accepted.unwrap();
                tokio::spawn(async move {
                    let _ = socket.read(&mut [0; 1024]).await;
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
                });
            }
            _ = terminate.recv() => break,
        }
    }
    if flags.contains(&"--slow-drain") {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn ids(file: &MeshFile) -> Vec<String> {
    file.servers().map(|server| server.id.clone()).collect()
}

fn discovery(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("nodes.json")).unwrap();
    let nodes: Vec<DiscoveredNode> = serde_json::from_str(&text).unwrap();
    nodes.into_iter().map(|node| if node.draining { format!("{} draining", node.id) } else { node.id }).collect()
}

/// Returns `true` if the process runs. A zombie counts as gone.
fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn eventually(condition: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < give_up, "did not come true within 10 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
