//! Players with matchbox's own client meet once each, at two balancers and while a node is killed.
//!
//! Building the client takes minutes: `make test-matchbox` runs these tests, others skip them.

use std::path::Path;

use signaling_integration_tests::{LineProgram, TestMesh, binaries, during};
use tokio::process::Command;

/// A `clients/matchbox` player. It ends when dropped.
struct Player {
    program: LineProgram,
    id: String,
}

impl Player {
    async fn start(balancer: &str, target: &str) -> Self {
        let mut command = Command::new(binaries().join("matchbox/debug/matchbox-player"));
        let mut program = LineProgram::start(command.arg(format!("ws://{balancer}{target}")));
        let id = program.line().await.strip_prefix("id ").unwrap().to_owned();
        Self { program, id }
    }

    /// Checks that it prints exactly these events about a peer next, in any order with others.
    async fn prints(&mut self, mut lines: Vec<String>) {
        while !lines.is_empty() {
            let line = self.program.line().await;
            let at = lines.iter().position(|expected| *expected == line);
            lines.remove(at.unwrap_or_else(|| panic!("{line} instead of one of {lines:?}")));
        }
    }
}

fn met(ids: &[&str]) -> Vec<String> {
    ids.iter().flat_map(|id| [format!("connected {id}"), format!("heard {id}")]).collect()
}

/// Builds the player. Returns `false` and prints the reason if this run skips these tests.
async fn build() -> bool {
    if std::env::var_os("MATCHBOX").is_none() {
        eprintln!("skipped: matchbox's client takes minutes to build; run `make test-matchbox`");
        return false;
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/matchbox/Cargo.toml");
    let built = Command::new("cargo")
        .args(["build", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(binaries().join("matchbox"))
        .status();
    assert!(built.await.unwrap().success());
    true
}

#[tokio::test]
async fn matchbox_players_meet_once_when_a_node_is_killed() {
    if !build().await {
        return;
    }
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let target = "/matchbox/room";
    let (mut ada, mut bob) = (Player::start(&one, target).await, Player::start(&two, target).await);
    ada.prints(met(&[&bob.id])).await;
    bob.prints(met(&[&ada.id])).await;

    let owner = mesh.owner("~mb:room");
    let mut cid = during(mesh.kill(&owner), Player::start(&one, target)).await;
    cid.prints(met(&[&ada.id, &bob.id])).await;
    ada.prints(met(&[&cid.id])).await;
    bob.prints(met(&[&cid.id])).await;

    let gone = format!("disconnected {}", cid.id);
    drop(cid);
    ada.prints(vec![gone.clone()]).await;
    bob.prints(vec![gone]).await;
}

#[tokio::test]
async fn matchbox_players_form_groups_of_two() {
    if !build().await {
        return;
    }
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let target = "/matchbox/arena?next=2";
    let mut players = Vec::new();
    for balancer in [&one, &two, &one, &two] {
        players.push(Player::start(balancer, target).await);
    }
    let ids: Vec<_> = players.iter().map(|player| player.id.clone()).collect();
    let mut partners = Vec::new();
    for player in &mut players {
        let line = player.program.line().await;
        let partner = line.strip_prefix("connected ").unwrap().to_owned();
        player.prints(vec![format!("heard {partner}")]).await;
        partners.push(partner);
    }
    for (id, partner) in ids.iter().zip(&partners) {
        let place = ids.iter().position(|other| other == partner).unwrap();
        assert_eq!(partners[place], *id);
    }
}
