//! A Redis for a journal of rooms.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use signaling_devmesh::find_in_path;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::{program, within};

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running `redis-server` on a free port. It ends when dropped.
pub struct Redis {
    process: Child,
    cli: PathBuf,
    _dir: TempDir,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Redis {
    /// Starts a server, and waits until it answers. Returns `None` without one, as [`program`].
    pub async fn start() -> Option<Self> {
        let server = program(&["redis-server", "valkey-server"], "redis-server")?;
        let cli = find_in_path("redis-cli").or_else(|| find_in_path("valkey-cli")).expect("the server's command line");
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(server);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.current_dir(dir.path()).stdout(Stdio::null()).kill_on_drop(true);
        let redis = Self { process: command.spawn().unwrap(), cli, _dir: dir, port };
        let answers = async || (redis.cli(&["ping"]).await == "PONG").then_some(());
        within(START_TIMEOUT, "redis-server to answer", answers).await;
        Some(redis)
    }

    /// Returns the flag of nodes that write to it.
    pub fn flag(&self) -> String {
        format!("--room-journal=redis://127.0.0.1:{}", self.port)
    }

    /// Returns the trimmed standard output of `redis-cli` with these arguments.
    pub async fn cli(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.cli);
        let output = command.args(["-p", &self.port.to_string()]).args(arguments).output().await.unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Sends it a signal by name, such as `STOP`.
    pub async fn signal(&self, name: &str) {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().await.unwrap().success());
    }
}
