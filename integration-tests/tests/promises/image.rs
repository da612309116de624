//! The image works as pods would run it: three nodes and a balancer with the flags and variables of the rendered manifests,
//! each without rights, in a read-only root that has nothing but the image and what a kubelet mounts.
//!
//! `make test-image` builds the archive and runs this, which takes root.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::metrics::becomes;
use signaling_integration_tests::pods::{HOST, Image, RunningPod, Surroundings, enter};
use signaling_integration_tests::rendered::{Pod, Rendered};
use signaling_integration_tests::slices::SliceServer;
use signaling_integration_tests::{Peer, eventually};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Names the archive.
const ARCHIVE: &str = "SIGNALING_IMAGE_ARCHIVE";
const NODES: u8 = 3;
const PASSWORD: &str = "a-password-of-rooms";
const SOON: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
#[ignore = "needs an archive of the image, and root: make test-image"]
async fn two_clients_signal_through_the_pods_of_the_image() {
    let archive = std::env::var_os(ARCHIVE).map_or_else(|| panic!("{ARCHIVE} names no archive"), PathBuf::from);
    if !enter("image::two_clients_signal_through_the_pods_of_the_image") {
        return;
    }
    let image = Image::unpack(&archive);
    assert_eq!(image.config["config"]["User"], "65532:65532");
    let rendered =
        Rendered::meshes().into_iter().find(|mesh| mesh.folder == "deploy/overlays/kind").expect("a kubectl");
    let (node, balancer) = (rendered.pod("signaling-nodes"), rendered.pod("signaling-balancers"));
    let _redis = start_redis(rendered.pod("signaling-redis")).await;

    let addresses: Vec<(String, String)> =
        (0..NODES).map(|n| (format!("signaling-nodes-{n}"), format!("10.77.0.{}", 10 + n))).collect();
    let server = SliceServer::start((HOST, 0).into(), "signaling-nodes", ("internal", 7900), &addresses).await;
    let (ca, port) = (SliceServer::ca(), server.address.port().to_string());
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    let around = Surroundings {
        hosts: &format!("127.0.0.1 self\n{HOST} localhost signaling-redis\n"),
        files: &[
            ("/run/secrets/signaling/mesh-secret", b"a-mesh-secret-for-pods"),
            ("/run/secrets/signaling/hash-seed", b"0x1234"),
            ("/run/secrets/signaling/admin-token", b"an-admin-token-for-pods"),
            ("/run/secrets/signaling/room-store-password", PASSWORD.as_bytes()),
            (&format!("{account}/token"), b"token-of-the-account"),
            (&format!("{account}/ca.crt"), ca.as_bytes()),
            (&format!("{account}/namespace"), b"signaling"),
        ],
        variables: &[("KUBERNETES_SERVICE_HOST", "localhost"), ("KUBERNETES_SERVICE_PORT", &port)],
    };
    let mut pods: Vec<RunningPod> = (0..NODES).map(|n| RunningPod::start(&image, node, n, &around)).collect();
    pods.push(RunningPod::start(&image, balancer, NODES, &around));
    for pod in &mut pods {
        is_ready(pod).await;
        assert_eq!((pod.status("Uid"), pod.status("Gid")), ("65532".to_owned(), "65532".to_owned()));
        assert_eq!((pod.status("CapEff"), pod.status("NoNewPrivs")), ("0".repeat(16), "1".to_owned()));
        becomes(&format!("http://{}:7900", pod.address), "signaling_view_nodes", usize::from(NODES)).await;
    }

    let url = format!("ws://{}:8080", pods[usize::from(NODES)].address);
    let (mut alice, mut bob) = (Peer::connect(&url, "alice").await, Peer::connect(&url, "bob").await);
    for peer in [&mut alice, &mut bob] {
        peer.send(&json!({ "type": "join", "room": "standup", "id": 1 })).await;
        peer.recv_type("joined").await;
        peer.recv_type("ack").await;
    }
    alice.signal("bob", json!({ "sdp": "v=0" }), Some(2)).await;
    assert_eq!(bob.recv_type("signal").await["data"]["sdp"], "v=0");
    assert_eq!(alice.recv_type("ack").await["id"], 2);
    bob.signal("alice", json!("answer"), Some(2)).await;
    assert_eq!(alice.recv_type("signal").await["data"], "answer");

    let heard = server.requests.lock().unwrap().clone();
    assert!(heard.iter().any(|request| request.ends_with(" token-of-the-account")), "{heard:?}");
    println!(
        "{} pods of {}: {} and {} signalled",
        pods.len(),
        archive.display(),
        alice.welcome["node"],
        bob.welcome["node"]
    );
}

/// The room store by the words of its manifest; the program is whichever is installed.
async fn start_redis(pod: Pod<'_>) -> Child {
    let arguments = pod.arguments().into_iter().map(|word| word.replace("$(ROOM_STORE_PASSWORD)", PASSWORD));
    let mut redis = Command::new("redis-server");
    redis
        .args(arguments)
        .args(["--bind", &HOST.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    let redis = redis.spawn().unwrap();
    eventually("the room store", SOON, || async { TcpStream::connect((HOST, 6379)).await.ok() }).await;
    redis
}

async fn is_ready(pod: &mut RunningPod) {
    let (address, log) = (format!("http://{}:7900/readyz", pod.address), pod.log.clone());
    let client = reqwest::Client::builder().no_proxy().timeout(ANSWER_WITHIN).build().unwrap();
    let process = &mut pod.process;
    let ready = || {
        let ended = process.try_wait().unwrap();
        let request = client.get(&address).send();
        assert!(ended.is_none(), "{}: {ended:?}: {}", pod.name, std::fs::read_to_string(&log).unwrap_or_default());
        async move { request.await.ok().filter(|answer| answer.status().is_success()).map(drop) }
    };
    eventually(&format!("{} to be ready", pod.name), SOON, ready).await;
}
