//! The store finds the new master after a demotion or replacement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use signaling_rooms::{Op, OpResult, RedisStore, Requester, StoreError};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Server, free_port, wait_until};
use crate::test_room::{Store, apply, eventually, redis_store, requester, rules};

/// Time limit for a connected store after a new master accepts writes.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(2);

fn join_of(name: &str) -> Op {
    Op::Join { requester: Requester { number: 1, ..requester(name) }, data: None, capacity: None }
}

async fn join(store: &RedisStore, name: &str) -> Result<OpResult, StoreError> {
    apply(&Store::Redis(store.clone()), "lobby", join_of(name)).await
}

/// Waits until a join succeeds, and returns the number of members.
async fn joins_in_time(store: &RedisStore, name: &str) -> u64 {
    eventually(&Store::Redis(store.clone()), "lobby", join_of(name), RECONNECT_TIMEOUT).await.count
}

/// Waits until the sentinel's answer about its master contains a port.
async fn sentinel_names(sentinel: &Server, question: &str, port: u16) {
    let has_port = || sentinel.cli(&["sentinel", question, "rooms"]).contains(&port.to_string());
    wait_until(&format!("port {port} in the answer to `sentinel {question}`"), has_port).await;
}

/// Starts an address that leads to a selectable server, like a virtual IP. Connections stay.
async fn virtual_address(first: &Server) -> (String, Arc<AtomicU16>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let target = Arc::new(AtomicU16::new(first.port()));
    let present = Arc::clone(&target);
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let port = present.load(Ordering::Relaxed);
            tokio::spawn(async move {
                let mut to = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    (url, target)
}

#[tokio::test]
async fn store_leaves_a_demoted_master_for_the_new_one() {
    let old = Server::start();
    let new = Server::start_replica_of(&old).await;
    let (url, target) = virtual_address(&old).await;
    let store = redis_store(&url, rules(0));
    join(&store, "alice").await.unwrap();
    wait_until("alice is replicated", || new.cli(&["exists", "sig:{lobby}:members"]) == "1").await;

    target.store(new.port(), Ordering::Relaxed);
    old.cli(&["failover", "to", "127.0.0.1", &new.port().to_string()]);
    wait_until("the replica is promoted", || new.cli(&["role"]).starts_with("master")).await;

    assert_eq!(joins_in_time(&store, "bob").await, 2);
    assert_eq!(store.lost_connections(), 1);
}

#[tokio::test]
async fn store_serves_again_when_its_server_is_promoted() {
    let server = Server::start();
    let other = Server::start();
    let store = redis_store(&server.url(), rules(0));
    join(&store, "alice").await.unwrap();
    server.cli(&["replicaof", "127.0.0.1", &other.port().to_string()]);
    let mut last = String::new();
    for _ in 0..20 {
        last = join(&store, "bob").await.unwrap_err().to_string();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(last.contains("replica"), "{last}");
    assert!(store.write_heartbeat().await.is_err());
    assert_eq!(store.lost_connections(), 1, "no connection to a replica is kept");
    server.cli(&["replicaof", "no", "one"]);
    joins_in_time(&store, "bob").await;
    store.write_heartbeat().await.unwrap();
}

#[tokio::test]
async fn idle_store_reconnects_before_its_next_command() {
    let mut server = Server::start();
    let store = redis_store(&server.url(), rules(0));
    join(&store, "alice").await.unwrap();
    server.restart();
    tokio::time::sleep(RECONNECT_TIMEOUT).await;
    assert_eq!(join(&store, "alice").await.map(|result| result.count), Ok(1));
}

#[tokio::test]
async fn sentinels_are_asked_for_the_master_when_it_dies() {
    let mut old = Server::start();
    let new = Server::start_replica_of(&old).await;
    let sentinel = Server::start_sentinel(&old, None);
    sentinel_names(&sentinel, "replicas", new.port()).await;
    let url = format!("redis-sentinel://127.0.0.1:{},127.0.0.1:{}/rooms", free_port(), sentinel.port());
    let store = redis_store(&url, rules(0));
    join(&store, "alice").await.unwrap();
    wait_until("alice is replicated", || new.cli(&["exists", "sig:{lobby}:members"]) == "1").await;

    old.stop();
    assert!(join(&store, "bob").await.is_err());
    wait_until("the replica is promoted", || new.cli(&["role"]).starts_with("master")).await;
    sentinel_names(&sentinel, "get-master-addr-by-name", new.port()).await;
    assert_eq!(joins_in_time(&store, "bob").await, 2);
}

#[tokio::test]
async fn sentinel_and_master_get_their_own_passwords() {
    let server = Server::start();
    server.cli(&["config", "set", "requirepass", "secret"]);
    let sentinel = Server::start_sentinel(&server, Some("secret"));
    sentinel_names(&sentinel, "get-master-addr-by-name", server.port()).await;
    let port = sentinel.port();
    let url = format!("redis-sentinel://:secret@127.0.0.1:{port}/rooms/2?sentinelPassword=own-secret");
    let store = redis_store(&url, rules(0));
    joins_in_time(&store, "alice").await;
    let keys = server.cli(&["--no-auth-warning", "-a", "secret", "-n", "2", "keys", "*members"]);
    assert_eq!(keys, "sig:{lobby}:members");
}
