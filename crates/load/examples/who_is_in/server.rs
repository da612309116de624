//! A Redis of our own, on a free port, that keeps nothing on disk.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use signaling_devmesh::hold_port;

/// It ends with this.
pub(crate) struct Server {
    process: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        let port = hold_port("127.0.0.1:0".parse().unwrap()).unwrap().local_addr().unwrap().port();
        let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let process = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
        Self { process: process.expect("redis-server is installed"), port }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        let (client, begin) = (redis::Client::open(self.url()).unwrap(), Instant::now());
        loop {
            match client.get_multiplexed_async_connection().await {
                Ok(connection) => return connection,
                Err(error) => {
                    assert!(begin.elapsed() < Duration::from_secs(10), "redis-server does not start: {error}");
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
