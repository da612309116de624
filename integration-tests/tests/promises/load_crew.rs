//! Several load processes: they end with the one that started them, however that one ends.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use signaling_integration_tests::mesh::binaries;
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::{TestMesh, eventually};
use tokio::process::Command;

const PROCESSES: usize = 2;
const WITHIN: Duration = Duration::from_secs(30);

#[tokio::test]
async fn load_processes_end_with_a_first_one_that_is_killed_amid_the_load() {
    let mesh = TestMesh::start().await;
    let mut first = Command::new(binaries().join("mesh-load"))
        .args(["steady", "--clients=8", "--rate=100", "--seconds=600", "--processes=2", "--dir"])
        .arg(mesh.dir.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let first_pid = first.id().unwrap();
    // What is delivered was sent after the gate.
    let balancer = mesh.mesh.state().balancers[0].internal.clone();
    eventually("messages to flow", WITHIN, || async {
        (metric(&balancer, "signaling_downlink_frames_total", "").await > 0.0).then_some(())
    })
    .await;
    let others = children_of(first_pid);
    assert_eq!(others.len(), PROCESSES);

    first.kill().await.unwrap();

    let all_have_ended = || async { others.iter().all(|pid| has_ended(*pid)).then_some(()) };
    eventually("the load processes to end", WITHIN, all_have_ended).await;
}

fn children_of(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid| stat(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect()
}

/// Whether it is gone, but for an entry that waits to be looked at.
fn has_ended(pid: u32) -> bool {
    stat(pid).is_none_or(|(state, _)| state == "Z" || state == "X")
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
