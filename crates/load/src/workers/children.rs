use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, sink};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::{JoinHandle, JoinSet};

use super::Share;
use super::gate::{GO, READY};
use crate::progress::progress;
use crate::record::Record;

/// Maximum kept standard error of one worker.
const MAX_ERROR_BYTES: u64 = 64 * 1024;
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// A worker, which ends with this process.
struct Worker {
    share: Share,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    errors: JoinHandle<String>,
}

/// Starts workers with `more` arguments, opens their gate and adds up their records.
pub(super) async fn work(processes: u32, more: &[String]) -> Result<Record> {
    let mut workers = Share::all(processes).map(|share| Worker::start(share, more)).collect::<Result<Vec<_>>>()?;
    let bar = progress(workers.len() as u64, "connecting");
    for worker in &mut workers {
        worker.wait_until_ready().await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    for worker in &mut workers {
        let written = worker.input.write_all(GO.as_bytes()).await;
        written.with_context(|| format!("load process {} has ended", worker.share))?;
    }
    let bar = progress(workers.len() as u64, "working");
    bar.enable_steady_tick(REDRAW_INTERVAL);
    let mut working: JoinSet<Result<String>> = workers.into_iter().map(Worker::finish).collect();
    let mut sum = Record::default();
    while let Some(line) = working.join_next().await {
        let line = line.context("a load process was stopped")??;
        sum.absorb(serde_json::from_str(&line).context("the record of a load process is malformed")?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(sum)
}

impl Worker {
    fn start(share: Share, more: &[String]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe().context("cannot find the own program")?)
            .args(std::env::args_os().skip(1))
            .args(more)
            .arg(format!("--share={share}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a load process")?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(stdout), Some(stderr)) = pipes else { bail!("a load process has no pipes") };
        Ok(Self { share, child, input, output: BufReader::new(stdout), errors: tokio::spawn(read_errors(stderr)) })
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line).await?;
        if line.trim_end() == READY { Ok(()) } else { Err(self.failure().await) }
    }

    /// Returns the line that it prints at the end.
    async fn finish(mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).await?;
        let ended = self.child.wait().await?;
        if !ended.success() || line.is_empty() {
            return Err(self.failure().await);
        }
        Ok(line)
    }

    async fn failure(&mut self) -> anyhow::Error {
        let errors = (&mut self.errors).await.unwrap_or_default();
        anyhow::anyhow!("load process {} failed: {errors}", self.share)
    }
}

/// Reads everything, so that a worker never blocks, and keeps the start.
async fn read_errors(mut stderr: ChildStderr) -> String {
    let mut text = Vec::new();
    // A read error leaves the text as it is; the exit status shows the failure.
    let _ = (&mut stderr).take(MAX_ERROR_BYTES).read_to_end(&mut text).await;
    let _ = copy(&mut stderr, &mut sink()).await;
    String::from_utf8_lossy(&text).trim().to_owned()
}
