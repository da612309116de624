//! Content of a mesh's Redis.

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

    /// Executes a command, given as its words. Panics if it fails or its answer is no `T`.
    pub async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        cmd(words[0]).arg(&words[1..]).query_async(&mut self.0).await.unwrap()
    }
}
