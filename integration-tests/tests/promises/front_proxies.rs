//! nginx and HAProxy before several balancers, with the configurations of `deploy/front`. Clients
//! reach each other. They connect to the balancer with the fewest connections, never to a draining
//! one. They count by the address that the proxy sees. `mesh-dev page` has the demo before a mesh.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use signaling_devmesh::{Service, hold_port};
use signaling_integration_tests::{
    Head, LineProgram, Peer, TestMesh, admin, ask, ask_on, becomes, binaries, connect_from, ends, eventually, host,
    metric, program, refused, repository, talk,
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const CLIENTS: usize = 8;
/// Maximum clients of an address at one balancer: more than the test connects to one.
const MAX_PER_ADDRESS: usize = 20;

#[tokio::test]
async fn nginx_chooses_the_balancer_with_the_fewest_clients() {
    let Some(nginx) = program(&["nginx"], "nginx") else { return };
    let dir = serves(|mesh, listen, dir| {
        let here = dir.path().display();
        let inner = configuration("nginx.conf", mesh, listen).replace("/var/log/nginx", &here.to_string());
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|path| format!("{path}_temp_path {here}/{path};\n"))
            .concat();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log {here}/errors;\nevents {{}}\n\
             http {{\n{paths}{inner}}}\n"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        (vec![nginx.into(), "-e".into(), dir.path().join("errors").into(), "-c".into(), file.into()], "-t")
    })
    .await;
    let log = std::fs::read_to_string(dir.path().join("signaling.log")).unwrap();
    assert!(log.lines().any(|line| line.contains(" GET 101 ")), "{log}");
    assert!(!log.contains("/v1") && !log.contains("client_id"), "{log}");
}

#[tokio::test]
async fn haproxy_chooses_the_balancer_with_the_fewest_clients() {
    let Some(haproxy) = program(&["haproxy"], "haproxy") else { return };
    serves(|mesh, listen, dir| haproxy_line(haproxy, mesh, listen, dir)).await;
}

fn haproxy_line(haproxy: PathBuf, mesh: &TestMesh, listen: u16, dir: &TempDir) -> (Vec<OsString>, &'static str) {
    let file = dir.path().join("haproxy.cfg");
    std::fs::write(&file, configuration("haproxy.cfg", mesh, listen)).unwrap();
    (vec![haproxy.into(), "-f".into(), file.into()], "-c")
}

#[tokio::test]
async fn haproxy_closes_a_request_that_stays_incomplete() {
    let Some(haproxy) = program(&["haproxy"], "haproxy") else { return };
    let mesh = TestMesh::with_servers((1, 2), &[], &[]).await;
    let front = Front::start(&mesh, |mesh, listen, dir| haproxy_line(haproxy, mesh, listen, dir)).await;
    let mut stream = TcpStream::connect(("127.0.0.1", front.listen)).await.unwrap();
    stream.write_all(b"GET /v1/connect?client_id=slow HTTP/1.1\r\nHost: a\r\n").await.unwrap();
    assert!(ends(&mut stream, Duration::from_secs(10)).await);
}

#[tokio::test]
async fn mesh_dev_serves_the_demo_before_a_mesh_elsewhere() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let to = format!("http://{}", mesh.address());
    let mut command = tokio::process::Command::new(binaries().join("mesh-dev"));
    let mut page = LineProgram::start(command.args(["page", "--listen", "127.0.0.1:0", "--to", &to]));
    let line = page.line().await;
    let address = host(line.split_whitespace().last().unwrap()).trim_end_matches('/').to_owned();

    let get = |path: &str| Head::get(path).with("Connection", "close");
    let index = ask(&address, get("/")).await;
    assert!(index.body.contains("app.js"), "{index:?}");
    assert!(index.header("content-security-policy").is_some());
    for path in ["/signaling-mesh.mjs", "/v1/connect?client_id=", "/none"] {
        let here = ask(&address, get(path)).await;
        let there = ask(&mesh.address(), get(path)).await;
        assert_eq!((here.status, &here.body), (there.status, &there.body), "{path}");
    }
    let ids = ["ada", "bob"].map(str::to_owned);
    let mut peers = Peer::connect_all(&format!("ws://{address}"), ids).await;
    talk(&mut peers, "through the page's server").await;

    mesh.kill("balancer-0").await.unwrap();
    assert_eq!(peers[0].closed().await, None, "the client sees the end of its connection");
    refused(&address, get("/signaling-mesh.mjs"), (502, "no_mesh")).await;
}

/// A running proxy.
struct Front {
    listen: u16,
    dir: TempDir,
    _service: Service,
}

