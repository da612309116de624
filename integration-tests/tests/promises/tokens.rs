//! With tokens required, no client gets another client's id, and none stays connected after its
//! token expires.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_client::{Client, Event, Options, State, Token};
use signaling_devmesh::Server;
use signaling_integration_tests::mesh::{ask_for_tokens, key_file};
use signaling_integration_tests::mint::{now, unsigned};
use signaling_integration_tests::raw_socket::{PING, TEXT};
use signaling_integration_tests::{
    Head, Peer, RawSocket, Signer, TestMesh, admin, ask, becomes, claims, claims_with, eventually, metric, refused,
    until,
};

/// Returns faults of a token with the token, and the status, code and counted reason of the answer.
fn refusals(signer: &Signer) -> [(&'static str, Option<String>, u16, &'static str, &'static str); 11] {
    let with = |others: Value| Some(signer.token(&claims_with("alice", &others)));
    let another = Signer::secret(b"another secret, also of 32 bytes or more");
    [
        ("no token", None, 401, "no_token", "missing"),
        ("no JWT", Some("nonsense".into()), 401, "bad_token", "malformed"),
        ("a token of 5 KB", with(json!({ "more": "x".repeat(3_800) })), 401, "bad_token", "malformed"),
        ("another key", Some(another.token(&claims("alice"))), 401, "bad_token", "signature"),
        ("alg none", Some(unsigned("none", &claims("alice"))), 401, "bad_token", "algorithm"),
        ("expired", with(json!({ "exp": now() - 2 })), 401, "token_expired", "expired"),
        ("not good yet", with(json!({ "nbf": now() + 30 })), 401, "bad_token", "not_yet"),
        ("wrong audience", with(json!({ "aud": "another-mesh" })), 401, "bad_token", "audience"),
        ("wrong issuer", with(json!({ "iss": "https://evil.example" })), 401, "bad_token", "issuer"),
        ("for another client_id", Some(signer.token(&claims("bob"))), 403, "forbidden", "subject"),
        ("a claim that makes no sense", with(json!({ "rooms": "all" })), 403, "forbidden", "claim"),
    ]
}

#[tokio::test]
async fn bad_token_is_refused_by_its_error_and_counted() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &[]).await;
    let state = mesh.state();
    for Server { url, internal, .. } in state.servers() {
        for (what, token, status, code, reason) in refusals(&signer) {
            let counts = async || {
                let reason = format!("reason=\"{reason}\"");
                let by_reason = metric(internal, "signaling_auth_failures_total", &reason).await;
                let status = format!("reason=\"{status}\"");
                (by_reason, metric(internal, "signaling_refused_connects_total", &status).await)
            };
            let (by_reason, by_status) = counts().await;
            let head = Head::connect("alice");
            let token = token.as_deref();
            let ways = token.map_or(vec![head.clone()], |token| Head::with_token("alice", token).to_vec());
            for way in &ways {
                let answer = ask(url, way).await;
                assert_eq!((answer.status, answer.error_code().as_str()), (status, code), "{what}: {answer:?}");
                assert!(token.is_none_or(|token| !answer.body.contains(token)), "{what}: quoted");
            }
            // Pages see no status, so a client with the subprotocol gets a close code.
            let offers = token.map_or("signaling.v1".into(), |token| format!("signaling.v1, bearer.{token}"));
            let mut socket = RawSocket::open(url, &head.offer(&offers)).await;
            assert_eq!(socket.closed().await.0, 4_000 + status, "{what}");
            let asked = ways.len() as f64 + 1.0;
            assert_eq!(counts().await, (by_reason + asked, by_status + asked), "{what}");
        }
        let token = signer.token(&claims("alice"));
        let lower_case = Head::connect("alice").with("Authorization", &format!("bearer {token}"));
        for way in Head::with_token("alice", &token).into_iter().chain([lower_case]) {
            let mut socket = RawSocket::open(url, &way).await;
            assert_eq!(socket.message().await["type"], "welcome");
            assert_eq!(socket.answer.header("sec-websocket-protocol"), None, "a token is never echoed");
        }
        let opened = metric(internal, "signaling_client_sockets_opened_total", "").await;
        assert_eq!(opened, 4.0, "no other client was admitted");
    }
}

