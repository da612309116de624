//! Rooms as readers see them, and as an owner without a copy reads them back.

use std::time::Duration;

use serde_json::Value;
use signaling_protocol::ClientId;
use signaling_rooms::Operation;

use crate::node::{Node, wait_until};
use crate::server::Server;

/// Age of a node that does not read the journal any more.
const OLD: Duration = Duration::from_secs(100);

/// Returns a command on a key of room `lobby`, with the key as its first argument.
fn of_lobby(server: &Server, command: &str, kind: &str, more: &[&str]) -> String {
    let key = format!("sig:{{lobby}}:{kind}");
    server.cli(&[&[command, &key], more].concat())
}

/// Returns members, participants, waiting, checkin and waiters of room `lobby`, by name.
fn contents(server: &Server) -> [String; 5] {
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        lines.join(" ")
    };
    [
        ("ZRANGE", "members"),
        ("HKEYS", "participants"),
        ("ZRANGE", "waiting"),
        ("ZRANGE", "checkin"),
        ("HKEYS", "waiters"),
    ]
    .map(|(command, kind)| {
        let range: &[&str] = if command == "ZRANGE" { &["0", "-1"] } else { &[] };
        sorted(of_lobby(server, command, kind, range))
    })
}

pub(crate) async fn wait_for_lobby(server: &Server, members: &str, waiting: &str) {
    let expected = [members, members, waiting, waiting, waiting].map(str::to_owned);
    wait_until(&format!("{expected:?}"), || contents(server) == expected).await;
}

/// Returns `true` if a client is blocked in room `lobby` for about 10 minutes.
fn is_blocked(server: &Server, client: &str) -> bool {
    let now: u64 = server.cli(&["time"]).lines().next().unwrap().parse().unwrap();
    let blocks: Value = serde_json::from_str(&of_lobby(server, "HGET", "meta", &["blocks"])).unwrap();
    let end = blocks[client].as_u64();
    end.is_some_and(|end| (590_000..=601_000).contains(&(end - now * 1_000)))
}

async fn is_written_on(server: &Server) {
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        ["alice", "bob", "carol", "dave"].into_iter().for_each(|client| node.join("lobby", client));
        wait_for_lobby(server, "alice bob", "carol dave").await;
        let alice: Value = serde_json::from_str(&of_lobby(server, "HGET", "participants", &["alice"])).unwrap();
        assert_eq!(
            (&alice["data"]["name"], &alice["node"], &alice["number"]),
            (&"alice".into(), &"n0".into(), &1.into())
        );
        assert_eq!(of_lobby(server, "ZRANK", "waiting", &["dave"]), "1", "the number ahead of dave");
        let now: u64 = server.cli(&["time"]).lines().next().unwrap().parse().unwrap();
        let since = format!("{}", now * 1_000 - 5_000);
        assert_eq!(of_lobby(server, "ZCOUNT", "members", &[&since, "+inf"]), "2");
        assert_eq!(of_lobby(server, "HGET", "meta", &["owner"]), "n0");
        assert_eq!(of_lobby(server, "HGET", "meta", &["epoch"]).len(), 16);
        assert_eq!(server.cli(&["zrange", "sig:rooms", "0", "-1"]), "lobby");
        for kind in ["members", "participants", "waiting", "checkin", "waiters", "meta"] {
            let left: u64 = of_lobby(server, "PTTL", kind, &[]).parse().unwrap();
            assert!((89_000_000..=90_000_000).contains(&left), "{kind}: {left}");
        }

        node.leave("lobby", "alice");
        wait_for_lobby(server, "bob carol", "dave").await;
        ["bob", "carol", "dave"].into_iter().for_each(|client| node.leave("lobby", client));
        wait_for_lobby(server, "", "").await;
        node.pass(Duration::from_secs(400));
        node.pass(Duration::from_secs(400));
        wait_until("the room has ended", || server.cli(&["zcard", "sig:rooms"]) == "0").await;
        let left: u64 = of_lobby(server, "PTTL", "meta", &[]).parse().unwrap();
        assert!((3_500_000..=3_600_000).contains(&left), "{left}");
        let kept = of_lobby(server, "HMGET", "meta", &["capacity", "capacity_kept", "blocks", "closed"]);
        assert_eq!(kept.trim(), "", "nothing that an operator set");
    })
    .await;
}

