use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, sink};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::{JoinHandle, JoinSet};

use super::gate::{GO, READY};
use super::{Gate, Share};
use crate::progress::progress;
use crate::record::Record;

/// What is kept of a process's complaints.
const MAX_COMPLAINT_BYTES: u64 = 64 * 1024;

/// How often the time that has passed is shown anew.
const REDRAW: Duration = Duration::from_secs(1);

/// The processes of a crew.
pub(super) struct Children(Vec<LoadProcess>);

/// One of them. It ends with this process.
struct LoadProcess {
    share: Share,
    child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
    complaints: JoinHandle<String>,
}

impl Children {
    /// Starts them with this process's own arguments and some more.
    pub(super) fn start(processes: u32, more: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the own program")?;
        let start = |share: Share| -> Result<LoadProcess> {
            let mut child = Command::new(&program)
                .args(std::env::args_os().skip(1))
                .args(more)
                .arg(format!("--share={share}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .context("cannot start a load process")?;
            let (tell, hear, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let (Some(tell), Some(hear), Some(stderr)) = (tell, hear, stderr) else {
                bail!("a load process has no pipes");
            };
            let complaints = tokio::spawn(complaints(stderr));
            Ok(LoadProcess { share, child, tell, hear: BufReader::new(hear), complaints })
        };
        Share::all(processes).map(start).collect::<Result<_>>().map(Self)
    }

    /// Waits until all are ready, opens the gate for all at once, and merges what they find.
    pub(super) async fn work(mut self, gate: Gate) -> Result<Record> {
        let bar = progress(self.0.len() as u64, "connecting");
        for process in &mut self.0 {
            process.wait_until_ready().await?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        for process in &mut self.0 {
            process
                .tell
                .write_all(GO.as_bytes())
                .await
                .with_context(|| format!("load process {} has gone", process.share))?;
        }
        gate.pass().await?;
        let bar = progress(self.0.len() as u64, "working");
        bar.enable_steady_tick(REDRAW);
        let mut working: JoinSet<Result<String>> = JoinSet::new();
        for process in self.0 {
            working.spawn(process.finish());
        }
        let mut whole: Option<Record> = None;
        while let Some(line) = working.join_next().await {
            let line = line.context("a load process was given up")??;
            let part: Record = serde_json::from_str(&line).context("a load process's findings are not understood")?;
            match &mut whole {
                Some(whole) => whole.absorb(part),
                None => whole = Some(part),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        whole.context("there is no load process")
    }
}

impl LoadProcess {
    async fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.hear.read_line(&mut line).await?;
        if line.trim_end() == READY { Ok(()) } else { Err(self.failure().await) }
    }

    /// The line that it writes in the end.
    async fn finish(mut self) -> Result<String> {
        let mut line = String::new();
        self.hear.read_line(&mut line).await?;
        let ended = self.child.wait().await?;
        if !ended.success() || line.is_empty() {
            return Err(self.failure().await);
        }
        Ok(line)
    }

    async fn failure(&mut self) -> anyhow::Error {
        let complaints = (&mut self.complaints).await.unwrap_or_default();
        anyhow::anyhow!("load process {} failed: {complaints}", self.share)
    }
}

/// Reads all that a process complains of, so that it never waits for a reader, and keeps the first of it.
async fn complaints(mut stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    // What cannot be read is not missed: the process has failed, or it has nothing to say.
    let _ = (&mut stderr).take(MAX_COMPLAINT_BYTES).read_to_end(&mut text).await;
    let _ = copy(&mut stderr, &mut sink()).await;
    String::from_utf8_lossy(&text).trim().to_owned()
}
