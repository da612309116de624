//! No log at any level contains a secret, a token, or the data of a message.

use std::num::NonZeroU64;

use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use signaling_integration_tests::token_mesh::{ask_for_tokens, key_file};
use signaling_integration_tests::{
    Certificate, Head, Peer, RawSocket, Signer, TestMesh, ask, ask_on, becomes, claims, claims_with, connect,
    until_some,
};

const ADMIN: &str = "the-token-of-the-admin";
const TURN: &str = "the-secret-of-the-turn-server";
const STORE: &str = "the/password:of@the,room-store";
const DATA: &str = "v=0-an-offer-for-its-recipient-only";
/// With this seed node-2 owns Ada, node-0 Bob, and node-1 Eve.
const SEED: NonZeroU64 = NonZeroU64::new(0xcafe_f00d_d15e_a5ef).unwrap();

#[tokio::test]
async fn trace_logs_hold_no_secret_and_no_message() {
    let signer = Signer::hs256();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(files.path().join(name), content).unwrap();
        files.path().join(name).display().to_string()
    };
    let (admin, turn, store) = (file("admin", ADMIN), file("turn", TURN), file("store", STORE));
    let certificate = Certificate::new(files.path(), "node");
    let list = file("ice", r#"[{"urls":"turn:a.example","username":"u","credential":"a-listed-credential"}]"#);
    let mesh = TestMesh::with_redis(|options| {
        options.hash_seed = Some(SEED);
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
        options.node_args.extend(certificate.flags());
        ask_for_tokens(options, &signer);
    })
    .await;
    let Some(mesh) = mesh else { return };
    // Without `requirepass`, Redis refuses a password.
    ask_store(&mut store_of(&mesh).await, &["CONFIG", "SET", "requirepass", STORE]).await;
    for node in mesh.state().nodes {
        becomes(&node.internal, "signaling_room_store_up", 1).await;
    }
    let mut secrets = [ADMIN, TURN, STORE, "the%2Fpassword", DATA, "a-listed-credential"].map(str::to_owned).to_vec();
    secrets.extend([mesh.secret(), String::from_utf8(signer.key_file.clone()).unwrap()]);
    secrets.extend([SEED.to_string(), format!("{SEED:x}")]);
    let key = std::fs::read_to_string(&certificate.key).unwrap();
    secrets.extend(key.lines().filter(|line| !line.starts_with('-')).map(str::to_owned));

    // Valid and invalid tokens, at the balancer and at a node.
    let (ada, bob) = ("ada", "bob");
    let public = mesh.state().nodes[1].url.clone();
    let tokens =
        [signer.token(&claims(ada)), signer.token(&claims_with(ada, &json!({ "exp": 1 }))), "no.to.ken".to_owned()];
    for token in &tokens {
        for head in ways_in(ada, token) {
            ask_on(connect(&mesh.url()).await, head.to_string().as_bytes()).await;
            ask_on(certificate.connect(&public, &[]).await.unwrap(), head.to_string().as_bytes()).await;
        }
    }
    let drain = Head::get("/admin/drain").method("POST").bearer("some-wrong-secret");
    assert_eq!(ask(&mesh.balancer_internal(), drain).await.status, 401);
    secrets.push("some-wrong-secret".to_owned());
    secrets.extend(tokens);

    // A call, a renewal, a room, a resumed session.
    let mut bob_peer = Peer::connect_with(&mesh.url(), bob, &signer.token(&claims(bob))).await;
    let mut ada_peer = Peer::connect_with(&mesh.url(), ada, &signer.token(&claims(ada))).await;
    let renewed = signer.token(&claims_with(ada, &json!({ "jti": "renewed" })));
    ada_peer.send(&json!({ "type": "token", "token": renewed })).await;
    ada_peer.signal(bob, json!({ "sdp": DATA }), Some(1)).await;
    bob_peer.recv_type("signal").await;
    ada_peer.send(&json!({ "type": "join", "room": "den", "data": { "shown": DATA }, "id": 2 })).await;
    ada_peer.recv_type("joined").await;
    ada_peer.send(&json!({ "type": "ice_servers" })).await;
    let ice = ada_peer.recv_type("ice_servers").await;
    let welcome = ada_peer.welcome.clone();
    drop(ada_peer);
    let resume = welcome["resume"].as_str().unwrap().to_owned();
    let head = Head::connect(ada).offer(&format!("bearer.{renewed}, resume.{resume}"));
    let mut back = RawSocket::open(&mesh.address(), &head).await;
    let again = back.message().await;
    assert_eq!(again["resumed"], true);

    // A call and a resumed session of a direct client.
    let of_eve = signer.token(&claims("eve"));
    let direct = async |more: &str| {
        let stream = certificate.connect(&public, &[]).await.unwrap();
        Peer::over(stream, "eve", &format!("&token={of_eve}{more}")).await.unwrap()
    };
    let mut eve = direct("").await;
    eve.signal(bob, json!({ "sdp": DATA }), Some(1)).await;
    assert_eq!(bob_peer.recv_type("signal").await["from"], "eve");
    let first = eve.resume_token();
    drop(eve);
    let eve = direct(&format!("&resume={first}")).await;
    assert_eq!(eve.welcome["resumed"], true);
    secrets.extend([first, eve.resume_token(), of_eve]);

    mesh.scale(4).await.unwrap();
    mesh.drain("node-2").await.unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let credential = |servers: &Value| text(&servers["ice_servers"][1]["credential"]);
    secrets.extend([credential(&welcome), credential(&ice), resume, renewed, text(&again["resume"])]);

    let text = all_logs(&mesh).await;
    assert!(text.contains("client connected") && text.contains("wrote to a client"), "the logs are not of this mesh");
    assert_none_of(&secrets, &text);
    assert!(key_file(mesh.dir.path()).is_file());
}