#[tokio::test]
async fn readers_see_members_and_queue() {
    let Some(server) = Server::start() else { return };
    is_written_on(&server).await;
}

#[tokio::test]
async fn cluster_has_the_keys_of_a_room_in_one_slot() {
    let Some(server) = Server::start_cluster() else { return };
    is_written_on(&server).await;
}

#[tokio::test]
async fn sentinels_name_the_master_that_is_written() {
    let Some(master) = Server::start() else { return };
    let sentinel = master.start_sentinel();
    let node = Node::start(1, OLD);
    node.with_journal(&sentinel.sentinel_url(), async {
        node.join("lobby", "alice");
        wait_for_lobby(&master, "alice", "").await;
    })
    .await;
}

#[tokio::test]
async fn owner_without_a_copy_reads_the_room_back() {
    for server in [Server::start(), Server::start_cluster()] {
        let Some(server) = server else { return };
        let former = Node::start(1, OLD);
        former
            .with_journal(&server.url(), async {
                former.apply("lobby", Operation::SetCapacity { capacity: Some(3) });
                ["alice", "bob", "carol", "dave"].into_iter().for_each(|client| former.join("lobby", client));
                former.apply("capacity", Operation::SetCapacity { capacity: Some(7) });
                former.apply("closed", Operation::Close { time: None });
                let client = ClientId::new("mallory").unwrap();
                former.apply("lobby", Operation::Remove { client, block: Some(Duration::from_secs(600)) });
                wait_for_lobby(&server, "alice bob carol", "dave").await;
                let is_closed = || server.cli(&["hget", "sig:{closed}:meta", "closed"]) == "true";
                wait_until("room and block are written", || is_closed() && is_blocked(&server, "mallory")).await;
            })
            .await;
        let next = Node::start(2, Duration::ZERO);
        next.with_journal(&server.url(), async {
            ["mallory", "erin"].into_iter().for_each(|client| next.join("lobby", client));
            next.join("closed", "alice");
            let all = (vec!["alice".into(), "bob".into(), "carol".into()], vec!["dave".into(), "erin".into()]);
            wait_until("members and queue are back", || next.seats("lobby") == all).await;
            wait_for_lobby(&server, "alice bob carol", "dave erin").await;
            let first = of_lobby(&server, "ZRANGE", "waiting", &["0", "0"]);
            assert_eq!(first, "dave", "the order of the queue is kept");
            next.join("capacity", "alice");
            next.join("other", "alice");
            wait_until("newcomers of other rooms are in", || {
                ["capacity", "other"].iter().all(|room| next.seats(room).0 == ["alice"])
            })
            .await;
            let capacity = || next.with_core(|core, _| core.rooms().owned("capacity").unwrap().own_capacity());
            assert_eq!(capacity(), Some(7));
            next.join("lobby", "mallory");
            assert_eq!(next.seats("lobby"), all, "a blocked client has no seat");
            wait_until("the closed room has no seats", || next.seats("closed").1.is_empty()).await;
            next.join("closed", "bob");
            assert_eq!(next.seats("closed"), (vec![], vec![]));
        })
        .await;
    }
}

#[tokio::test]
async fn large_room_is_complete() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        let data: Box<str> = format!(r#""{}""#, "x".repeat(30_000)).into();
        node.apply("lobby", Operation::SetCapacity { capacity: Some(0) });
        for client in 0..150 {
            node.join_with("lobby", &format!("c{client}"), data.clone());
        }
        wait_until("all members", || of_lobby(&server, "HLEN", "participants", &[]) == "150").await;
        wait_until("no part is left", || of_lobby(&server, "HGET", "meta", &["partial"]).is_empty()).await;
    })
    .await;
}
