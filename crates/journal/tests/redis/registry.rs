//! The registry of clients, and the entries that a dead process left.

use std::time::Duration;

use crate::node::{Node, wait_until};
use crate::server::Server;

const OLD: Duration = Duration::from_secs(100);
const PROCESS: &str = "n0/0101010101010101";

/// Registers 10,000 clients of a process, with a sign of life of this age in ms.
const REGISTER: &str = "for n = 1, 10000 do redis.call('HSET', KEYS[1], 'c' .. n, ARGV[1]); \
                        redis.call('SADD', KEYS[2], 'c' .. n) end; \
                        local now = redis.call('TIME')[1] * 1000; \
                        redis.call('ZADD', KEYS[3], now - ARGV[2], ARGV[1])";

fn process_of(server: &Server, client: &str) -> String {
    server.cli(&["hget", "{sig}:registry", client])
}

#[tokio::test]
async fn registry_names_the_process_with_the_socket() {
    let Some(server) = Server::start() else { return };
    let node = Node::start(1, OLD);
    node.with_journal(&server.url(), async {
        node.attach(1, "alice");
        node.attach(2, "bob");
        let are_there = || process_of(&server, "alice") == PROCESS && process_of(&server, "bob") == PROCESS;
        wait_until("both clients are there", are_there).await;
        assert_eq!(server.cli(&["zrange", "{sig}:nodes", "0", "-1"]), PROCESS);
        node.detach(1);
        wait_until("alice is gone", || process_of(&server, "alice").is_empty()).await;
        // Bob registered at another node since.
        server.cli(&["hset", "{sig}:registry", "bob", "n1/02"]);
        node.detach(2);
        let clients = format!("{{sig}}:clients:{PROCESS}");
        wait_until("bob is no client of this process", || server.cli(&["scard", &clients]) == "0").await;
        assert_eq!(process_of(&server, "bob"), "n1/02");
    })
    .await;
}

#[tokio::test]
async fn dead_process_loses_its_clients_but_not_those_of_others() {
    let Some(server) = Server::start() else { return };
    // A former process of a node in the view, and a node outside of it, which may live.
    for (dead, alive) in [("n0/0202020202020202", "n0/0404040404040404"), ("n9/0303030303030303", "n8/05")] {
        let clients = format!("{{sig}}:clients:{dead}");
        server.cli(&["eval", REGISTER, "3", "{sig}:registry", &clients, "{sig}:nodes", dead, "75000"]);
        let now: u64 = server.cli(&["time"]).lines().next().unwrap().parse().unwrap();
        server.cli(&["zadd", "{sig}:nodes", &format!("{now}000"), alive]);
        server.cli(&["hset", "{sig}:registry", "c7", "n1/04"]);
        let node = Node::start(1, OLD);
        node.with_journal(&server.url(), async {
            wait_until("the process is gone", || !server.cli(&["zrange", "{sig}:nodes", "0", "-1"]).contains(dead))
                .await;
        })
        .await;
        assert_eq!((server.cli(&["hlen", "{sig}:registry"]), process_of(&server, "c7")), ("1".into(), "n1/04".into()));
        assert_eq!(server.cli(&["exists", &clients]), "0");
        assert!(server.cli(&["zrange", "{sig}:nodes", "0", "-1"]).contains(alive), "its last sign of life is recent");
    }
}
