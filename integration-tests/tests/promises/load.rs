//! The load generator counts every message, and acts and judges as its options require.

use std::process::Stdio;
use std::time::Duration;

use procfs::process::{Process, all_processes};
use serde_json::{Value, json};
use signaling_integration_tests::load::Run;
use signaling_integration_tests::{TestMesh, binaries, eventually, mesh_load, until};
use tokio::process::Command;
use tokio::time::sleep;

#[tokio::test]
async fn steady_load_arrives_once_in_order_from_1_or_3_processes() {
    let mesh = TestMesh::start().await;
    for (processes, clients, seconds) in [(1, 200, 5), (3, 100, 2)] {
        let size = [format!("--clients={clients}"), format!("--seconds={seconds}"), format!("--processes={processes}")];
        let arguments = ["steady", "--rate=1000", "--warmup=1"].into_iter().chain(size.iter().map(String::as_str));

        let report = passes(&mesh, &arguments.collect::<Vec<_>>()).await.report;

        let sent = 1_000 * (seconds + 1);
        let all_arrived = json!({ "sent": sent, "delivered": sent, "lost": 0, "duplicated": 0, "reordered": 0 });
        assert_eq!((&report["messages"], &report["clients"]), (&all_arrived, &json!(clients)));
        assert_eq!(report["latency_us"]["count"], 1_000 * seconds, "all messages after the warm-up");
        for unexpected in ["received", "closed"] {
            assert_eq!(report[unexpected], json!({}), "{unexpected}");
        }
        assert!(report.get("foreign").is_none());
        assert!(processes == 1 || report["processes"] == processes, "{report}");
        assert_eq!(report["costs"]["processes"].as_array().unwrap().len(), 4, "three nodes and a balancer");
    }
}

#[tokio::test]
async fn steady_clients_resume_while_balancers_are_replaced() {
    let mesh = TestMesh::with_servers((3, 2), &[], &["--drain-ms=2000"]).await;
    let urls: Vec<String> = mesh.state().balancers.iter().map(|balancer| balancer.url.clone()).collect();
    let arguments = ["steady", "--resume", "--clients=100", "--rate=1000", "--seconds=12", "--warmup=1"];
    let arguments = [&arguments[..], &["--url", &urls[0], "--url", &urls[1]]].concat();
    let replace = async {
        sleep(Duration::from_secs(3)).await;
        mesh.kill("balancer-0").await.unwrap();
        sleep(Duration::from_millis(500)).await;
        mesh.restart("balancer-0").await.unwrap();
        sleep(Duration::from_secs(3)).await;
        mesh.restart("balancer-1").await.unwrap();
    };

    let (run, ()) = tokio::join!(passes(&mesh, &arguments), replace);

    let (returns, messages) = (&run.report["returns"], &run.report["messages"]);
    let number = |value: &Value| value.as_u64().unwrap();
    assert!(number(&returns["drained"]) >= 50, "clients of the drained balancer: {returns}");
    assert!(number(&returns["returned"]) >= number(&returns["drained"]) + 50, "and of the killed one: {returns}");
    assert_eq!(returns["returned"], returns["resumed"]);
    // Messages in flight to a socket that broke.
    let gone = messages.get("gone").map_or(0, number);
    assert_eq!(number(&messages["sent"]), number(&messages["delivered"]) + gone, "{messages}");
    assert_eq!(run.report["acks"]["unanswered"], 0);
}

