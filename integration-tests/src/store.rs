//! Content of a mesh's Redis.

use std::collections::BTreeSet;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue, cmd};

use crate::TestMesh;

/// A connection to the Redis.
pub struct Store(MultiplexedConnection);

impl Store {
    /// Connects to the Redis of a mesh. Panics if it has none.
    pub async fn of(mesh: &TestMesh) -> Self {
        let url = mesh.state().redis.expect("the mesh has a Redis");
        Self(Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap())
    }

    /// Executes a command, given as its words.
    pub async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        cmd(words[0]).arg(&words[1..]).query_async(&mut self.0).await.unwrap()
    }

    /// Returns the registry's entries: pairs of a client and its node.
    pub async fn registered(&mut self) -> Vec<(String, String)> {
        let mut registered = Vec::new();
        let keys: BTreeSet<String> = self.ask(&["KEYS", "sig:client:*"]).await;
        for key in keys {
            let node: Option<String> = self.ask(&["HGET", &key, "node"]).await;
            let client = key.trim_start_matches("sig:client:").to_owned();
            registered.extend(node.map(|node| (client, node)));
        }
        registered
    }

    /// Returns the registry's keys of a node: its heartbeat, and the reverse and forward mappings
    /// of its clients.
    pub async fn left_of_node(&mut self, node: &str) -> Vec<String> {
        let score: Option<String> = self.ask(&["ZSCORE", "sig:nodes", node]).await;
        let mut left: Vec<String> = score.iter().map(|score| format!("sig:nodes {node} {score}")).collect();
        let reverse = format!("sig:node:{node}:clients");
        let clients: BTreeSet<String> = self.ask(&["SMEMBERS", &reverse]).await;
        left.extend(clients.iter().map(|client| format!("{reverse} {client}")));
        let forward = self.registered().await.into_iter().filter(|(_, there)| there == node);
        left.extend(forward.map(|(client, _)| format!("sig:client:{client} {node}")));
        left
    }
}
