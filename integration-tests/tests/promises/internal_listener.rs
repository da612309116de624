//! A node's internal listener answers only servers of the mesh. No public listener serves its
//! routes.

use std::time::Duration;

use signaling_integration_tests::raw_socket::{BINARY, frame};
use signaling_integration_tests::{
    Head, OtherServer, Peer, RawSocket, TestMesh, admin_token, ask, ask_on, becomes, connect, connect_from, ends, get,
    host, metric, refused, until, until_some,
};
use signaling_server::HashSeed;
use signaling_server::proofs::{INCARNATION_HEADER, Purpose};
use signaling_wire::forward::{self, Envelope, EnvelopeOutcome, Item, QueueId};
use signaling_wire::lane::{Frame, FrameReader};
use signaling_wire::trunk::SUBPROTOCOL;
use signaling_wire::{
    BatchNumber, DecodeError, Elapsed, ExchangeNumber, MessageNumber, Origin, RemainingTtl, SessionId, lane, limits,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const TRUNK: &str = "/internal/v1/trunk";
const REFUSED: &str = "signaling_refused_internal_total";
const LANE_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn internal_request_needs_a_proof_of_the_mesh_secret() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let node = mesh.node_internal(0);
    let (secret, other) = (mesh.secret(), OtherServer::of(&mesh, "node-9"));
    let stranger = OtherServer::with_secret(&mesh, "node-9", &"5a".repeat(32));
    let mut tried = 0.0;
    for (purpose, head) in [(Purpose::Trunk, trunk()), (Purpose::Lane, lane_request(1)), (Purpose::Request, report())] {
        let proven = other.prove_to_node(&mesh, purpose, &head).await;
        let other_purpose = if purpose == Purpose::Lane { Purpose::Trunk } else { Purpose::Lane };
        for head in [
            head.clone(),
            head.clone().bearer(&secret),
            proven.clone().without("signaling-server"),
            proven.clone().replace("signaling-server", "node-8"),
            stranger.prove_to_node(&mesh, purpose, &head).await,
            other.prove_to_node(&mesh, other_purpose, &head).await,
            other.prove(purpose, ("node-1", &node), &head).await,
        ] {
            let answer = refused(&node, &head, (401, "unauthorized")).await;
            assert!(answer.header("signaling-incarnation").is_some(), "{answer:?}");
            tried += 1.0;
        }
    }
    assert_eq!(metric(&node, REFUSED, "").await, tried);
    assert_eq!(warnings(&mesh), 1, "{tried} requests of one source");

    let elsewhere = connect_from([127, 0, 0, 2], &node).await;
    let (answer, _) = ask_on(elsewhere, trunk().to_string().as_bytes()).await;
    assert_eq!(answer.status, 401);
    assert_eq!(warnings(&mesh), 2, "another source");
    assert!(!mesh.log("node-0").contains(&secret) && !mesh.log("balancer-0").contains(&secret));
}

#[tokio::test]
async fn server_with_another_hash_seed_is_refused() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let other = OtherServer::new("node-9", &mesh.secret(), HashSeed::parse(b"1").unwrap());
    for (purpose, head) in [(Purpose::Trunk, trunk()), (Purpose::Lane, lane_request(1))] {
        let head = other.prove_to_node(&mesh, purpose, &head).await;
        let answer = refused(&mesh.node_internal(0), head, (409, "other_hash_seed")).await;
        assert!(answer.body.contains("--hash-seed-file"), "{answer:?}");
    }
}

/// Bytes of the last release without a version of lanes.
#[tokio::test]
async fn recorded_bytes_of_other_versions_are_refused() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let (trunk, lane): (&[u8], &[u8]) =
        (include_bytes!("../recorded/trunk-v2.bin"), include_bytes!("../recorded/lane-without-version.bin"));
    for (bytes, code, own, theirs) in [
        (trunk, "unknown_trunk_version", SUBPROTOCOL, "signaling-trunk.v2"),
        (lane, "unknown_lane_version", lane::VERSION, "no version"),
    ] {
        let (answer, _) = ask_on(connect(&mesh.node_internal(0)).await, bytes).await;
        assert_eq!((answer.status, answer.error_code().as_str()), (400, code));
        assert!(answer.body.contains(own) && answer.body.contains(theirs), "{answer:?}");
    }
}

