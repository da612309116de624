//! No log at any level contains a secret, a token, or the data of a message.

use std::num::NonZeroU64;

use serde_json::{Value, json};
use signaling_integration_tests::mesh::{ask_for_tokens, key_file};
use signaling_integration_tests::{
    Certificate, Head, Peer, RawSocket, Signer, TestMesh, ask, ask_on, claims, claims_with, connect, until_some,
};

const ADMIN: &str = "the-token-of-the-admin";
const TURN: &str = "the-secret-of-the-turn-server";
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
    let admin = file("admin", ADMIN);
    let turn = file("turn", TURN);
    let certificate = Certificate::new(files.path(), "node", 2);
    let list = file("ice", r#"[{"urls":"turn:a.example","username":"u","credential":"a-listed-credential"}]"#);
    let mesh = TestMesh::with_options(|options| {
        options.hash_seed = Some(SEED);
        for flags in [&mut options.node_args, &mut options.balancer_args] {
            flags.extend(["--log=trace".to_owned(), format!("--admin-token-file={admin}")]);
        }
        options.node_args.extend([format!("--turn-secret-file={turn}"), format!("--ice-servers-file={list}")]);
        options.node_args.push("--turn-urls=turn:b.example".to_owned());
        options.node_args.extend(certificate.flags());
        ask_for_tokens(options, &signer);
    })
    .await;
    let mut secrets = [ADMIN, TURN, DATA, "a-listed-credential"].map(str::to_owned).to_vec();
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
        // Each place of a request that may have a token.
        let resume = Head::connect(ada).offer(&format!("resume.{token}"));
        let query = format!("client_id={ada}&token={token}&resume={token}");
        let queries = [Head::upgrade(&format!("/v1/connect?{query}")), Head::get(&format!("/v1/nowhere?{query}"))];
        for head in Head::with_token(ada, token).into_iter().chain([resume]).chain(queries) {
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

    // The search proves something only if the logs have lines of the deepest levels.
    let is_deep = async || Some(mesh.logs()).filter(|text| text.contains("TRACE") || text.contains("DEBUG"));
    let text = until_some("logs at all levels", is_deep).await;
    assert!(text.contains("client connected") && text.contains("wrote to a client"), "the logs are not of this mesh");
    assert_none_of(&secrets, &text);
    assert!(key_file(mesh.dir.path()).is_file());
}

fn assert_none_of(secrets: &[String], text: &str) {
    for secret in secrets {
        let parts = secret.split('.').filter(|part| part.len() > 12);
        for part in parts.chain([secret.as_str()]) {
            // A log may have the text as numbers.
            let bytes = format!("{:?}", part.as_bytes());
            let bytes = bytes.trim_matches(['[', ']']);
            let line = text.lines().find(|line| line.contains(part) || line.contains(bytes));
            assert_eq!(line, None, "{part}");
        }
    }
}
