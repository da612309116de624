//! A sentinel for one test.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::{Server, free_port};

/// A sentinel process that ends when dropped.
pub(crate) struct Sentinel {
    child: Child,
    _dir: TempDir,
    port: u16,
    password: Option<&'static str>,
}

impl Sentinel {
    /// Starts a sentinel that watches `master` alone, under the name `rooms`. `password` is for the
    /// sentinel and the master.
    pub(crate) fn watching(master: &Server, password: Option<&'static str>) -> Self {
        let (dir, port) = (TempDir::new().unwrap(), free_port());
        let mut config = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor rooms 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds rooms 500\nsentinel failover-timeout rooms 5000\n",
            master.port()
        );
        if let Some(password) = password {
            config.push_str(&format!("requirepass own-{password}\nsentinel auth-pass rooms {password}\n"));
        }
        let path = dir.path().join("sentinel.conf");
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&path).arg("--sentinel").current_dir(dir.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, _dir: dir, port, password }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the sentinel's answer about `rooms` contains `part`.
    pub(crate) async fn wait_for(&self, question: &str, part: &str) {
        let start = Instant::now();
        loop {
            let mut command = Command::new("redis-cli");
            command.args(["-p", &self.port.to_string()]);
            if let Some(password) = self.password {
                command.args(["--no-auth-warning", "-a", &format!("own-{password}")]);
            }
            let output = command.args(["sentinel", question, "rooms"]).output().unwrap();
            let answer = String::from_utf8(output.stdout).unwrap();
            if answer.contains(part) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{question}: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