impl Front {
    /// Starts a proxy before a mesh. `line` returns its command line, and the flag by which it
    /// checks its configuration.
    async fn start(
        mesh: &TestMesh,
        line: impl FnOnce(&TestMesh, u16, &TempDir) -> (Vec<OsString>, &'static str),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Else a server of another test could take the port before the proxy listens.
        let port = hold_port((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listen = port.local_addr().unwrap().port();
        let (line, check) = line(mesh, listen, &dir);
        let run = Command::new(&line[0]).args(&line[1..]).arg(check).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let listens =
            eventually("the proxy to listen", async || TcpStream::connect(("127.0.0.1", listen)).await.is_ok());
        let (service, ()) = Service::start(&line, &dir.path().join("log"), listens).await.unwrap();
        Self { listen, dir, _service: service }
    }
}

/// Checks a proxy before a mesh, as [`Front::start`] starts it. Returns its directory.
async fn serves(line: impl FnOnce(&TestMesh, u16, &TempDir) -> (Vec<OsString>, &'static str)) -> TempDir {
    let limit = format!("--max-per-address={MAX_PER_ADDRESS}");
    let flags = ["--client-address=x-forwarded-for:127.0.0.1/32", "--drain-ms=200", &limit];
    let mesh = TestMesh::with_servers((3, 2), &[], &flags).await;
    let front = Front::start(&mesh, line).await;
    let listen = front.listen;
    let url = format!("ws://127.0.0.1:{listen}");
    let balancers = mesh.state().balancers;

    let connect = async |prefix: &str| Peer::connect_all(&url, (0..CLIENTS).map(|n| format!("{prefix}-{n}"))).await;
    let mut peers = connect("client").await;
    for balancer in &balancers {
        becomes(&balancer.internal, "signaling_client_sockets", CLIENTS / 2).await;
    }

    talk(&mut peers, "through the proxy").await;

    admin(&balancers[0].internal, "POST", "drain").await;
    let _later = connect("later").await;
    becomes(&balancers[0].internal, "signaling_client_sockets", 0).await;
    becomes(&balancers[1].internal, "signaling_client_sockets", CLIENTS / 2 + CLIENTS).await;

    admin(&balancers[0].internal, "POST", "undrain").await;
    let opened = async || metric(&balancers[0].internal, "signaling_client_sockets_opened_total", "").await;
    let before = opened().await;
    let mut probes = 0;
    let is_back = async || {
        probes += 1;
        Peer::connect(&url, &format!("probe-{probes}")).await.close().await;
        opened().await > before
    };
    eventually("the proxy to use the balancer again", is_back).await;
    becomes(&balancers[0].internal, "signaling_client_sockets", 0).await;
    let _last = connect("last").await;
    // It had the fewest; round robin would give it half.
    becomes(&balancers[0].internal, "signaling_client_sockets", CLIENTS).await;

    forged_addresses_do_not_count(listen).await;
    front.dir
}

/// Connections of one address reach the limit although each claims another address.
async fn forged_addresses_do_not_count(listen: u16) {
    let mut open = Vec::new();
    let mut ask = async |from: u8, n: usize| {
        let stream = connect_from([127, 0, 0, from], &format!("127.0.0.1:{listen}")).await;
        let head = Head::connect(&format!("forger-{from}-{n}")).with("X-Forwarded-For", &format!("203.0.113.{n}"));
        let (answer, stream) = ask_on(stream, head.to_string().as_bytes()).await;
        open.push(stream);
        answer.status
    };
    let mut let_in = 0;
    while ask(2, let_in).await == 101 {
        let_in += 1;
        assert!(let_in <= 2 * MAX_PER_ADDRESS, "each is counted by the address that it names itself");
    }
    assert!(let_in >= MAX_PER_ADDRESS, "{let_in}");
    assert_eq!(ask(3, 0).await, 101, "another address is another client");
}

/// Returns a configuration of `deploy/front` with these balancers and this port.
fn configuration(name: &str, mesh: &TestMesh, listen: u16) -> String {
    let mut text = std::fs::read_to_string(repository().join("deploy/front").join(name)).unwrap();
    for listening in ["listen 80;", "bind :80\n"] {
        let (word, end) = (listening.split(' ').next().unwrap(), listening.chars().last().unwrap());
        text = text.replace(listening, &format!("{word} 127.0.0.1:{listen}{end}"));
    }
    for (n, balancer) in mesh.state().balancers.iter().enumerate() {
        let server = format!("balancer-{n}:8080");
        let port = balancer.internal.rsplit(':').next().unwrap();
        text = text.replace(&format!("{server} check port 7900"), &format!("{server} check port {port}"));
        text = text.replace(&server, host(&balancer.url));
    }
    assert!(!text.contains(":8080") && !text.contains("7900"), "{text}");
    text
}