#[tokio::test]
async fn bad_request_of_a_server_is_answered() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let (node, other) = (mesh.node_internal(0), OtherServer::of(&mesh, "node-9"));

    for (purpose, head, status, (header, value), code) in [
        (Purpose::Lane, lane_request(1).method("GET"), 405, ("allow", Some("POST")), "method_not_allowed"),
        (Purpose::Trunk, trunk().method("POST"), 405, ("allow", Some("GET, HEAD")), "method_not_allowed"),
        (Purpose::Trunk, Head::get(TRUNK), 426, ("upgrade", Some("websocket")), "upgrade_required"),
        (Purpose::Trunk, Head::upgrade(TRUNK), 400, ("allow", None), "unknown_trunk_version"),
        (Purpose::Lane, Head::post(lane::PATH), 400, ("allow", None), "unknown_lane_version"),
    ] {
        let answer = refused(&node, other.prove_to_node(&mesh, purpose, &head).await, (status, code)).await;
        assert_eq!(answer.header(header), value, "{answer:?}");
    }
    let own = OtherServer::of(&mesh, "node-0");
    for (server, query, status, code) in [
        (&other, "", 400, "bad_opening"),
        (&other, "?sender=node-9&exchange=1", 400, "bad_opening"),
        (&other, "?sender=node-9&incarnation=0102&exchange=1", 400, "bad_opening"),
        (&other, "?sender=node-9&incarnation=0102030405060708&exchange=-1", 400, "bad_opening"),
        (&other, "?sender=node-8&incarnation=0102030405060708&exchange=1", 403, "other_sender"),
        (&own, "?sender=node-0&incarnation=0102030405060708&exchange=1", 409, "conflict"),
    ] {
        let head = Head::post(&format!("{}{query}", lane::PATH)).with(lane::VERSION_HEADER, lane::VERSION);
        refused(&node, server.prove_to_node(&mesh, Purpose::Lane, &head).await, (status, code)).await;
    }

    let head = other.prove_to_node(&mesh, Purpose::Trunk, &trunk()).await;
    let mut junk = RawSocket::open(&node, &head).await;
    junk.send(&frame(BINARY, b"\xff no trunk frames")).await;
    assert!(ends(&mut junk.stream, Duration::from_secs(5)).await);
    mesh.peer("alice").await.close().await;
}

#[tokio::test]
async fn node_without_view_refuses_trunks_lanes_and_clients() {
    let mesh =
        TestMesh::with_options(|options| (options.nodes, options.removal_delay) = (1, Duration::from_secs(600))).await;
    let state = mesh.state();
    let file = mesh.dir.path().join("nodes.json");
    let kept = file.with_extension("kept");
    std::fs::rename(&file, &kept).unwrap();
    mesh.kill_unnoticed("node-0").await;
    mesh.restart("node-0").await.unwrap();

    let other = OtherServer::of(&mesh, "node-9");
    let trunk = other.prove_to_node(&mesh, Purpose::Trunk, &trunk()).await;
    let lane = other.prove_to_node(&mesh, Purpose::Lane, &lane_request(1)).await;
    for (address, request) in [
        (mesh.node_internal(0), trunk),
        (mesh.node_internal(0), lane),
        (state.nodes[0].url.clone(), Head::connect("alice")),
    ] {
        refused(&address, &request, (503, "no_view")).await;
    }

    std::fs::rename(&kept, &file).unwrap();
    mesh.until_views_agree().await;
    Peer::connect(&state.nodes[0].url, "alice").await.close().await;
    becomes(&mesh.balancer_internal(), "signaling_usable_nodes", 1).await;
}

#[tokio::test]
async fn bad_batch_ends_its_exchange_and_the_next_one_goes_on() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let mut alice = mesh.peer("alice").await;
    let mut number = 0;
    for (exchange, bad) in (1..).zip([
        [&lane::frame(0, |_| {})[..1], &u32::try_from(lane::MAX_BYTES + 1).unwrap().to_le_bytes()].concat(),
        lane::frame(0, |_| {}),
        b"no kind of a frame".to_vec(),
        lane::exchange(ExchangeNumber(1)),
        // The body ends in a batch.
        b"".to_vec(),
        lane::frame(0, |out| out.extend_from_slice(&[200, 250, 250, 250])),
    ]) {
        let mut lane = Lane::open(&mesh, exchange).await;
        assert_eq!(lane.acknowledged().await, Some(number), "{bad:?}");
        for repeated in [false, true] {
            number += u64::from(!repeated);
            lane.send(&batch(number)).await;
            assert!(repeated || alice.recv().await["data"] == number, "{bad:?}");
        }
        // A batch cut anywhere is one batch.
        number += 1;
        for part in batch(number).chunks(3) {
            lane.send(part).await;
        }
        assert_eq!(alice.recv().await["data"], number, "{bad:?}");
        let next = batch(number + 1);
        lane.send(&next[..next.len() / 2]).await;
        if !bad.is_empty() {
            number += 1;
            lane.send(&next[next.len() / 2..]).await;
            assert_eq!(alice.recv().await["data"], number, "{bad:?}");
        }
        lane.send(&bad).await;
        lane.ended().await;
        assert!(bad.is_empty() || ends(&mut lane.0, LANE_TIMEOUT).await, "{bad:?}");
    }
    assert!(alice.has_nothing().await, "a batch was executed twice");
}

