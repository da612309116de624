//! A Redis or Valkey for one test. `integration-tests` has this file too.

#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "test code"
)]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use tempfile::TempDir;

/// Variable with the program of the server in place of those of the path, such as `valkey-server`.
const SERVER_VARIABLE: &str = "JOURNAL_SERVER";
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];
const COMMAND_LINES: [&str; 2] = ["redis-cli", "valkey-cli"];

const IN_CLUSTER: &[&str] = &["--cluster-enabled", "yes"];
const SENTINEL: &[&str] = &["sentinel.conf", "--sentinel"];
/// Name of the primary at its sentinel.
const PRIMARY: &str = "rooms";
/// Time limit of each wait for a server. A longer wait panics.
const LIMIT: Duration = Duration::from_secs(20);

/// A process of Redis on a free port of 127.0.0.1, without password. It ends when dropped.
pub struct Server {
    child: Child,
    dir: TempDir,
    pub port: u16,
    programs: Programs,
    is_in_cluster: bool,
}

#[derive(Clone)]
struct Programs {
    server: String,
    command_line: String,
}

impl Programs {
    /// Returns the programs of this machine. Without one, reports that the test is skipped, and
    /// returns `None`. Panics instead with `CI=true`.
    fn find() -> Option<Self> {
        let runs = |name: &String| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
        let first = |names: [&str; 2]| names.into_iter().map(str::to_owned).find(runs);
        let server = env::var(SERVER_VARIABLE).ok().or_else(|| first(SERVERS));
        let found = server.zip(first(COMMAND_LINES));
        if found.is_none() {
            assert!(env::var("CI").as_deref() != Ok("true"), "with CI=true redis-server and redis-cli must be there");
            eprintln!("skipped: no redis-server, or no redis-cli");
        }
        found.map(|(server, command_line)| Self { server, command_line })
    }
}

impl Server {
    /// Starts a server, and waits until it answers, at most 20 s. Returns `None` on a machine
    /// without one: the test is skipped. Panics instead with `CI=true`.
    pub fn start() -> Option<Self> {
        Some(Self::started(&Programs::find()?, &[]))
    }

    /// Starts a cluster of one server, which rejects scripts with keys of different slots.
    pub fn start_cluster() -> Option<Self> {
        let mut server = Self::started(&Programs::find()?, IN_CLUSTER);
        server.is_in_cluster = true;
        server.cli(&["cluster", "addslotsrange", "0", "16383"]);
        server.wait_until("the cluster is up", || server.cli(&["cluster", "info"]).contains("cluster_state:ok"));
        Some(server)
    }

    /// Starts a replica of this server, and waits until it has its content.
    pub fn start_replica(&self) -> Self {
        self.cli(&["config", "set", "repl-diskless-sync-delay", "0"]);
        let replica = Self::started(&self.programs, &[]);
        replica.cli(&["replicaof", "127.0.0.1", &self.port.to_string()]);
        replica.wait_until("the replica is in sync", || replica.cli(&["role"]).contains("connected"));
        replica
    }

    /// Starts a sentinel that watches this server alone, with its replicas.
    pub fn start_sentinel(&self) -> Self {
        let (dir, port) = (TempDir::new().unwrap(), free_port());
        let config = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {PRIMARY} 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds {PRIMARY} 500\nsentinel failover-timeout {PRIMARY} 5000\n",
            self.port
        );
        fs::write(dir.path().join("sentinel.conf"), config).unwrap();
        Self::run(&self.programs, dir, port, SENTINEL)
    }

    fn started(programs: &Programs, mode: &[&str]) -> Self {
        let port = free_port();
        let common = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        Self::run(programs, TempDir::new().unwrap(), port, &[&common, mode].concat())
    }

    fn run(programs: &Programs, dir: TempDir, port: u16, arguments: &[&str]) -> Self {
        let mut command = Command::new(&programs.server);
        command.args(arguments).current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let server = Self { child, dir, port, programs: programs.clone(), is_in_cluster: false };
        server.wait_until("the server answers", || server.cli(&["ping"]) == "PONG");
        server
    }

    fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}, at port {}: {what}", self.port);
        }
    }

    /// Returns the URL of a journal: `redis-cluster://` for a server in a cluster.
    pub fn url(&self) -> String {
        let kind = if self.is_in_cluster { "redis-cluster" } else { "redis" };
        format!("{kind}://127.0.0.1:{}", self.port)
    }

    /// Returns the URL of a journal behind this sentinel.
    pub fn sentinel_url(&self) -> String {
        format!("redis-sentinel://127.0.0.1:{}/{PRIMARY}", self.port)
    }

    /// Returns the trimmed standard output of the server's command line, with errors of the server.
    /// It is empty without a connection. The exit status is ignored.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.programs.command_line);
        let output = command.args(["-p", &self.port.to_string()]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Pauses the process (SIGSTOP). Its connections stay open.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Continues the paused process (SIGCONT).
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that no process uses now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
