//! Several processes that put one load on the mesh.
//!
//! The first process starts the others with its own command line and `--share NUMBER/OF`. It sends
//! nothing itself, and they end with it. Each worker connects its clients, prints `ready` and waits
//! until all are ready. At the end it prints its [`Record`] as one line of JSON, and the first
//! process adds these up. With `--processes 1` the first process does the work itself.

mod children;
mod gate;
mod share;

use anyhow::Result;
use clap::Args;

use crate::record::Record;

pub(crate) use gate::Gate;
pub(crate) use share::Share;

/// Processes of a load.
#[derive(Clone, Debug, Args)]
pub struct WorkerOptions {
    /// Load processes that share the clients and the rate; each has as many sockets as `ulimit -n`
    /// allows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub processes: u32,
    /// Part of the load that this process puts on.
    #[arg(long, hide = true)]
    pub share: Option<Share>,
}

impl WorkerOptions {
    /// Returns the number of clients of the worker that has the most.
    pub(crate) fn clients_of_one(&self, clients: u32) -> u32 {
        clients.div_ceil(self.processes)
    }

    /// Puts the load on. `part` connects, passes the gate and does one process's part. Workers get
    /// `more` arguments behind this process's own. Returns `None` in a worker.
    pub(crate) async fn work(
        &self,
        more: &[String],
        part: impl AsyncFnOnce(Share, Gate) -> Result<Record>,
    ) -> Result<Option<Record>> {
        match self.share {
            Some(share) => {
                let record = part(share, Gate::of_worker()?).await?;
                println!("{}", serde_json::to_string(&record)?);
                Ok(None)
            }
            None if self.processes == 1 => part(Share::WHOLE, Gate::open()).await.map(Some),
            None => children::work(self.processes, more).await.map(Some),
        }
    }
}