#[tokio::test]
async fn resume_token_needs_the_clients_own_token() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &[]).await;
    let state = mesh.state();
    for (Server { url, internal, .. }, name) in state.servers().zip(["bob", "bert"]) {
        let missing = async || metric(internal, "signaling_auth_failures_total", "reason=\"missing\"").await;
        let bearer = |client: &str| format!("Bearer {}", signer.token(&claims(client)));
        let mut bob = Peer::connect_with(url, name, &signer.token(&claims(name))).await;
        let resume = bob.resume_token();
        let offer = format!("resume.{resume}");

        let before = missing().await;
        for way in
            [Head::connect(name).offer(&offer), Head::upgrade(&format!("/v1/connect?client_id={name}&resume={resume}"))]
        {
            refused(url, way, (401, "no_token")).await;
        }
        let head = Head::connect(name).offer(&format!("signaling.v1, {offer}"));
        assert_eq!(RawSocket::open(url, &head).await.closed().await.0, 4401);
        assert_eq!(missing().await, before + 3.0);

        let head = Head::connect(name).with("Authorization", &bearer("alice")).offer(&offer);
        refused(url, head, (403, "forbidden")).await;
        // Her own id is admitted, to a session of her own.
        let head = Head::connect("alice").with("Authorization", &bearer("alice")).offer(&offer);
        let mut alice = RawSocket::open(url, &head).await;
        let welcome = alice.message().await;
        assert_eq!((&welcome["client_id"], &welcome["resumed"]), (&json!("alice"), &json!(false)));
        assert!(bob.has_nothing().await, "the client notices nothing");

        let head = Head::connect(name).with("Authorization", &bearer(name)).offer(&offer);
        assert_eq!(RawSocket::open(url, &head).await.message().await["resumed"], true);
        assert_eq!(bob.closed().await, Some(4410));
    }
}

#[tokio::test]
async fn newest_connection_with_a_token_gets_the_id() {
    let signer = Signer::es256();
    let mesh = TestMesh::with_tokens(&signer, (3, 2), &[], &[]).await;
    let token = signer.token(&claims("alice"));
    let url = |balancer: usize| mesh.state().balancers[balancer].url.clone();
    let mut old = Peer::connect_with(&url(0), "alice", &token).await;
    // At another server, and with the token as the only proof.
    let mut new = Peer::connect_with(&url(1), "alice", &token).await;
    assert_eq!(old.closed().await, Some(4410));
    assert_eq!(new.welcome["resumed"], false);
    let mut bob = Peer::connect_with(&url(0), "bob", &signer.token(&claims("bob"))).await;
    bob.signal("alice", json!("which of you?"), Some(1)).await;
    assert_eq!(new.recv_type("signal").await["data"], "which of you?");
}

