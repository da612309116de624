//! Several processes that put one load on the mesh, for `steady`, `calls` and `idle`.
//! The first process starts the others with its own command line and `--share NUMBER`. It sends
//! nothing itself, and they end with it. Each worker connects its clients, prints `ready` and waits
//! until all are ready. At the end it prints its [`Record`] as one line of JSON, and the first
//! process adds these up. With `--processes 1` the first process does the work itself.

use std::io::{self, BufRead as _};
use std::ops::Range;
use std::process::{self, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy, sink};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::driver::progress;
use crate::record::Record;

/// Processes of a load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct WorkerOptions {
    /// Number of processes that share the clients and the rate (1 to 64); each opens at most as
    /// many sockets as `ulimit -n` allows
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Number of this process among the load processes, from 0
    #[arg(long, hide = true)]
    pub(crate) share: Option<u32>,
}

impl WorkerOptions {
    /// Returns the mean number of clients of a worker, rounded up. The largest worker may have two
    /// more, since pairs stay together.
    pub(crate) fn clients_of_one(&self, clients: u32) -> u32 {
        clients.div_ceil(self.processes)
    }

    /// Runs the load. `part` connects, passes the gate and does one process's part. Returns the sum
    /// of the records; `None` in a worker, which prints its record. Fails if a part fails, or a
    /// worker cannot be started or ends early.
    pub(crate) async fn work(&self, part: impl AsyncFnOnce(Share, Gate) -> Result<Record>) -> Result<Option<Record>> {
        match self.share {
            Some(number) => {
                let share = Share { number, of: self.processes };
                let record = part(share, Gate::of_worker()?).await?;
                println!("{}", serde_json::to_string(&record)?);
                Ok(None)
            }
            None if self.processes == 1 => part(Share { number: 0, of: 1 }, Gate(None)).await.map(Some),
            None => work(self.processes).await.map(Some),
        }
    }
}

/// A process's part of the load: `number`, from 0, of `of` parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) number: u32,
    pub(crate) of: u32,
}

impl Share {
    fn all(processes: u32) -> impl Iterator<Item = Self> {
        (0..processes).map(move |number| Self { number, of: processes })
    }

    /// Returns its part of `total` items, disjoint from all others; may be empty.
    pub(crate) fn of(self, total: u64) -> Range<u64> {
        let bound = |number: u32| total * u64::from(number) / u64::from(self.of);
        bound(self.number)..bound(self.number + 1)
    }

    /// Returns its part of a rate per second. Fails if this part would be 0.
    pub(crate) fn of_rate(self, rate: u64) -> Result<u64> {
        let Range { start, end } = self.of(rate);
        ensure!(start < end, "--rate {rate} is too low for {} processes", self.of);
        Ok(end - start)
    }

    /// Returns its part of the clients. A pair of an even client and the next one stays together.
    pub(crate) fn of_clients(self, clients: u32) -> Range<u32> {
        let Range { start, end } = self.of(u64::from(clients / 2));
        let bound = |pairs: u64| u32::try_from(2 * pairs).unwrap_or(clients);
        bound(start)..if self.number + 1 == self.of { clients } else { bound(end) }
    }
}

const READY: &str = "ready";
const GO: &str = "go\n";

/// Holds a worker until all have connected. `None`: there is only one process.
pub(crate) struct Gate(Option<oneshot::Receiver<()>>);

impl Gate {
    /// Returns a gate that the first process opens. This process ends with the first one.
    fn of_worker() -> Result<Self> {
        let (open, opened) = oneshot::channel();
        let thread = thread::Builder::new().name("first-process".to_owned());
        thread.spawn(|| follow_first_process(open)).context("cannot start a thread")?;
        Ok(Self(Some(opened)))
    }

    /// Reports that this process is ready and waits until all are. Returns at once if it is the
    /// only one. Fails if the first one ends.
    pub(crate) async fn pass(self) -> Result<()> {
        let Some(opened) = self.0 else { return Ok(()) };
        println!("{READY}");
        opened.await.context("the process that started this one has ended")
    }
}

/// The first process holds the other end of standard input open for as long as it lives.
fn follow_first_process(open: oneshot::Sender<()>) {
    let mut input = io::stdin().lock();
    if input.read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {
        // Sending fails when the load has failed meanwhile; then the process ends by itself.
        let _ = open.send(());
        let _ = io::copy(&mut input, &mut io::sink());
    }
    // The reader of standard error has gone, and printing would panic.
    process::exit(1);
}

const MAX_ERROR_BYTES: u64 = 64 * 1024;
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

struct Worker {
    share: Share,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    errors: JoinHandle<String>,
}

async fn work(processes: u32) -> Result<Record> {
    let mut workers = Share::all(processes).map(Worker::start).collect::<Result<Vec<_>>>()?;
    let bar = progress(workers.len() as u64, "connecting");
    for worker in &mut workers {
        worker.wait_until_ready().await?;
        bar.inc(1);
    }
    drop(bar);
    for worker in &mut workers {
        let written = worker.input.write_all(GO.as_bytes()).await;
        written.with_context(|| format!("load process {} has ended", worker.share.number))?;
    }
    let bar = progress(workers.len() as u64, "working");
    bar.enable_steady_tick(REDRAW_INTERVAL);
    let mut working: JoinSet<Result<String>> = workers.into_iter().map(Worker::finish).collect();
    let mut records = Vec::new();
    while let Some(line) = working.join_next().await {
        let line = line.context("a load process was stopped")??;
        records.push(serde_json::from_str(&line).context("the record of a load process is malformed")?);
        bar.inc(1);
    }
    Record::sum(records)
}

impl Worker {
    fn start(share: Share) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe().context("cannot find the own program")?)
            .args(std::env::args_os().skip(1))
            .arg(format!("--share={}", share.number))
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
        anyhow::anyhow!("load process {} failed: {errors}", self.share.number)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_everything_once_and_about_equal_parts() {
        for (total, processes) in [(10, 3), (7, 7), (1_000_001, 16), (2, 5)] {
            let parts: Vec<_> = Share::all(processes).map(|share| share.of(total)).collect();

            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, total));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
            let sizes = || parts.iter().map(|part| part.end - part.start);
            assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    fn pairs_and_rates_are_shared_out() {
        let shares: Vec<Share> = Share::all(3).collect();

        let whole = Share { number: 0, of: 1 };
        let parts: Vec<_> = shares.iter().map(|share| share.of_clients(20)).collect();
        assert_eq!((parts, whole.of_clients(7)), (vec![0..6, 6..12, 12..20], 0..7));
        let rates: Vec<u64> = shares.iter().map(|share| share.of_rate(10).unwrap()).collect();
        assert_eq!(rates, [3, 3, 4]);
        assert!(shares.iter().any(|share| share.of_rate(2).is_err()));
    }
}
