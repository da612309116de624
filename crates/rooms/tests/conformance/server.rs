//! A Redis server for one test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Sets the run of a room to a value that no server process has.
const FORGET_RUN: &str =
    "if redis.call('HEXISTS', KEYS[1], 'run') == 1 then redis.call('HSET', KEYS[1], 'run', '-') end";

/// A Redis process that ends when dropped.
pub(crate) struct Server {
    child: Child,
    dir: TempDir,
    port: u16,
    cluster: bool,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::started(false)
    }

    /// Starts a replica and waits until it has synchronized with `master`.
    pub(crate) async fn start_replica_of(master: &Self) -> Self {
        master.cli(&["config", "set", "repl-diskless-sync-delay", "0"]);
        let replica = Self::start();
        replica.cli(&["replicaof", "127.0.0.1", &master.port.to_string()]);
        let start = Instant::now();
        while !replica.cli(&["info", "replication"]).contains("master_link_status:up") {
            assert!(start.elapsed() < Duration::from_secs(10), "the replica does not synchronize");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        replica
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts a cluster of one server. Like any cluster it rejects scripts with keys of different
    /// slots.
    pub(crate) fn start_cluster() -> Self {
        Self::started(true)
    }

    fn started(cluster: bool) -> Self {
        let dir = TempDir::new().unwrap();
        let port = free_port();
        let mut server = Self { child: spawn(&dir, port, cluster), dir, port, cluster };
        server.wait();
        server
    }

    /// Kills the server and restarts it without its data, or with the data that it has saved.
    pub(crate) fn restart_empty(&mut self) {
        self.stop();
        self.child = spawn(&self.dir, self.port, self.cluster);
        self.wait();
    }

    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pause(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGSTOP).unwrap();
    }

    pub(crate) fn resume(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGCONT).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        let kind = if self.cluster { "redis-cluster" } else { "redis" };
        format!("{kind}://127.0.0.1:{}", self.port)
    }

    /// Marks a room as last written by another server process.
    pub(crate) fn forget_run(&self, room: &str) {
        self.cli(&["eval", FORGET_RUN, "1", &format!("sig:{{{room}}}:meta")]);
    }

    /// Returns the output of `redis-cli`.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns the largest mean time of any kind of command. The maximum would depend on the load
    /// of the machine.
    pub(crate) fn slowest(&self) -> Duration {
        let stats = self.cli(&["info", "commandstats"]);
        let means = stats.split(',').filter_map(|field| field.strip_prefix("usec_per_call="));
        let slowest = means.map(|mean| mean.parse::<f64>().unwrap()).fold(0.0, f64::max);
        Duration::from_secs_f64(slowest / 1e6)
    }

    fn wait(&mut self) {
        let ready = || match self.cluster {
            false => self.cli(&["ping"]) == "PONG",
            true => {
                self.cli(&["cluster", "addslotsrange", "0", "16383"]);
                self.cli(&["cluster", "info"]).contains("cluster_state:ok")
            }
        };
        let start = Instant::now();
        while !ready() {
            assert!(start.elapsed() < Duration::from_secs(10), "redis-server does not start");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port without a listener.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(dir: &TempDir, port: u16, cluster: bool) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--cluster-enabled", if cluster { "yes" } else { "no" }]);
    command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("redis-server is installed")
}
