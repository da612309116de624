//! nginx and HAProxy before several balancers, with the configurations of `deploy/front`. Clients
//! reach each other, connect to the balancer with the fewest connections, never to a draining one,
//! and count by the address that the proxy sees.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use signaling_devmesh::{BalancerEntry, find_in_path};
use signaling_integration_tests::{
    Head, Peer, TestMesh, becomes, connect_from, eventually, metric, missing, operator, read_answer, repository,
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::{Child, Command as Spawned};

const SOON: Duration = Duration::from_secs(10);
const CLIENTS: usize = 8;
/// At one balancer; more than come to one here in all.
const MOST_PER_ADDRESS: usize = 20;

#[tokio::test]
async fn nginx_chooses_the_balancer_with_the_fewest_clients() {
    let Some(nginx) = installed("nginx") else { return missing("nginx", "nginx") };
    serves(|mesh, listen, dir| {
        let inner = configuration("nginx.conf", mesh, listen);
        let here = dir.path().display();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|path| format!("{path}_temp_path {here}/{path};\n"))
            .concat();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log {here}/errors;\nevents {{}}\n\
             http {{\naccess_log off;\n{paths}{inner}}}\n"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        check(Command::new(&nginx).arg("-t").arg("-e").arg(dir.path().join("errors")).arg("-c").arg(&file));
        let mut nginx = Spawned::new(&nginx);
        nginx.arg("-e").arg(dir.path().join("errors")).arg("-c").arg(&file);
        nginx
    })
    .await;
}

#[tokio::test]
async fn haproxy_chooses_the_balancer_with_the_fewest_clients() {
    let Some(haproxy) = installed("haproxy") else { return missing("haproxy", "haproxy") };
    serves(|mesh, listen, dir| {
        let file = dir.path().join("haproxy.cfg");
        std::fs::write(&file, configuration("haproxy.cfg", mesh, listen)).unwrap();
        check(Command::new(&haproxy).arg("-c").arg("-f").arg(&file));
        let mut haproxy = Spawned::new(&haproxy);
        haproxy.arg("-f").arg(&file);
        haproxy
    })
    .await;
}

async fn serves(front: impl FnOnce(&TestMesh, u16, &TempDir) -> Spawned) {
    let mesh = TestMesh::with(|options| {
        options.balancers = 2;
        let addresses = ["--client-address=x-forwarded-for:127.0.0.1/32"];
        options.balancer_args.extend(addresses.map(str::to_owned));
        options.balancer_args.push(format!("--max-per-address={MOST_PER_ADDRESS}"));
        options.balancer_args.push("--drain-ms=200".to_owned());
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let listen = free_port();
    let _front: Child =
        front(&mesh, listen, &dir).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    eventually("the front to listen", SOON, || async { TcpStream::connect(("127.0.0.1", listen)).await.ok() }).await;
    let url = format!("ws://127.0.0.1:{listen}");
    let balancers = mesh.mesh.state().balancers;

    let mut peers = Vec::new();
    for n in 0..CLIENTS {
        peers.push(Peer::connect(&url, &format!("client-{n}")).await);
    }
    for balancer in &balancers {
        becomes(&balancer.internal, "signaling_client_sockets", CLIENTS / 2).await;
    }

    peers[0].signal("client-1", json!("through the front"), Some(1)).await;
    assert_eq!(peers[1].recv().await["data"], "through the front");
    assert_eq!(peers[0].recv().await, json!({ "type": "ack", "id": 1 }));

    operate(&balancers[0], "drain").await;
    for n in 0..CLIENTS {
        peers.push(Peer::connect(&url, &format!("later-{n}")).await);
    }
    becomes(&balancers[0].internal, "signaling_client_sockets", 0).await;
    becomes(&balancers[1].internal, "signaling_client_sockets", CLIENTS / 2 + CLIENTS).await;

    operate(&balancers[0], "undrain").await;
    let opened = async || metric(&balancers[0].internal, "signaling_client_sockets_opened_total", "").await;
    let before = opened().await;
    let mut probes = 0;
    eventually("the front to see that it is back", SOON, || {
        probes += 1;
        let (url, opened, id) = (&url, &opened, format!("probe-{probes}"));
        async move {
            Peer::connect(url, &id).await.close().await;
            (opened().await > before).then_some(())
        }
    })
    .await;
    becomes(&balancers[0].internal, "signaling_client_sockets", 0).await;
    for n in 0..CLIENTS {
        peers.push(Peer::connect(&url, &format!("last-{n}")).await);
    }
    // It had the fewest; by turns it would have got half.
    becomes(&balancers[0].internal, "signaling_client_sockets", CLIENTS).await;

    who_says_to_be_somebody_else_is_not_believed(listen).await;
}

/// Many connections of one address that each claim another one reach the limit; others do not.
async fn who_says_to_be_somebody_else_is_not_believed(listen: u16) {
    let mut open = Vec::new();
    let mut ask = async |from: u8, n: usize| {
        let mut stream = connect_from([127, 0, 0, from], &format!("127.0.0.1:{listen}")).await.unwrap();
        let head = Head::connect(&format!("forger-{from}-{n}")).with("X-Forwarded-For", &format!("203.0.113.{n}"));
        stream.write_all(head.text().as_bytes()).await.unwrap();
        let status = read_answer(&mut stream).await.status;
        open.push(stream);
        status
    };
    let mut let_in = 0;
    while ask(2, let_in).await == 101 {
        let_in += 1;
        assert!(let_in <= 2 * MOST_PER_ADDRESS, "each is counted by the address that it names itself");
    }
    assert!(let_in >= MOST_PER_ADDRESS, "{let_in}");
    assert_eq!(ask(3, 0).await, 101, "another address is another client");
}

/// One of `deploy/front`, for these balancers, and on this port.
fn configuration(name: &str, mesh: &TestMesh, listen: u16) -> String {
    let mut text = std::fs::read_to_string(repository().join("deploy/front").join(name)).unwrap();
    for listening in ["listen 80;", "bind :80\n"] {
        let (word, end) = (listening.split(' ').next().unwrap(), listening.chars().last().unwrap());
        text = text.replace(listening, &format!("{word} 127.0.0.1:{listen}{end}"));
    }
    for (n, balancer) in mesh.mesh.state().balancers.iter().enumerate() {
        let internal = balancer.internal.rsplit(':').next().unwrap();
        text = text.replace(
            &format!("balancer-{n}:8080 check port 7900"),
            &format!("balancer-{n}:8080 check port {internal}"),
        );
        text = text.replace(&format!("balancer-{n}:8080"), balancer.url.trim_start_matches("ws://"));
    }
    assert!(!text.contains(":8080") && !text.contains("7900"), "{text}");
    text
}

async fn operate(balancer: &BalancerEntry, what: &str) {
    let answer = operator(&balancer.internal, reqwest::Method::POST, what).send().await.unwrap();
    assert!(answer.status().is_success());
}

fn check(command: &mut Command) {
    let run = command.output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

fn installed(name: &str) -> Option<PathBuf> {
    find_in_path(name).or_else(|| Some(Path::new("/usr/sbin").join(name)).filter(|file| file.is_file()))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
