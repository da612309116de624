//! A Redis that is away, full, emptied or another mesh's, or has a later owner's room.

use std::time::Duration;

use crate::node::{Node, wait_until};
use crate::rooms::wait_for_lobby;
use crate::server::Server;

const OLD: Duration = Duration::from_secs(100);

#[tokio::test]
async fn changes_are_written_once_the_server_is_back() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        ["alice", "bob"].into_iter().for_each(|client| node.join("lobby", client));
        wait_for_lobby(&server, "alice bob", "").await;
        server.pause();
        node.leave("lobby", "alice");
        wait_until("the journal is down", || !node.status().is_up).await;
        assert!(node.status().behind_since.is_some() && node.status().problem.is_some());
        node.join("lobby", "carol");
        assert_eq!(node.seats("lobby").0, ["bob", "carol"], "clients do not wait for the journal");
        server.resume();
        wait_for_lobby(&server, "bob carol", "").await;
        wait_until("all is written", || node.status().is_up && node.status().behind_since.is_none()).await;
    })
    .await;
}

#[tokio::test]
async fn full_server_counts_as_down() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        wait_until("the journal is up", || node.status().is_up).await;
        server.cli(&["config", "set", "maxmemory", "1"]);
        node.join("lobby", "alice");
        wait_until("the journal is down", || node.status().problem.is_some_and(|why| why.contains("OOM"))).await;
        server.cli(&["config", "set", "maxmemory", "0"]);
        wait_for_lobby(&server, "alice", "").await;
    })
    .await;
}

#[tokio::test]
async fn emptied_server_gets_whole_rooms() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        ["alice", "bob"].into_iter().for_each(|client| node.join("lobby", client));
        wait_for_lobby(&server, "alice bob", "").await;
        server.cli(&["flushall"]);
        node.join("lobby", "carol");
        wait_for_lobby(&server, "alice bob", "carol").await;
        // A room without changes: the next sign of life shows the loss.
        server.cli(&["flushall"]);
        node.pass(Duration::from_secs(61));
        wait_for_lobby(&server, "alice bob", "carol").await;
        // An evicted key alone.
        server.cli(&["del", "sig:{lobby}:participants"]);
        node.pass(Duration::from_secs(61));
        wait_for_lobby(&server, "alice bob", "carol").await;
    })
    .await;
}

#[tokio::test]
async fn scripts_are_loaded_again_when_the_server_forgets_them() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        node.join("lobby", "alice");
        wait_for_lobby(&server, "alice", "").await;
        server.cli(&["script", "flush"]);
        node.join("lobby", "bob");
        wait_for_lobby(&server, "alice bob", "").await;
        assert!(node.status().is_up);
    })
    .await;
}

#[tokio::test]
async fn owner_begins_an_epoch_after_that_of_the_journal() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        node.join("lobby", "alice");
        wait_for_lobby(&server, "alice", "").await;
        let epoch: u64 = server.cli(&["hget", "sig:{lobby}:meta", "epoch"]).parse().unwrap();
        let later = format!("{:016}", epoch + 1_000_000_000);
        server.cli(&["hset", "sig:{lobby}:meta", "epoch", &later]);
        node.join("lobby", "bob");
        wait_for_lobby(&server, "alice bob", "").await;
        assert!(server.cli(&["hget", "sig:{lobby}:meta", "epoch"]) > later);
        let refused = node.with_core(|core, _| core.rooms().journal_counts().refused);
        assert_eq!(refused, 1);
    })
    .await;
}

#[tokio::test]
async fn nothing_is_written_under_the_prefix_of_another_mesh() {
    let Some(server) = Server::start() else { return };
    server.cli(&["set", "sig:mesh", "another mesh"]);
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        node.join("lobby", "alice");
        wait_until("it is detected", || node.status().is_foreign).await;
        assert_eq!(server.cli(&["dbsize"]), "1");
        server.cli(&["set", "sig:mesh", "its former secret"]);
        wait_for_lobby(&server, "alice", "").await;
        assert_eq!(server.cli(&["get", "sig:mesh"]), "this mesh");
    })
    .await;
}