#[tokio::test]
async fn connection_that_does_not_answer_takes_no_id() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (2, 2), &[], &[]).await;
    let state = mesh.state();
    let token = signer.token(&claims("alice"));
    let mut live = Peer::connect_with(&state.balancers[0].url, "alice", &token).await;
    // As of a page that is gone: the request has arrived late, and nothing answers.
    let head = Head::connect("alice").bearer(&token);
    let gone = async || RawSocket::open(&state.balancers[1].url, &head).await;
    let (mut first, start) = (gone().await, Instant::now());
    assert_eq!(first.frame().await.0, PING, "and no welcome");
    let mut second = gone().await;
    assert_eq!(first.closed().await.0, 1013, "a further one takes its place");
    assert_eq!(second.closed().await.0, 4004);
    let waited = start.elapsed().as_millis();
    assert!((1_900..4_000).contains(&waited), "{waited} ms");
    assert!(live.has_nothing().await, "the client notices nothing");
    drop(live);
    eventually("its session to be lost", async || mesh.sum_over_nodes("signaling_sessions").await == 0.0).await;
    let start = Instant::now();
    let mut next = gone().await;
    assert_eq!(next.frame().await.0, TEXT, "its welcome, since the old socket is gone");
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn socket_is_closed_when_its_token_expires() {
    let signer = Signer::eddsa();
    let mesh = TestMesh::with_tokens(&signer, (2, 1), &[], &[]).await;
    let internal = &mesh.balancer_internal();
    let short = |client: &str| signer.token(&claims_with(client, &json!({ "exp": now() + 4 })));
    let long = |client: &str| signer.token(&claims(client));
    let mut lazy = Peer::connect_with(&mesh.url(), "lazy", &short("lazy")).await;
    let mut careful = Peer::connect_with(&mesh.url(), "careful", &short("careful")).await;
    let mut thief = Peer::connect_with(&mesh.url(), "thief", &short("thief")).await;
    // The SDK has the lifetime of its tokens, and requests another before its end.
    let minted = Signer::eddsa();
    let source = move || {
        let token = minted.token(&claims_with("sdk", &json!({ "exp": now() + 4 })));
        async move { Ok(Token::new(token).valid_for(Duration::from_secs(2))) }
    };
    let (_sdk, mut events) = Client::connect(Options::new("sdk", [mesh.url()]).unwrap().tokens(source));
    events.connected().await.unwrap();

    careful.send(&json!({ "type": "token", "token": long("careful") })).await;
    thief.send(&json!({ "type": "token", "token": long("careful") })).await;
    let refusal = thief.recv_type("error").await;
    assert_eq!(refusal["code"], "forbidden", "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("another client"), "{refusal}");
    for peer in [&mut lazy, &mut thief] {
        assert_eq!(peer.closed().await, Some(4003));
    }
    assert_eq!(metric(internal, "signaling_tokens_expired_total", "").await, 2.0);
    // Two of the SDK, and one of the careful client.
    until(internal, "signaling_tokens_renewed_total", "", |renewed| renewed >= 3.0).await;

    careful.signal("sdk", json!("still here?"), Some(1)).await;
    assert_eq!(careful.recv_type("ack").await["id"], 1);
    loop {
        match events.next().await.unwrap() {
            Event::Signal(signal) => break assert_eq!(signal.data.get(), "\"still here?\""),
            Event::State(state) => assert!(matches!(state, State::Connected(_)), "{state:?}"),
            _ => {}
        }
    }
    assert_eq!(metric(internal, "signaling_client_sockets_opened_total", "").await, 4.0, "no client connected again");

    // A closed client resumes its session with a new token.
    let resume = lazy.welcome["resume"].as_str().unwrap();
    let head = Head::upgrade(&format!("/v1/connect?client_id=lazy&resume={resume}&token={}", long("lazy")));
    let mut back = RawSocket::open(&mesh.address(), &head).await;
    assert_eq!(back.message().await["resumed"], true);
}

#[tokio::test]
async fn start_without_tokens_logs_a_warning() {
    let warned = |mesh: &TestMesh, id: &str| {
        mesh.log(id).lines().filter(|line| line.contains("WARN") && line.contains("ANONYMOUS")).count()
    };
    let open = TestMesh::start().await;
    let closed = TestMesh::with_tokens(&Signer::hs256(), (1, 1), &[], &[]).await;
    for id in ["balancer-0", "node-0"] {
        assert_eq!((warned(&open, id), warned(&closed, id)), (1, 0), "{id}");
    }
}

#[tokio::test]
async fn kicked_client_is_refused_with_its_older_token() {
    let signer = Signer::rs256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &[]).await;
    let state = mesh.state();
    for (Server { url, internal, .. }, name) in state.servers().zip(["mallory", "malvolio"]) {
        let token = signer.token(&claims(name));
        let head = Head::connect(name).bearer(&token);
        let mut socket = RawSocket::open(url, &head).await;
        let welcome = socket.message().await;
        let kicked = admin(internal, "POST", &format!("clients/{name}/kick")).await;
        assert_eq!(kicked, json!({ "client_id": name, "was_here": true }));
        assert_eq!(socket.closed().await.0, 4411);

        let resume = welcome["resume"].as_str().unwrap();
        for head in [head.clone(), head.offer(&format!("resume.{resume}"))] {
            refused(url, head, (401, "bad_token")).await;
        }
        assert_eq!(metric(internal, "signaling_auth_failures_total", "reason=\"kicked\"").await, 2.0);
        assert_eq!(metric(internal, "signaling_clients_kicked_total", "").await, 1.0);
        let later = signer.token(&claims_with(name, &json!({ "iat": now() + 2 })));
        let head = Head::connect(name).bearer(&later);
        let mut back = RawSocket::open(url, &head).await;
        let welcome = back.message().await;
        assert_eq!(welcome["resumed"], false, "the session has ended");
        assert_eq!(admin(internal, "POST", "clients/nobody/kick").await["was_here"], false);
    }
}

