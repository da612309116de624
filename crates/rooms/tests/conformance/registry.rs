//! The registry and its cleaner.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{Cleaned, Clock, RedisRegistry, RedisStore, Registration, Rules, Sweep};
use signaling_wire::SessionId;

use crate::server::Server;

const SILENT: Duration = Duration::from_secs(45);

struct Mesh {
    server: Server,
    registry: RedisRegistry,
    clock: Arc<AtomicU64>,
}

fn mesh() -> Mesh {
    let server = Server::start();
    let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
    let store = RedisStore::new(&server.url(), Rules::default(), Clock::Given(Arc::clone(&clock))).unwrap();
    Mesh { server, registry: store.registry(), clock }
}

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn registration(client: usize, session: u8, here: bool) -> Registration {
    let client = ClientId::new(&format!("c{client}")).unwrap();
    Registration { client, session: SessionId([session; 16]), here }
}

impl Mesh {
    async fn at(&self, client: usize) -> Option<String> {
        let found = self.registry.find(&ClientId::new(&format!("c{client}")).unwrap()).await.unwrap();
        found.map(|entry| entry.node.to_string())
    }

    /// Registers clients of one session each at a node, which then sends a heartbeat.
    async fn fill(&self, name: &str, clients: usize) {
        let many: Vec<_> = (0..clients).map(|client| registration(client, 1, true)).collect();
        self.registry.register(&node(name), &many).await.unwrap();
        self.registry.record_heartbeat(&node(name)).await.unwrap();
    }

    fn advance(&self, time: Duration) {
        self.clock.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

#[tokio::test]
async fn client_is_found_at_its_latest_node() {
    let mesh = mesh();
    mesh.registry.register(&node("a"), &[registration(1, 1, true)]).await.unwrap();
    assert_eq!(mesh.at(1).await.as_deref(), Some("a"));
    mesh.registry.register(&node("b"), &[registration(1, 1, true)]).await.unwrap();
    mesh.registry.register(&node("a"), &[registration(1, 1, false)]).await.unwrap();
    assert_eq!(mesh.at(1).await.as_deref(), Some("b"));
    assert_eq!(mesh.server.cli(&["exists", "sig:node:a:clients"]), "0");
    mesh.registry.register(&node("b"), &[registration(1, 1, false)]).await.unwrap();
    assert_eq!(mesh.at(1).await, None);
    assert_eq!(mesh.server.cli(&["dbsize"]), "0");
}

#[tokio::test]
async fn heartbeat_reports_that_the_registry_was_emptied() {
    let mesh = mesh();
    assert!(!mesh.registry.record_heartbeat(&node("a")).await.unwrap());
    assert!(mesh.registry.record_heartbeat(&node("a")).await.unwrap());
    mesh.server.cli(&["flushall"]);
    assert!(!mesh.registry.record_heartbeat(&node("a")).await.unwrap());
}

#[tokio::test]
async fn cleaner_removes_entries_of_a_dead_node_only() {
    let mesh = mesh();
    mesh.fill("dead", 20_000).await;
    mesh.registry.record_heartbeat(&node("alive")).await.unwrap();
    mesh.advance(SILENT);
    mesh.registry.record_heartbeat(&node("alive")).await.unwrap();
    assert_eq!(mesh.registry.silent_nodes(SILENT).await.unwrap(), [node("dead")]);
    let moved: Vec<_> = (0..100).map(|client| registration(client * 7, 1, true)).collect();
    mesh.registry.register(&node("alive"), &moved).await.unwrap();

    let dead = node("dead");
    let (first, second) = tokio::join!(mesh.registry.clean(&dead, SILENT), mesh.registry.clean(&dead, SILENT));

    let done: Vec<_> = [first.unwrap(), second.unwrap()].into_iter().flatten().collect();
    assert_eq!(done, [Cleaned { removed: 19_900, kept: 100 }], "exactly one of the two");
    assert_eq!((mesh.at(7).await.as_deref(), mesh.at(8).await), (Some("alive"), None));
    assert_eq!(mesh.server.cli(&["exists", "sig:node:dead:clients"]), "0");
    assert!(mesh.registry.silent_nodes(SILENT).await.unwrap().is_empty());
    assert!(mesh.server.slowest() < Duration::from_millis(10), "{:?}", mesh.server.slowest());
}

#[tokio::test]
async fn cleaner_takes_over_when_the_claim_of_another_ran_out() {
    let mesh = mesh();
    mesh.fill("dead", 5_000).await;
    mesh.advance(SILENT);
    let left = || mesh.server.cli(&["scard", "sig:node:dead:clients"]).parse::<usize>().unwrap();
    let dead = node("dead");
    {
        let mut cleaning = std::pin::pin!(mesh.registry.clean(&dead, SILENT));
        while left() == 5_000 {
            let step = tokio::time::timeout(Duration::from_millis(1), &mut cleaning).await;
            assert!(step.is_err(), "it is cut off before it is done");
        }
    }
    assert!(left() > 0);
    assert_eq!(mesh.registry.clean(&dead, SILENT).await.unwrap(), None, "its claim still holds");
    mesh.advance(Duration::from_secs(11));
    let rest = mesh.registry.clean(&dead, SILENT).await.unwrap().unwrap();
    assert!(rest.removed > 0 && rest.removed < 5_000);
    assert_eq!(mesh.server.cli(&["dbsize"]), "0");
}

#[tokio::test]
async fn returned_node_keeps_its_entries() {
    let mesh = mesh();
    mesh.registry.register(&node("back"), &[registration(1, 1, true)]).await.unwrap();
    mesh.registry.record_heartbeat(&node("back")).await.unwrap();
    mesh.advance(SILENT);
    mesh.registry.record_heartbeat(&node("back")).await.unwrap();
    mesh.registry.register(&node("back"), &[registration(1, 2, true)]).await.unwrap();
    assert_eq!(mesh.registry.clean(&node("back"), SILENT).await.unwrap(), None);
    assert_eq!(mesh.at(1).await.as_deref(), Some("back"));
}

#[tokio::test]
async fn entries_keep_their_lifetime_when_renewed() {
    const DAY: i64 = 24 * 3600;
    let mesh = mesh();
    mesh.fill("a", 5_000).await;
    let age = "for _, key in ipairs(redis.call('keys', 'sig:client:*')) do redis.call('expire', key, 60) end";
    mesh.server.cli(&["eval", age, "0"]);
    let lives = || {
        let count = "local fresh = 0 for _, key in ipairs(redis.call('keys', 'sig:client:*')) do \
                     if redis.call('ttl', key) > tonumber(ARGV[1]) then fresh = fresh + 1 end end return fresh";
        mesh.server.cli(&["eval", count, "0", &(DAY - 60).to_string()]).parse::<usize>().unwrap()
    };
    assert_eq!(lives(), 0);
    let (mut at, mut steps) = (Sweep::default(), 0);
    loop {
        at = mesh.registry.renew_entries(&node("a"), at).await.unwrap();
        steps += 1;
        if at == Sweep::default() {
            break;
        }
        assert!(lives() <= steps * 2_000 && steps < 100, "a step is bounded");
    }
    assert_eq!(lives(), 5_000);
    assert!(steps > 1);
}