#[tokio::test]
async fn load_processes_end_with_the_first_one_when_it_is_killed() {
    let mesh = TestMesh::start().await;
    let mut first = Command::new(binaries().join("mesh-load"))
        .args(["steady", "--clients=8", "--rate=100", "--seconds=600", "--processes=2", "--dir"])
        .arg(mesh.dir.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let first_pid = first.id().unwrap();
    // The first message follows the start of all processes.
    until(&mesh.balancer_internal(), "signaling_downlink_frames_total", "", |frames| frames > 0.0).await;
    let all = all_processes().unwrap().filter_map(|process| process.ok()?.stat().ok());
    let others: Vec<_> = all.filter(|stat| stat.ppid.cast_unsigned() == first_pid).map(|stat| stat.pid).collect();
    assert_eq!(others.len(), 2);

    first.kill().await.unwrap();

    // `Z`: ended, but its parent has not yet waited for it. `X`: no longer listed.
    let state = |pid: &i32| Process::new(*pid).and_then(|process| process.stat()).map_or('X', |stat| stat.state);
    eventually("the load processes to end", async || others.iter().all(|pid| "XZ".contains(state(pid)))).await;
}

#[tokio::test]
async fn clients_resume_when_a_killed_balancer_is_restarted() {
    let mesh = TestMesh::start().await;
    let _control = mesh.serve_control().await;
    let load = ["drill", "--clients=60", "--rate=60", "--warmup=0", "--seconds=8", "--act=1 kill balancer-0"];

    let run = passes(&mesh, &[&load[..], &["--act=1.5 restart balancer-0"]].concat()).await;

    let returns = &run.report["returns"];
    assert_eq!((&returns["returned"], &returns["resumed"], &returns["away"]), (&json!(60), &json!(60), &json!(0)));
    assert_eq!(run.report["acts"][1]["returned"], 60, "{}", run.report["acts"]);
}

/// Hostile connections that send their request byte by byte and never end it.
const HANDSHAKES: u64 = 200;
/// Hostile clients that send messages and never read.
const DEAF: u64 = 60;

/// `mesh-load hostile` has a larger crowd by default, for a whole machine and release builds.
#[tokio::test]
async fn clients_lose_no_message_while_hostile_clients_connect() {
    let flags =
        ["--max-client-buffer-bytes=4194304", "--max-handshakes=250", "--max-sockets=200", "--handshake-ms=2000"];
    let mesh = TestMesh::with_servers((3, 1), &[], &flags).await;
    let crowd = [format!("--handshakes={HANDSHAKES}"), format!("--deaf={DEAF}")];
    // The latency limit is loose: the test counts messages, and the machine may be slow.
    let arguments = ["hostile", "--clients=20", "--rate=200", "--seconds=3", "--warmup=1", "--max-p99-ms=1000"];
    let arguments: Vec<_> = arguments.into_iter().chain(crowd.iter().map(String::as_str)).collect();

    let run = passes(&mesh, &arguments).await;

    for when in ["before", "meanwhile"] {
        assert_eq!(run.report[when]["messages"]["delivered"], 200 * (1 + 3), "{when}");
    }
    let edge = &run.report["edges"][0];
    let count = |of: &str, name: &str| edge[of][name].as_u64().unwrap();
    assert!(count("highest", "signaling_handshakes") >= HANDSHAKES / 2, "{edge}");
    assert!(count("highest", "signaling_client_sockets") >= DEAF, "{edge}");
    let counted = edge["counted"].as_object().unwrap().iter();
    let refused = counted.filter(|(series, _)| series.starts_with("signaling_refused_connects_total"));
    let refused: u64 = refused.map(|(_, count)| count.as_u64().unwrap()).sum();
    assert!(refused >= HANDSHAKES / 2, "slow handshakes are closed: {edge}");
    let (resident, bound) = (edge["resident_bytes"].as_u64().unwrap(), edge["bound_bytes"].as_u64().unwrap());
    assert!(resident > 0 && resident <= bound && bound < 64 << 20, "{edge}");
    let log = mesh.log("balancer-0");
    assert!(log.contains(&format!("total_mib={}", bound.div_ceil(1 << 20))), "{log}");
}

/// Each kind of room makers, for a few seconds: the first 12 share one token, if there are tokens.
#[tokio::test]
async fn visitors_join_while_hostile_clients_make_rooms() {
    // Of five makers of a kind, one begins with 60 KB of data.
    for (tokens, makers, identities) in [(false, 5, &["anonymous"][..]), (true, 17, &["one_token", "subjects"])] {
        let mesh = TestMesh::with_options(|options| {
            options.tokens = tokens;
            options.balancer_args.push("--dialects=y-webrtc".to_owned());
        })
        .await;
        let makers = format!("--room-makers={makers}");
        // The limits of latency are loose, since the machine may be slow.
        let load = ["hostile", "--clients=20", "--rate=100", "--seconds=8", "--warmup=1", "--max-p99-ms=10000"];

        let run = passes(&mesh, &[&load[..], &["--handshakes=0", "--deaf=0", &makers]].concat()).await;

        for when in ["rooms_before", "rooms_meanwhile"] {
            assert!(run.report[when]["join_us"]["count"].as_u64() > Some(0), "{when}: {}", run.report);
        }
        let made = &run.report["room_makers"];
        for identity in identities {
            assert!(made[identity]["answers"].as_u64() > Some(0), "{identity}: {made}");
        }
        assert_eq!(made.as_object().unwrap().len(), identities.len(), "{made}");
        let native = &made[identities.last().unwrap()]["refused"];
        assert!(native["too_large"].as_u64() > Some(0), "60 KB of data: {made}");
        let nodes = run.report["nodes"].as_array().unwrap();
        let owned: u64 = nodes.iter().map(|node| node["highest"]["signaling_rooms_owned"].as_u64().unwrap()).sum();
        assert!(nodes.len() == 3 && owned > 300, "{nodes:?}");
        for target in ["target_join_p99", "target_latency_p99"] {
            let line = run.report[target].as_str().unwrap();
            assert!(line.starts_with("PASS: ") || line.starts_with("FAIL: "), "{line}");
        }
    }
}

#[tokio::test]
async fn residents_get_all_changes_and_the_queue_keeps_its_order() {
    let mesh = TestMesh::start().await;
    let rooms = ["rooms", "--clients=100", "--rooms=10", "--rate=40", "--seconds=4", "--warmup=1"];
    // No run meets this limit of the event delay.
    let waiting = ["--waiting=40", "--seats=3", "--leave-rate=5", "--max-event-p99-ms=0.001"];

    let run = mesh_load(&mesh, &[&rooms[..], &waiting].concat()).await;

    let changes = &run.report["changes"];
    let counts = (&changes["begun"], &changes["refused"], &run.report["unanswered"]);
    assert_eq!(counts, (&json!(40 * (1 + 4)), &json!(0), &json!(0)));
    // A resident receives a change by itself, in a whole room state, or only a later change of the
    // same client.
    let received: u64 =
        ["received", "received_by_state", "merged"].map(|how| changes[how].as_u64().unwrap()).iter().sum();
    // Half of a room's clients stay in it.
    let residents_per_room = 100 / 10 / 2;
    let expected = 40 * (1 + 4) * residents_per_room;
    assert_eq!((received, &run.report["unreceived"], &changes["duplicated"]), (expected, &json!(0), &json!(0)));
    let timed = |name: &str| run.report[name]["count"].as_u64().unwrap();
    assert_eq!(timed("join_us") + timed("leave_us"), 40 * 4, "changes after the warm-up");
    let queue = &run.report["queue"];
    let left = json!(5 * (1 + 4));
    assert_eq!((&queue["left"], &queue["admitted"], &queue["overtook"]), (&left, &left, &json!(0)));
    assert!(queue["shortest_gap_ms"].as_u64() >= Some(900), "at most one position per second: {queue}");
    assert!(!run.is_success);
    let complaints: Vec<&str> = run.complaints.lines().collect();
    assert!(matches!(complaints[..], [only] if only.contains("event delay is")), "{complaints:?}");
}

async fn passes(mesh: &TestMesh, arguments: &[&str]) -> Run {
    let run = mesh_load(mesh, arguments).await;
    assert!(run.is_success, "{}\n{}", run.complaints, run.report);
    run
}