#[tokio::test]
async fn kick_outlasts_restarts_of_all_servers() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (2, 2), &[], &[]).await;
    let head = Head::connect("mallory").bearer(&signer.token(&claims("mallory")));
    admin(&mesh.node_internal(0), "POST", "clients/mallory/kick").await;
    for server in ["balancer-1", "node-0", "balancer-0", "node-1", "balancer-1"] {
        mesh.restart(server).await.unwrap();
        mesh.until_views_agree().await;
        for Server { id, url, internal, .. } in mesh.state().servers() {
            becomes(internal, "signaling_kicks_remembered", 1).await;
            let answer = ask(url, &head).await;
            assert_eq!(answer.error_code(), "bad_token", "{id} after {server} was restarted: {answer:?}");
        }
    }
    let later = signer.token(&claims_with("mallory", &json!({ "iat": now() + 2 })));
    let head = Head::connect("mallory").bearer(&later);
    assert_eq!(RawSocket::open(&mesh.address(), &head).await.message().await["type"], "welcome");
}

#[tokio::test]
async fn kept_kick_outlasts_a_restart_of_all_servers_at_once() {
    let signer = Signer::hs256();
    let mut folder = PathBuf::new();
    let mesh = TestMesh::with_options(|options| {
        (options.nodes, options.balancers) = (1, 1);
        ask_for_tokens(options, &signer);
        folder.clone_from(&options.dir);
        options.node_args.push(format!("--state-dir={}", folder.display()));
    })
    .await;
    let head = Head::connect("mallory").bearer(&signer.token(&claims("mallory")));
    admin(&mesh.node_internal(0), "POST", "clients/mallory/kick").await;
    let is_kept = async || std::fs::read_to_string(folder.join("kicks.json")).unwrap().contains("mallory");
    eventually("the kick to be kept", is_kept).await;
    for server in ["balancer-0", "node-0"] {
        mesh.kill(server).await.unwrap();
    }
    for server in ["node-0", "balancer-0"] {
        mesh.restart(server).await.unwrap();
    }
    for Server { id, url, internal, .. } in mesh.state().servers() {
        becomes(internal, "signaling_kicks_remembered", 1).await;
        assert_eq!(ask(url, &head).await.error_code(), "bad_token", "{id}");
    }
}

#[tokio::test]
async fn kick_of_a_dialects_client_refuses_its_token() {
    let signer = Signer::hs256();
    let dialects = ["--dialects=y-webrtc"];
    let mesh = TestMesh::with_tokens(&signer, (2, 1), &dialects, &dialects).await;
    let state = mesh.state();
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let long = "x".repeat(200);
    for subject in ["mallory", "auth0|5f7c", "älice", "CN=Eve/../\u{1b}[2J", &long] {
        for (server, by_name) in state.servers().flat_map(|server| [(server, true), (server, false)]) {
            let subject = format!("{subject}{}{by_name}", server.id);
            let head = Head::upgrade(&format!("/y-webrtc?token={}", signer.token(&claims(&subject))));
            let mut socket = RawSocket::open(&server.url, &head).await;
            let listed = admin(&mesh.node_internal(1), "GET", "clients").await;
            let name = if by_name { listed["clients"][0]["client_id"].as_str().unwrap() } else { &subject };
            let path = format!("clients/{}/kick", escaped(name));
            let kicked = admin(&mesh.node_internal(0), "POST", &path).await;
            assert_eq!(kicked["missing"], Value::Null, "{kicked}");
            assert_eq!(socket.closed().await.0, 4411, "{subject}");
            for Server { id, url, .. } in state.servers() {
                let is_refused = async || ask(url, &head).await.status == 401;
                eventually(&format!("{id} to refuse {subject}"), is_refused).await;
            }
        }
    }
}

