//! A real TURN server, coturn, accepts the credentials of clients, and only until they expire.

use std::ffi::OsString;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use signaling_devmesh::{Service, find_in_path};
use signaling_integration_tests::{TestMesh, eventually, program, within};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

const SECRET: &str = "what-coturn-and-the-nodes-share";
const RUN_TIMEOUT: Duration = Duration::from_secs(15);
const TTL: Duration = Duration::from_secs(3);

/// A running coturn. Dropping it ends it.
struct Coturn {
    _service: Service,
    port: u16,
    dir: TempDir,
}

impl Coturn {
    async fn start() -> Option<Self> {
        let program = program(&["turnserver"], "coturn")?;
        let dir = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let mut line: Vec<OsString> = vec![program.into()];
        let flags = "-n --listening-ip=127.0.0.1 --relay-ip=127.0.0.1 --realm=mesh.test --use-auth-secret --no-tcp \
            --no-tls --no-dtls --no-cli --allow-loopback-peers --log-file=stdout --simple-log";
        line.extend(flags.split(' ').map(OsString::from));
        line.extend([format!("--listening-port={port}"), format!("--static-auth-secret={SECRET}")].map(OsString::from));
        line.extend([format!("--userdb={}", file("turndb")), format!("--pidfile={}", file("pid"))].map(OsString::from));
        let answers = eventually("coturn to answer", async || answers_binding(port));
        let (service, ()) = Service::start(&line, &dir.path().join("log"), answers).await.unwrap();
        Some(Self { _service: service, port, dir })
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Creates coturn's own TURN clients with these credentials: two that exchange two messages.
    fn clients(&self, ice_server: &Value) -> Command {
        let word = |name: &str| ice_server[name].as_str().unwrap().to_owned();
        let mut command = Command::new(find_in_path("turnutils_uclient").unwrap());
        command
            .args(["-v", "-u", &word("username"), "-w", &word("credential"), "-p", &self.port.to_string()])
            .args(["-y", "-c", "-n", "2", "-m", "1", "127.0.0.1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Returns `true` if clients with these credentials exchange data, after some seconds.
    async fn relays(&self, ice_server: &Value) -> bool {
        let run =
            timeout(RUN_TIMEOUT, self.clients(ice_server).output()).await.expect("the clients do not end").unwrap();
        run.status.success() && String::from_utf8_lossy(&run.stdout).contains("tot_send_msgs=4, tot_recv_msgs=4")
    }

    /// Returns `true` if clients with these credentials get an address of the relay.
    async fn admits(&self, ice_server: &Value) -> bool {
        let mut clients = self.clients(ice_server).spawn().unwrap();
        let mut lines = BufReader::new(clients.stdout.take().unwrap()).lines();
        let found = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("Received relay addr") {
                    return true;
                }
            }
            false
        };
        timeout(RUN_TIMEOUT, found).await.expect("the clients say nothing")
    }
}

/// Sends a STUN binding request (RFC 8489 section 6), which needs no credentials.
fn answers_binding(port: u16) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let request = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    let mut answer = [0; 512];
    socket.send_to(&request, ("127.0.0.1", port)).is_ok()
        && socket.recv(&mut answer).is_ok_and(|length| length >= 20 && answer[..2] == [1, 1])
}

#[tokio::test]
async fn turn_server_accepts_credentials_until_they_expire() {
    let Some(coturn) = Coturn::start().await else { return };
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(files.path().join(name), content).unwrap();
        files.path().join(name).display().to_string()
    };
    let (secret, list) = (file("secret", SECRET), file("list", r#"[{"urls":"stun:stun.example:3478"}]"#));
    let mesh = TestMesh::with_options(|options| {
        options.nodes = 1;
        options.node_args = vec![
            format!("--turn-urls=turn:127.0.0.1:{}?transport=udp", coturn.port),
            format!("--turn-secret-file={secret}"),
            format!("--turn-ttl-s={}", TTL.as_secs()),
            format!("--ice-servers-file={list}"),
        ];
    })
    .await;
    let mut alice = mesh.peer("alice").await;
    let given = alice.welcome["ice_servers"].clone();
    assert_eq!(given[0], json!({ "urls": ["stun:stun.example:3478"] }));
    let turn = &given[1];
    assert!(turn["username"].as_str().unwrap().ends_with(":alice"), "{given}");
    assert!(coturn.relays(turn).await, "{}", std::fs::read_to_string(coturn.log()).unwrap());

    let mut forged = turn.clone();
    forged["username"] = turn["username"].as_str().unwrap().replace(":alice", ":mallory").into();
    assert!(!coturn.admits(&forged).await, "of another client");
    within(TTL * 3, "the credentials to expire", async || (!coturn.admits(turn).await).then_some(())).await;

    alice.send(&json!({ "type": "ice_servers" })).await;
    let fresh = alice.recv_type("ice_servers").await;
    assert!(coturn.admits(&fresh["ice_servers"][1]).await, "fresh ones");

    // New contents of the files count for the next request.
    std::fs::write(list, r#"[{"urls":["stun:other.example"]}]"#).unwrap();
    std::fs::write(secret, "a secret that coturn does not know").unwrap();
    let is_reloaded = async || {
        alice.send(&json!({ "type": "ice_servers" })).await;
        let servers = alice.recv_type("ice_servers").await["ice_servers"].clone();
        servers[0]["urls"] == json!(["stun:other.example"]) && !coturn.admits(&servers[1]).await
    };
    eventually("the files to be read again", is_reloaded).await;
}
