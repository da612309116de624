//! Real signals to a real process: this test binary, started again as a server that only waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signaling_server::Shutdown;
use tokio::time::timeout;

const ROLE: &str = "SIGNALING_TEST_SERVER";

#[test]
fn first_signal_drains_and_a_drained_server_ends_well() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start("ends when drained");
        server.says("running");
        server.send(signal);
        server.says("draining");
        server.says("stopped");
        assert!(server.child.wait().unwrap().success());
    }
}

#[test]
fn second_signal_exits_at_once() {
    for (second, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let mut server = Server::start("drains for ever");
        server.says("running");
        server.send(Signal::SIGTERM);
        server.says("draining");
        server.send(second);
        assert_eq!(server.child.wait().unwrap().code(), Some(code));
    }
}

/// The started process. Without the variable it does nothing. It ends after 20 s at the latest.
#[tokio::test]
async fn role_of_the_server() {
    if let Ok(role) = env::var(ROLE) {
        timeout(Duration::from_secs(20), serve(&role)).await.expect("this server was not ended");
    }
}

async fn serve(role: &str) {
    let shutdown = Shutdown::install().unwrap();
    say("running");
    shutdown.begun().await;
    say("draining");
    if role != "ends when drained" {
        std::future::pending::<()>().await;
    }
    say("stopped");
}

fn say(word: &str) {
    println!("\nserver: {word}");
}

struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "role_of_the_server", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Reads on until the server says this.
    fn says(&mut self, word: &str) {
        let wanted = format!("server: {word}");
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server ended before {word:?}");
        }
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