#[tokio::test]
async fn starting_node_gets_the_kick_list_of_its_peers() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (2, 0), &[], &[]).await;
    let head = Head::connect("mallory").bearer(&signer.token(&claims("mallory")));
    admin(&mesh.node_internal(1), "POST", "clients/mallory/kick").await;
    mesh.restart("node-0").await.unwrap();
    let node = mesh.state().nodes[0].clone();
    becomes(&node.internal, "signaling_kicks_remembered", 1).await;
    assert_eq!(ask(&node.url, head).await.error_code(), "bad_token");
}

#[tokio::test]
async fn token_keys_are_reloaded_when_their_file_is_valid() {
    let (signer, next) = (Signer::hs256(), Signer::secret(b"the next secret, of 32 bytes and more"));
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &[]).await;
    let internal = &mesh.balancer_internal();
    let path = key_file(mesh.dir.path());
    let becomes_status = async |token: String, status: u16| {
        let head = Head::connect("alice").bearer(&token).to_string();
        eventually(&format!("status {status}"), async || ask(&mesh.address(), &head).await.status == status).await;
    };
    let mut old = Peer::connect_with(&mesh.url(), "old", &signer.token(&claims("old"))).await;
    std::fs::write(&path, &next.key_file).unwrap();
    becomes_status(next.token(&claims("alice")), 101).await;
    becomes_status(signer.token(&claims("alice")), 401).await;
    std::fs::write(&path, "short").unwrap();
    until(internal, "signaling_file_reloads_total", "result=\"unusable\"", |failed| failed >= 1.0).await;
    becomes_status(next.token(&claims("alice")), 101).await;
    assert!(old.has_nothing().await, "a token of the old key is valid until it expires");
    becomes(internal, "signaling_tokens_expired_total", 0).await;
}

#[tokio::test]
async fn token_limits_rooms_and_recipients() {
    let signer = Signer::hs256();
    let mesh = TestMesh::with_tokens(&signer, (3, 1), &["--signal-scope=room"], &[]).await;
    let connect = async |client: &str, others: Value| {
        Peer::connect_with(&mesh.url(), client, &signer.token(&claims_with(client, &others))).await
    };
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let rooms = json!({ "rooms": [{ "room": "pair-*", "capacity": 2 }] });
    let (mut a, mut b) = (connect(&ada, rooms.clone()).await, connect(&bob, rooms.clone()).await);

    a.send(&json!({ "type": "join", "room": "hall", "id": 1 })).await;
    let refusal = a.recv_type("error").await;
    assert_eq!((&refusal["code"], &refusal["room"], &refusal["id"]), (&json!("forbidden"), &json!("hall"), &json!(1)));
    for to in [bob.as_str(), "absent"] {
        a.signal(to, json!("stranger"), Some(2)).await;
        let refusal = a.recv_type("error").await;
        assert_eq!((&refusal["code"], &refusal["to"]), (&json!("forbidden"), &json!(to)));
    }
    for peer in [&mut a, &mut b] {
        peer.send(&json!({ "type": "join", "room": "pair-1", "id": 3 })).await;
        assert_eq!(peer.recv_type("joined").await["capacity"], 2);
    }
    let mut third = connect("third", rooms).await;
    third.send(&json!({ "type": "join", "room": "pair-1" })).await;
    assert_eq!(third.recv_type("waiting").await["ahead"], 0);
    a.signal(&bob, json!("friend"), Some(4)).await;
    assert_eq!(b.recv_type("signal").await["data"], "friend");
    third.signal(&bob, json!("not yet"), Some(1)).await;
    assert_eq!(third.recv_type("error").await["code"], "forbidden", "a waiting client is in no room");
    // A token may lift the scope of one client.
    let mut bot = connect("bot", json!({ "signal": "any" })).await;
    bot.signal(&bob, json!("from above"), Some(1)).await;
    assert_eq!(b.recv_type("signal").await["data"], "from above");
}
