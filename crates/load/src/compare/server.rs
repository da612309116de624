use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signaling_devmesh::find_in_path;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::sleep;

/// Maximum time from a server's start until it accepts connections.
const READY_WITHIN: Duration = Duration::from_secs(10);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// Number of log lines shown of a server that did not start.
const LOG_LINES: usize = 5;

/// A server with all its processes, which are killed when this value is dropped.
pub(super) struct Server {
    child: Child,
    /// Leader of a process group, which its children stay in.
    pid: u32,
}

impl Server {
    /// Starts it, with its output in `log`, and waits until it accepts connections.
    pub(super) async fn start(program: &Path, arguments: &[&OsStr], log: &Path, address: SocketAddr) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = match find_in_path("setpriv") {
            // A stopped master also stops its workers; a killed one leaves them behind.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "TERM", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(arguments).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.process_group(0).kill_on_drop(true).spawn();
        let child = child.with_context(|| format!("cannot start {}", program.display()))?;
        let pid = child.id().with_context(|| format!("{} ended at once", program.display()))?;
        let mut server = Self { child, pid };
        server.accepts(address).await.with_context(|| format!("{}:{}", program.display(), tail(log)))?;
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    async fn accepts(&mut self, address: SocketAddr) -> Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        while TcpStream::connect(address).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}");
            }
            if Instant::now() > give_up {
                bail!("it does not accept connections at {address} after {READY_WITHIN:?}");
            }
            sleep(BETWEEN_TRIES).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // No caller could handle a failure, which usually means that all of them have ended.
        if let Ok(group) = i32::try_from(self.pid) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;

    use tempfile::TempDir;

    use super::*;
    use crate::procfs::{family, usage};

    /// Starts a shell as a server. With `is_ready` the test listens at its address.
    async fn start(script: &str, is_ready: bool) -> (Result<Server>, TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _listener = is_ready.then_some(listener);
        let arguments = ["-c".as_ref(), script.as_ref()];
        (Server::start(Path::new("/bin/sh"), &arguments, &dir.path().join("log"), address).await, dir)
    }

    async fn eventually(is_so: impl Fn() -> bool) {
        let give_up = Instant::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Instant::now() < give_up, "not so after 10 s");
            sleep(BETWEEN_TRIES).await;
        }
    }

    #[tokio::test]
    async fn whole_family_ends_when_the_value_is_dropped() {
        let (server, _dir) = start("sleep 1000 & sleep 1000 & wait", true).await;
        let server = server.unwrap();
        eventually(|| family(server.pid()).len() == 3).await;
        let members = family(server.pid());

        drop(server);

        let is_over = |pid: &u32| usage(*pid).is_none();
        eventually(|| members.iter().all(is_over)).await;
    }

    #[tokio::test]
    async fn server_that_exits_at_once_is_an_error_with_its_output() {
        let (server, _dir) = start("echo 'bad line 3' >&2; exit 2", false).await;

        let error = format!("{:#}", server.err().unwrap());

        assert!(error.contains("bad line 3") && error.contains("exit status: 2"), "{error}");
    }
}