#[tokio::test]
async fn node_outside_the_view_gets_outcomes_on_its_exchange() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let mut alice = mesh.peer("alice").await;
    let mut lane = Lane::open(&mesh, 1).await;
    lane.send(&batch(1)).await;
    assert_eq!(alice.recv().await["data"], 1);
    let is_written =
        |item: &Item<'_>| matches!(item, Item::Outcome { queue_id: QueueId(1), outcome: EnvelopeOutcome::Written, .. });
    let mut returned = None;
    let outcome = async {
        loop {
            let mut has_outcome = false;
            let chunk = lane.chunk().await.expect("the exchange stays open");
            let read = lane.1.read(&chunk, |frame| {
                match frame {
                    Frame::Exchange(number) => returned = Some(number),
                    Frame::Batch(mut batch) => {
                        assert!(returned.is_some(), "a batch before its exchange");
                        forward::open(&mut batch)?;
                        while !batch.is_empty() {
                            has_outcome |= is_written(&Item::take(&mut batch)?);
                        }
                    }
                    Frame::Acknowledgement(..) => {}
                }
                Ok::<_, DecodeError>(())
            });
            read.unwrap();
            if has_outcome {
                return;
            }
        }
    };
    timeout(LANE_TIMEOUT, outcome).await.expect("no outcome");
    assert_eq!(metric(&mesh.node_internal(0), "signaling_lanes_outside_view_total", "").await, 1.0);
    assert!(mesh.log("node-0").contains("outside the view"), "{}", mesh.log("node-0"));
}

#[tokio::test]
async fn lane_from_before_a_pause_ends_unread() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let mut alice = mesh.peer("alice").await;
    let mut lane = Lane::open(&mesh, 1).await;
    mesh.pause("node-0").await.unwrap();
    lane.send(&batch(1)).await;
    sleep(limits::SUSPECT_AFTER + Duration::from_millis(500)).await;
    mesh.resume("node-0").await.unwrap();
    lane.ended().await;
    assert!(alice.has_nothing().await, "the batch is as old as the pause");
    until(&mesh.node_internal(0), "signaling_sessions_attached_total", "", |attached| attached > 1.0).await;
    // Right after the pause an opening could be as old as the pause.
    sleep(Duration::from_millis(100)).await;
    let mut lane = Lane::open(&mesh, 2).await;
    lane.send(&batch(1)).await;
    assert_eq!(alice.recv().await["data"], 1);
}

#[tokio::test]
async fn admin_needs_its_token_and_health_does_not() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let (balancer, secret) = (mesh.balancer_internal(), mesh.secret());
    let other = OtherServer::of(&mesh, "node-9");
    for (server, address, metric) in [
        ("node-0", mesh.node_internal(0), "signaling_sessions"),
        ("balancer-0", balancer.clone(), "signaling_client_sockets"),
    ] {
        let (livez, readyz) = (get(&address, "/livez").await, get(&address, "/readyz").await);
        assert_eq!((livez.status, livez.body.as_str()), (200, "ok\n"));
        assert_eq!((readyz.status, readyz.body.as_str()), (200, "ready\n"));
        let page = get(&address, "/metrics").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
        for name in [metric, "process_open_fds", "process_resident_memory_bytes", REFUSED] {
            assert!(page.body.contains(&format!("\n# TYPE {name} ")), "{name} is not in {}", page.body);
        }
        let token = admin_token(&address).unwrap();
        let (admin, mesh) = (Some(&*token), Some(&*secret));
        for (path, shown, status) in [
            ("/dashboard", None, 200),
            ("/admin/nodes", None, 401),
            ("/admin/nodes", Some("another-token-of-no-server"), 401),
            ("/admin/nodes", mesh, 401),
            ("/admin/nodes", admin, 200),
            ("/admin/anything", None, 401),
            ("/admin/anything", mesh, 401),
            ("/admin/anything", admin, 404),
            ("/internal/v1/admin/server", None, 401),
            ("/internal/v1/admin/server", admin, 401),
            ("/internal/v1/admin/server", mesh, 401),
            ("/internal/v1/admin/anything", None, 401),
            ("/internal/v1/load", None, 401),
            ("/internal/v1/load", mesh, 401),
        ] {
            let head = Head::get(path).replace("Host", host(&address)).with("Connection", "close");
            let head = shown.map_or(head.clone(), |token| head.bearer(token));
            let answer = ask(&address, head).await;
            assert_eq!(answer.status, status, "{path} {shown:?} at {address}");
            assert!(status != 401 || answer.error_code() == "unauthorized", "{path} {shown:?}: {answer:?}");
        }
        for path in ["/internal/v1/admin/server", "/internal/v1/load"] {
            let head = Head::get(path).with("Connection", "close");
            let head = other.prove(Purpose::Request, (server, &address), &head).await;
            assert_eq!(ask(&address, head).await.status, 200, "{path} at {server}");
        }
    }
    mesh.kill("node-0").await.unwrap();
    let unready = async || {
        let answer = get(&balancer, "/readyz").await;
        (answer.status == 503).then_some(answer.body)
    };
    let why = until_some("a balancer without nodes to be unready", unready).await;
    assert!(why.contains("node"), "{why}");
}