#[tokio::test]
async fn logs_hold_no_password_of_the_room_stores_url() {
    /// The password in a URL.
    const IN_URL: &str = "the%2Fpassword%3Aof%40the%2Croom-store";
    let Some(other) = TestMesh::with_redis(|options| (options.nodes, options.balancers) = (1, 0)).await else { return };
    let mut store = store_of(&other).await;
    let good = format!(">{STORE}");
    ask_store(&mut store, &["ACL", "SETUSER", "keeper", "on", &good, "~*", "&*", "+@all"]).await;
    let redis = other.mesh.state().redis.unwrap();
    let address = redis.replace("redis://", &format!("redis://keeper:{IN_URL}@"));
    let mesh = TestMesh::with_servers((1, 1), &["--log=trace", &format!("--room-store={address}")], &[]).await;
    let mut ada = mesh.peer("ada").await;
    let join = |id: u64| json!({ "type": "join", "room": format!("room-{id}"), "id": id });
    ada.send(&join(1)).await;
    assert_eq!(ada.recv_type("ack").await["id"], 1);

    ask_store(&mut store, &["ACL", "SETUSER", "keeper", "resetpass", ">another-one"]).await;
    ask_store(&mut store, &["CLIENT", "KILL", "USER", "keeper"]).await;
    // The first loses its connection, the second gets no new one.
    for id in [2, 3] {
        ada.send(&join(id)).await;
        assert_eq!(ada.recv_type("error").await["code"], "room_store_unavailable");
    }
    let secrets = [STORE, IN_URL, "the%2Fpassword"].map(str::to_owned);
    assert_none_of(&secrets, &all_logs(&mesh).await);
}

/// Connects to the Redis of a mesh.
async fn store_of(mesh: &TestMesh) -> MultiplexedConnection {
    let url = mesh.state().redis.unwrap();
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

/// Executes a command, given as its words.
async fn ask_store(store: &mut MultiplexedConnection, words: &[&str]) {
    redis::cmd(words[0]).arg(&words[1..]).exec_async(store).await.unwrap();
}

/// Creates requests that show a token in each place.
fn ways_in(id: &str, token: &str) -> impl Iterator<Item = Head> {
    let resume = Head::connect(id).offer(&format!("resume.{token}"));
    let query = format!("client_id={id}&token={token}&resume={token}");
    let queries = [Head::upgrade(&format!("/v1/connect?{query}")), Head::get(&format!("/v1/nowhere?{query}"))];
    Head::with_token(id, token).into_iter().chain([resume]).chain(queries)
}

/// Returns all logs of a mesh, once they have lines of the deepest levels.
async fn all_logs(mesh: &TestMesh) -> String {
    let is_deep = async || Some(mesh.logs()).filter(|text| text.contains("TRACE") || text.contains("DEBUG"));
    until_some("logs at all levels", is_deep).await
}

fn assert_none_of(secrets: &[String], text: &str) {
    for secret in secrets {
        let parts = secret.split('.').filter(|part| part.len() > 12);
        for part in parts.chain([secret.as_str()]) {
            let line = text.lines().find(|line| line.contains(part) || line.contains(&bytes_of(part)));
            assert_eq!(line, None, "{part}");
        }
    }
}

/// Returns the bytes of a text like `{:?}`.
fn bytes_of(text: &str) -> String {
    let numbers: Vec<_> = text.bytes().map(|byte| byte.to_string()).collect();
    numbers.join(", ")
}
