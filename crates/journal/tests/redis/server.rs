//! A Redis server for one test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const CLUSTER: &[&str] = &["--cluster-enabled", "yes"];
const SENTINEL: &[&str] = &["sentinel.conf", "--sentinel"];
/// Time limit of each wait for a server. A longer wait panics.
const LIMIT: Duration = Duration::from_secs(20);

/// A process of Redis that ends when dropped.
pub(crate) struct Server {
    child: Child,
    _dir: TempDir,
    port: u16,
    /// Arguments of `redis-server` besides the common ones.
    mode: &'static [&'static str],
}

impl Server {
    /// Starts a server without password on a free port, and waits until it answers, at most 20 s.
    pub(crate) fn start() -> Self {
        Self::started(TempDir::new().unwrap(), free_port(), &[])
    }

    /// Starts a cluster of one server, which rejects scripts with keys of different slots.
    pub(crate) fn start_cluster() -> Self {
        let server = Self::started(TempDir::new().unwrap(), free_port(), CLUSTER);
        server.cli(&["cluster", "addslotsrange", "0", "16383"]);
        let start = Instant::now();
        while !server.cli(&["cluster", "info"]).contains("cluster_state:ok") {
            assert!(start.elapsed() < LIMIT, "the cluster is not up within {LIMIT:?}");
        }
        server
    }

    /// Starts a sentinel that watches `master` alone, under the name `rooms`.
    pub(crate) fn start_sentinel(master: &Self) -> Self {
        let (dir, port) = (TempDir::new().unwrap(), free_port());
        let config = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor rooms 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds rooms 500\nsentinel failover-timeout rooms 5000\n",
            master.port
        );
        std::fs::write(dir.path().join("sentinel.conf"), config).unwrap();
        Self::started(dir, port, SENTINEL)
    }

    /// Starts a server and waits until it answers, at most 20 s.
    fn started(dir: TempDir, port: u16, mode: &'static [&'static str]) -> Self {
        let mut server = Self { child: spawn(&dir, port, mode), _dir: dir, port, mode };
        server.wait();
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Pauses the process (SIGSTOP). Its connections stay open.
    pub(crate) fn pause(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGSTOP).unwrap();
    }

    /// Continues the paused process (SIGCONT).
    pub(crate) fn resume(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGCONT).unwrap();
    }

    /// Returns the URL of a journal, without a password: `redis-cluster://` or `redis://`.
    pub(crate) fn url(&self) -> String {
        let kind = if self.mode == CLUSTER { "redis-cluster" } else { "redis" };
        format!("{kind}://127.0.0.1:{}", self.port)
    }

    /// Returns the trimmed standard output of `redis-cli`, with errors of the server. It is empty
    /// without a connection. The exit status is ignored.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let port = self.port.to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn wait(&mut self) {
        let start = Instant::now();
        while self.cli(&["ping"]) != "PONG" {
            assert!(start.elapsed() < LIMIT, "redis-server has not answered within {LIMIT:?}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port of 127.0.0.1 that no process uses now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(dir: &TempDir, port: u16, mode: &[&str]) -> Child {
    let mut command = Command::new("redis-server");
    command.args(mode);
    if mode != SENTINEL {
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    }
    command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}