#[tokio::test]
async fn page_is_served_only_under_a_name_of_its_server() {
    let mesh = TestMesh::with_servers((1, 1), &["--internal-hosts=a.example,b.example"], &[]).await;
    let (node, balancer) = (mesh.node_internal(0), mesh.balancer_internal());
    for (address, name, status) in [
        (&node, "node-0:7900", 200),
        (&node, "localhost", 200),
        (&node, "b.example", 200),
        (&node, "evil.example:7900", 421),
        (&balancer, "balancer-0", 200),
        (&balancer, "192.0.2.1:80", 200),
        (&balancer, "b.example", 421),
    ] {
        for path in ["/metrics", "/dashboard", "/dashboard/app.js"] {
            let answer = ask(address, Head::get(path).replace("Host", name).with("Connection", "close")).await;
            assert_eq!(answer.status, status, "{name}{path}");
        }
        let health = ask(address, Head::get("/livez").replace("Host", name).with("Connection", "close")).await;
        assert_eq!(health.status, 200, "{name}");
    }
}

/// A lane from a node outside the view.
struct Lane(TcpStream, FrameReader);

impl Lane {
    async fn open(mesh: &TestMesh, exchange: u64) -> Self {
        let head = OtherServer::of(mesh, "node-9").prove_to_node(mesh, Purpose::Lane, &lane_request(exchange)).await;
        let (answer, stream) = ask_on(connect(&mesh.node_internal(0)).await, head.to_string().as_bytes()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.header(INCARNATION_HEADER).is_some_and(|value| value.len() == 16), "{answer:?}");
        Self(stream, FrameReader::default())
    }

    /// Sends a chunk. An empty one is the last.
    async fn send(&mut self, bytes: &[u8]) {
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.0.write_all(&chunk).await.unwrap();
    }

    /// Waits until the exchange has ended.
    async fn ended(&mut self) {
        let all = async { while self.acknowledged().await.is_some() {} };
        timeout(LANE_TIMEOUT, all).await.expect("the lane stays open");
    }

    /// Returns the next acknowledgement. `None`: the exchange has ended.
    async fn acknowledged(&mut self) -> Option<u64> {
        loop {
            let mut acknowledged = None;
            let chunk = self.chunk().await?;
            let read = self.1.read(&chunk, |frame| {
                if let Frame::Acknowledgement(of, _) = frame {
                    acknowledged = Some(of.number.0);
                }
                Ok::<_, DecodeError>(())
            });
            read.unwrap();
            if acknowledged.is_some() {
                return acknowledged;
            }
        }
    }

    /// Returns the next chunk of the response. `None`: it has ended.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut size = String::new();
        while !size.ends_with("\r\n") {
            size.push(char::from(self.0.read_u8().await.ok()?));
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }
}

/// Returns a frame with one batch: a message to alice that holds the number.
fn batch(number: u64) -> Vec<u8> {
    let payload = format!(r#"{{"type":"signal","from":"bob","data":{number}}}"#);
    let session = SessionId([u8::try_from(number).unwrap(); 16]);
    let envelope = Envelope {
        to: "alice",
        origin: Origin { session, number: MessageNumber(1) },
        prev_pending: MessageNumber(0),
        ttl: RemainingTtl::from_duration(Duration::from_secs(9)),
        may_hold: false,
        retransmitted: false,
        queue_id: QueueId(number),
        via: Vec::new(),
        payload: payload.as_bytes(),
    };
    lane::frame(0, |out| {
        forward::start(out, BatchNumber(number), Elapsed::default());
        Item::Envelope(envelope).append(out);
    })
}

fn trunk() -> Head {
    Head::upgrade(TRUNK).offer(SUBPROTOCOL)
}

fn lane_request(exchange: u64) -> Head {
    let target = format!("{}?sender=node-9&incarnation=0000000000000001&exchange={exchange}", lane::PATH);
    let head = Head::get(&target).method("POST").with("Transfer-Encoding", "chunked");
    head.with(lane::VERSION_HEADER, lane::VERSION)
}

fn report() -> Head {
    Head::get("/internal/v1/admin/server")
}

fn warnings(mesh: &TestMesh) -> usize {
    mesh.log("node-0").lines().filter(|line| line.contains("without a proof")).count()
}
