//! In the comparison with other servers each of them delivers every message. Speed is not tested.

use serde_json::{Value, json};
use signaling_integration_tests::load::Run;
use signaling_integration_tests::upstream::upstream_script;
use signaling_integration_tests::{mesh_load_alone, program};

const CLIENTS: u32 = 60;
/// Messages of a warm-up of 1 s and a measurement of 1 s, at 200 messages/s.
const MESSAGES: u32 = 400;
/// Copies of each message in the default topic of y-webrtc, of 10 members.
const COPIES: u32 = 9;

#[tokio::test]
async fn every_contestant_delivers_everything() {
    let mut contestants = vec!["balancer"];
    contestants.extend(["nginx", "haproxy"].into_iter().filter(|name| program(&[name], name).is_some()));
    contestants.sort_unstable();
    check("native", &contestants, MESSAGES).await;
}

#[tokio::test]
async fn balancer_delivers_every_message_of_peerjs_clients() {
    check("peerjs", &["balancer"], MESSAGES).await;
}

#[tokio::test]
async fn topics_get_each_copy_once_from_balancer_and_upstream() {
    let upstream = upstream_script().map(|_| "y-webrtc");
    let contestants: Vec<&str> = ["balancer"].into_iter().chain(upstream).collect();
    check("y-webrtc", &contestants, MESSAGES * COPIES).await;
}

async fn check(dialect: &str, contestants: &[&str], messages: u32) {
    let mut arguments = ["compare", "--rounds=1", "--rates=200", "--sizes=ice,sdp", "--seconds=1", "--search-from=0"]
        .map(str::to_owned)
        .to_vec();
    arguments.push(format!("--dialect={dialect}"));
    arguments.extend(["clients", "idle-clients", "connects"].map(|what| format!("--{what}={CLIENTS}")));
    arguments.extend(["--hold=0".to_owned(), format!("--only={}", contestants.join(","))]);

    let Run { is_success, report, complaints } = mesh_load_alone(&arguments).await;

    // On a busy machine messages may be late, and there are no figures then.
    let failures: Vec<_> = complaints.lines().filter(|line| line.starts_with("FAILED")).collect();
    let is_late = !failures.is_empty() && failures.iter().all(|line| line.ends_with("no run counts, at any rate"));
    assert!(is_success || is_late, "{complaints}");
    let all_arrived = json!({ "sent": messages, "delivered": messages, "lost": 0, "duplicated": 0, "reordered": 0 });
    let rows = report["rows"].as_array().unwrap();
    for &contestant in contestants {
        let runs_of_contestant = |is: &dyn Fn(&Value) -> bool| -> Vec<&Value> {
            let runs = report["runs"].as_array().unwrap().iter();
            runs.filter(|run| run["contestant"] == contestant && is(run)).collect()
        };
        let loads = runs_of_contestant(&|run| run["is_load"] == true);
        assert_eq!(loads.len(), 2, "{contestant}: both sizes");
        let mut is_in_time = true;
        for load in loads {
            assert_eq!(load["messages"], all_arrived, "{contestant}: {load}");
            for complaint in load["complaints"].as_array().unwrap() {
                assert!(complaint.as_str().unwrap().ends_with("delivered in time"), "{contestant}: {load}");
                is_in_time = false;
            }
        }
        for what in ["connects", "memory"] {
            assert_eq!(runs_of_contestant(&|run| run["what"] == what).len(), 1, "{contestant}, {what}: {complaints}");
        }
        let has_nodes = contestant != "y-webrtc";
        let is_expected = |row: &&Value| has_nodes || !row["what"].to_string().contains("memory of the nodes");
        for row in rows.iter().filter(|_| is_in_time).filter(is_expected) {
            assert!(row["medians"][contestant].is_number(), "{contestant}: {row}");
        }
    }
    let unit = if messages == MESSAGES { "message" } else { "copy" };
    assert!(is_late || rows.iter().any(|row| row["what"] == format!("CPU per {unit} of the front, SDP at 200/s")));
}
