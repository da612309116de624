//! A Redis of a test's own.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Takes another name than any server process has.
const FORGET_RUN: &str =
    "if redis.call('HEXISTS', KEYS[1], 'run') == 1 then redis.call('HSET', KEYS[1], 'run', '-') end";

/// Ends when dropped.
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

    /// A replica that has synchronized with `master`.
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

    /// A cluster of one server, which refuses keys of different slots in one script like any other.
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

    /// Stops it without a word, and starts it again without its data, or with what it has saved by then.
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

    pub(crate) fn go_on(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGCONT).unwrap();
    }

    pub(crate) fn url(&self) -> String {
        let kind = if self.cluster { "redis-cluster" } else { "redis" };
        format!("{kind}://127.0.0.1:{}", self.port)
    }

    /// A room seems to have been written last by another server process.
    pub(crate) fn forget_run(&self, room: &str) {
        self.cli(&["eval", FORGET_RUN, "1", &format!("sig:{{{room}}}:meta")]);
    }

    /// What `redis-cli` says.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The longest mean time that any kind of command took. The longest time alone would show when the machine was busy.
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

/// A port that nothing listens on.
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
