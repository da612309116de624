//! In the comparison with other proxies each of them delivers every message. Speed is not tested.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::{binaries, in_path, missing};
use tokio::process::Command;
use tokio::time::timeout;

/// Some seconds for each measurement, and what starting everything adds on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);
const CLIENTS: u32 = 60;
/// 200 a second, for a second that does not count and one that does.
const MESSAGES: u32 = 400;

#[tokio::test]
async fn every_contestant_delivers_everything() {
    let mut contestants = vec!["balancer", "echo"];
    for program in ["nginx", "haproxy"] {
        // Where systems keep servers, whether or not everybody's PATH has it.
        if in_path(&[program]).is_some() || Path::new("/usr/sbin").join(program).is_file() {
            contestants.push(program);
        } else {
            missing(program, program);
        }
    }
    contestants.sort_unstable();
    let mut harness = Command::new(binaries().join("mesh-load"));
    harness.args(["compare", "--rounds=1", "--rates=200", "--sizes=ice,sdp", "--seconds=1", "--search-from=0"]);
    harness.arg("--hold=0");
    harness.args(["clients", "idle-clients", "connects"].map(|what| format!("--{what}={CLIENTS}")));
    harness.arg(format!("--only={}", contestants.join(","))).arg("--json=-").kill_on_drop(true);

    let run = timeout(PATIENCE, harness.output()).await.expect("mesh-load has not ended in time").unwrap();

    let complaints = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{complaints}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{complaints}"));
    let all_arrived = json!({ "sent": MESSAGES, "delivered": MESSAGES, "lost": 0, "doubled": 0, "swapped": 0 });
    let rows = report["rows"].as_array().unwrap();
    for contestant in contestants {
        let of_it = |is: &dyn Fn(&Value) -> bool| -> Vec<&Value> {
            let runs = report["runs"].as_array().unwrap().iter();
            runs.filter(|run| run["contestant"] == contestant && is(run)).collect()
        };
        let loads = of_it(&|run| run["is_load"] == true);
        assert_eq!(loads.len(), 2, "{contestant}: both sizes");
        let mut is_in_time = true;
        for load in loads {
            assert_eq!(load["messages"], all_arrived, "{contestant}: {load}");
            // A machine that is busy with other things says nothing of the contestant, and gives no
            // figures.
            for complaint in load["complaints"].as_array().unwrap() {
                assert!(complaint.as_str().unwrap().ends_with("delivered in time"), "{contestant}: {load}");
                is_in_time = false;
            }
        }
        for what in ["connects", "memory"] {
            assert_eq!(of_it(&|run| run["what"] == what).len(), 1, "{contestant}, {what}: {complaints}");
        }
        let has_no_nodes = contestant == "echo";
        let is_asked = |row: &&Value| is_in_time && !(has_no_nodes && row["what"].as_str().unwrap().contains("nodes"));
        for row in rows.iter().filter(is_asked) {
            assert!(row["medians"][contestant].is_number(), "{contestant}: {row}");
        }
    }
    assert!(rows.iter().any(|row| row["what"] == "CPU per message of the front, SDP at 200/s"));
}
