use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::launch::CommandLine;
use crate::roster::Ending;

/// A child process. Dropping the value kills it; with `setpriv` the death of this process does
/// too.
pub(crate) struct Process {
    pid: u32,
    ending: watch::Receiver<Option<Ending>>,
}

impl Process {
    /// Starts it with output to `log`, in its own process group, so that a Ctrl-C reaches only
    /// this process.
    pub(crate) fn start(line: &CommandLine, log: &Path, setpriv: Option<&Path>) -> Result<Self> {
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = match setpriv {
            // `setpriv` becomes the program, so the process id stays. The death signal follows the
            // thread that starts the process; threads of the runtime last as long as the mesh.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(&line.program);
                command
            }
            None => Command::new(&line.program),
        };
        command
            .args(&line.arguments)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {}", line.program.display()))?;
        let Some(pid) = child.id() else { bail!("{} ended during its start", line.program.display()) };
        let (sender, ending) = watch::channel(None);
        tokio::spawn(watch_over(child, sender));
        Ok(Self { pid, ending })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns a receiver that holds the ending once the process has ended.
    pub(crate) fn ending(&self) -> watch::Receiver<Option<Ending>> {
        self.ending.clone()
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if self.ending.borrow().is_some() {
            bail!("the process has ended");
        }
        let pid = i32::try_from(self.pid).context("a process id out of range")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("cannot send {signal} to process {pid}"))
    }
}

/// Returns `true` if every thread of a process has stopped. SIGSTOP reaches each at its own time.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        // No caller could handle a failure, which usually means that the process has just ended.
        let _ = self.signal(Signal::SIGKILL);
    }
}

async fn watch_over(mut child: Child, ending: watch::Sender<Option<Ending>>) {
    let text = match child.wait().await {
        Ok(status) => describe(status),
        Err(error) => Ending { clean: false, text: format!("ended unobserved: {error}") },
    };
    ending.send_replace(Some(text));
}

fn describe(status: ExitStatus) -> Ending {
    let text = match (status.code(), status.signal()) {
        (Some(0), _) => "exited".to_owned(),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => match Signal::try_from(signal) {
            Ok(signal) => format!("killed by {signal}"),
            Err(_) => format!("killed by signal {signal}"),
        },
        (None, None) => status.to_string(),
    };
    Ending { clean: status.success(), text }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;

    use super::*;

    fn start(script: &str) -> (Process, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let line = CommandLine { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".into(), script.into()] };
        let setpriv = crate::binaries::find_in_path("setpriv");
        let process = Process::start(&line, &dir.path().join("log"), setpriv.as_deref()).unwrap();
        (process, dir)
    }

    async fn ending(mut watch: watch::Receiver<Option<Ending>>) -> Ending {
        watch.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    #[tokio::test]
    async fn process_writes_its_log_and_reports_its_exit_code() {
        let (process, dir) = start("echo out; echo err >&2; exit 3");

        let ending = ending(process.ending()).await;

        assert_eq!(ending, Ending { clean: false, text: "exited with code 3".into() });
        assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap(), "out\nerr\n");
    }

    #[tokio::test]
    async fn process_id_is_that_of_the_program() {
        let (process, dir) = start("echo $$");

        ending(process.ending()).await;

        assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap(), format!("{}\n", process.pid()));
    }

    #[tokio::test]
    async fn process_is_killed_when_dropped() {
        let (process, _dir) = start("exec sleep 1000");
        let watch = process.ending();

        drop(process);

        assert_eq!(ending(watch).await.text, "killed by SIGKILL");
    }

    #[tokio::test]
    async fn signal_is_refused_when_the_process_has_ended() {
        let (process, _dir) = start("exit 0");
        ending(process.ending()).await;

        assert!(process.signal(Signal::SIGTERM).is_err());
    }
}
