//! Child processes with a log: servers of a mesh, and programs beside it, such as proxies.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::binaries::find_in_path;
use crate::folder::log_tail;

/// Text of [`Process::ended`] for exit code 0.
pub(crate) const EXITED: &str = "exited";
/// Maximum time until a program beside the mesh is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A child process, the leader of its own process group. It is killed when the Tokio runtime that
/// started it ends. With an installed `setpriv` it receives a signal when the thread that started
/// it ends, even if this process is killed. A clone refers to the same process.
#[derive(Clone)]
pub(crate) struct Process {
    /// Process id. The system can give it to another process after the end.
    pub(crate) pid: u32,
    /// How it ended, as [`Process::ended`] returns it. `None` while it runs.
    ending: watch::Receiver<Option<String>>,
}

impl Process {
    /// Starts a program, the first word of `line`, with its arguments and without input. Appends
    /// its output and errors to `log`, which is created if it is missing. With an installed
    /// `setpriv` it receives `death_signal`, such as `KILL`, at the end of the thread that starts
    /// it.
    ///
    /// # Errors
    /// If `line` is empty, the program cannot start, or the log cannot be written. With `setpriv`,
    /// a missing program or an unknown signal is no error: the process exits with a code above 0.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub(crate) fn start(line: &[OsString], log: &Path, death_signal: &str) -> Result<Self> {
        let program = line.first().context("no program to start")?;
        let cannot_start = || format!("cannot start {}", Path::new(program).display());
        let out = OpenOptions::new().create(true).append(true).open(log);
        let out = out.with_context(|| format!("cannot write {}", log.display()))?;
        let mut words = line.to_vec();
        if let Some(setpriv) = find_in_path("setpriv") {
            // `setpriv` becomes the program, so the process id stays.
            words.splice(..0, [setpriv.into(), "--pdeathsig".into(), death_signal.into(), "--".into()]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        // A Ctrl-C does not reach another process group.
        command.process_group(0).kill_on_drop(true);
        let child = command.spawn().with_context(cannot_start)?;
        let pid = child.id().with_context(cannot_start)?;
        let (sender, ending) = watch::channel(None);
        tokio::spawn(watch_over(child, sender));
        Ok(Self { pid, ending })
    }

    /// Waits for its end, or returns at once if it has ended. Returns how it ended: `exited` (code
    /// 0), `exited with code 3`, `killed by SIGKILL`, or another text if the system does not report
    /// it.
    pub(crate) async fn ended(&self) -> String {
        let mut ending = self.ending.clone();
        let ended = ending.wait_for(Option::is_some).await;
        ended.ok().and_then(|ending| ending.clone()).unwrap_or_else(|| "ended unobserved".to_owned())
    }

    /// Sends a signal to the process group: to the process, and to children in the same group.
    ///
    /// # Errors
    /// If the process has ended, or the system refuses the signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.ending.borrow().is_none(), "the process has ended");
        let pid = i32::try_from(self.pid).context("a process id out of range")?;
        killpg(Pid::from_raw(pid), signal).with_context(|| format!("cannot send {signal} to process {pid}"))
    }

    /// Returns `true` if SIGSTOP has stopped every thread. It reaches each at its own time.
    /// `false`: a thread runs, or the process has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        let threads = procfs::process::Process::new(self.pid.cast_signed()).and_then(|process| process.tasks());
        let is_stopped = |thread: procfs::process::Task| thread.stat().is_ok_and(|stat| stat.state == 'T');
        threads.is_ok_and(|threads| threads.flatten().all(is_stopped))
    }
}

/// A program beside a mesh, such as a proxy. Dropping it kills its process group. With an installed
/// `setpriv` it receives SIGTERM at the end of the thread that started it.
pub struct Service(Process);

impl Service {
    /// Starts a program, the first word of `line`, with its arguments, and waits for `ready`, whose
    /// value it returns too. Appends output and errors to `log`.
    ///
    /// # Errors
    /// If the program cannot start; also, with the last 8 lines of the log, if it ends before
    /// `ready`, or `ready` takes over 60 s. The program is killed then.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn start<T>(line: &[OsString], log: &Path, ready: impl Future<Output = T>) -> Result<(Self, T)> {
        // A stopped master also stops its workers; a killed one leaves them behind.
        let service = Self(Process::start(line, log, "TERM")?);
        let problem = tokio::select! {
            value = ready => return Ok((service, value)),
            ending = service.0.ended() => ending,
            () = sleep(READY_TIMEOUT) => format!("it is not ready after {READY_TIMEOUT:?}"),
        };
        bail!("{line:?}: {problem}:\n  {}", log_tail(log))
    }

    /// Returns the process id. The system can give it to another process after the end.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // No caller could handle a failure, which usually means that it has ended.
        let _ = self.0.signal(Signal::SIGKILL);
    }
}

async fn watch_over(mut child: Child, ending: watch::Sender<Option<String>>) {
    let text = match child.wait().await {
        Ok(status) => describe(status),
        Err(error) => format!("ended unobserved: {error}"),
    };
    ending.send_replace(Some(text));
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal().map(Signal::try_from)) {
        (Some(0), _) => EXITED.to_owned(),
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(Ok(signal))) => format!("killed by {signal}"),
        (None, _) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use procfs::process::{Stat, all_processes};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn process_logs_and_reports_its_id_and_exit_code() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let line = ["/bin/sh", "-c", "echo $$; echo err >&2; exit 3"].map(OsString::from);

        let process = Process::start(&line, &log, "KILL").unwrap();

        assert_eq!(process.ended().await, "exited with code 3");
        assert_eq!(std::fs::read_to_string(log).unwrap(), format!("{}\nerr\n", process.pid));
        assert!(process.signal(Signal::SIGTERM).is_err(), "it has ended");
    }

    #[tokio::test]
    async fn service_that_exits_at_once_is_an_error_with_its_output() {
        let dir = tempfile::tempdir().unwrap();
        let line = ["/bin/sh", "-c", "echo 'bad line 3' >&2; exit 2"].map(OsString::from);

        let service = Service::start(&line, &dir.path().join("log"), pending::<()>()).await;

        let error = service.err().unwrap().to_string();
        assert!(error.ends_with(": exited with code 2:\n  bad line 3"), "{error}");
    }

    #[tokio::test]
    async fn children_of_a_service_end_when_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let line = ["/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait"].map(OsString::from);
        let (service, ()) = Service::start(&line, &dir.path().join("log"), async {}).await.unwrap();
        let group = service.pid();
        until_running(group, 3).await;

        drop(service);

        until_running(group, 0).await;
    }

    /// Waits until a process group has this number of running processes, at most 20 s.
    async fn until_running(group: u32, count: usize) {
        let runs = |stat: &Stat| stat.pgrp.cast_unsigned() == group && stat.state != 'Z';
        let stats = || all_processes().unwrap().filter_map(|process| process.ok()?.stat().ok());
        let reached = async {
            while stats().filter(runs).count() != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), reached).await.unwrap();
    }
}
