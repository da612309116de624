//! No log at any level has a secret, a token, or what clients say to each other.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::json;
use signaling_integration_tests::http::{Head, ask};
use signaling_integration_tests::metrics::becomes;
use signaling_integration_tests::mint::{Signer, claims, claims_with};
use signaling_integration_tests::store::Store;
use signaling_integration_tests::token_mesh::{ask_for_tokens, key_file};
use signaling_integration_tests::{Peer, RawSocket, TestMesh, eventually};

const OFFERS: &str = "Sec-WebSocket-Protocol";
const ADMIN: &str = "the-token-of-the-admin";
const TURN: &str = "the-secret-of-the-turn-server";
const STORE: &str = "the/password:of@the,room-store";
const SAID: &str = "v=0-an-offer-that-nobody-else-may-read";

#[tokio::test]
async fn trace_logs_of_all_servers_hold_no_secret_no_token_and_nothing_that_clients_say() {
    let signer = Signer::hs256();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(files.path().join(name), content).unwrap();
        files.path().join(name).display().to_string()
    };
    let (admin, turn, store) = (file("admin", ADMIN), file("turn", TURN), file("store", STORE));
    let list = file("ice", r#"[{"urls":"turn:a.example","username":"u","credential":"a-listed-credential"}]"#);
    let mesh = TestMesh::with_redis(|options| {
        for flags in [&mut options.node_args, &mut options.balancer_args] {
            flags.extend(["--log=trace".to_owned(), format!("--admin-token-file={admin}")]);
        }
        let ice = [
            format!("--turn-secret-file={turn}"),
            "--turn-urls=turn:b.example".into(),
            format!("--ice-servers-file={list}"),
            format!("--room-store-password-file={store}"),
        ];
        options.node_args.extend(ice);
        ask_for_tokens(options, &signer);
    })
    .await;
    let Some(mesh) = mesh else { return };
    // Until then it refuses whoever shows one.
    Store::of(&mesh).await.ask::<String>(&["CONFIG", "SET", "requirepass", STORE]).await;
    for node in mesh.mesh.state().nodes {
        becomes(&node.internal, "signaling_room_store_up", 1).await;
    }
    let mut secrets = vec![
        mesh.secret(),
        ADMIN.to_owned(),
        TURN.to_owned(),
        STORE.to_owned(),
        "the%2Fpassword".to_owned(),
        SAID.to_owned(),
        "a-listed-credential".to_owned(),
        String::from_utf8(signer.key_file()).unwrap(),
    ];

    // Tokens, good ones and bad ones, by each way in.
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let tokens =
        [signer.token(&claims(&ada)), signer.token(&claims_with(&ada, &json!({ "exp": 1 }))), "no.to.ken".to_owned()];
    for token in &tokens {
        for head in [
            Head::connect(&ada).with("Authorization", &format!("Bearer {token}")),
            Head::connect(&ada).with(OFFERS, &format!("bearer.{token}, resume.{token}")),
            Head::upgrade(&format!("/v1/connect?client_id={ada}&token={token}&resume={token}")),
            Head::get(&format!("/v1/nowhere?token={token}")),
        ] {
            ask_anything(&mesh.address(), &head).await;
        }
    }
    let internal = mesh.mesh.state().balancers[0].internal.clone();
    let drain = Head::get("/admin/drain").method("POST").with("Authorization", "Bearer some-wrong-secret");
    assert_eq!(ask(internal.trim_start_matches("http://"), drain.text()).await.status, 401);
    secrets.push("some-wrong-secret".to_owned());
    secrets.extend(tokens);

    // A call, a renewal, a room, a resumed session.
    let mut bob_peer = Peer::connect_with(&mesh.url(), &bob, &signer.token(&claims(&bob))).await;
    let mut ada_peer = Peer::connect_with(&mesh.url(), &ada, &signer.token(&claims(&ada))).await;
    let renewed = signer.token(&claims_with(&ada, &json!({ "jti": "renewed" })));
    ada_peer.send(&json!({ "type": "token", "token": renewed })).await;
    ada_peer.signal(&bob, json!({ "sdp": SAID }), Some(1)).await;
    bob_peer.recv_type("signal").await;
    ada_peer.send(&json!({ "type": "join", "room": "den", "data": { "shown": SAID }, "id": 2 })).await;
    ada_peer.recv_type("joined").await;
    ada_peer.send(&json!({ "type": "ice_servers" })).await;
    let ice = ada_peer.recv_type("ice_servers").await;
    let welcome = ada_peer.welcome.clone();
    drop(ada_peer);
    let resume = welcome["resume"].as_str().unwrap().to_owned();
    let head = Head::connect(&ada).with(OFFERS, &format!("bearer.{renewed}, resume.{resume}"));
    let mut back = RawSocket::open(&mesh.address(), &head).await;
    let again = back.message().await;
    assert_eq!(again["resumed"], true);
    mesh.mesh.scale(4).await.unwrap();
    mesh.mesh.drain("node-1").await.unwrap();
    let credential = |servers: &serde_json::Value| servers["ice_servers"][1]["credential"].as_str().unwrap().to_owned();
    secrets.extend([
        credential(&welcome),
        credential(&ice),
        resume,
        renewed,
        again["resume"].as_str().unwrap().to_owned(),
    ]);

    let logs = mesh.dir.path().join("logs");
    let is_deep = || async { all(&logs).contains("TRACE").then_some(()) };
    eventually("trace logs", std::time::Duration::from_secs(5), is_deep).await;
    let text = all(&logs);
    assert!(text.contains("a client is in") && text.contains("wrote to a client"), "the logs are not of this mesh");
    for secret in &secrets {
        let parts = secret.split('.').filter(|part| part.len() > 12);
        for part in parts.chain([secret.as_str()]) {
            let line = text.lines().find(|line| line.contains(part) || line.contains(&bytes_of(part)));
            assert_eq!(line, None, "{part}");
        }
    }
    assert!(key_file(mesh.dir.path()).is_file());
}

/// As `{:?}` shows bytes.
fn bytes_of(text: &str) -> String {
    let numbers: Vec<_> = text.bytes().map(|byte| byte.to_string()).collect();
    numbers.join(", ")
}

fn all(logs: &Path) -> String {
    let files = std::fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned()).collect()
}

/// Whatever the answer is.
async fn ask_anything(address: &str, head: &Head) {
    use tokio::io::AsyncWriteExt as _;
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(head.text().as_bytes()).await.unwrap();
    signaling_integration_tests::http::read_answer(&mut stream).await;
}
