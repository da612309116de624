//! Several processes that put one load on the mesh together.
//!
//! The first process starts the others with its own command line and `--share NUMBER/OF`, and takes no part in the load
//! itself; they end when it does. Each of them connects its clients, says `ready` in one line and waits; once all are
//! ready they are told to go. In the end each writes what it has found as one line of JSON, and the first process merges
//! these. With `--processes 1` there is but this process, and the same code runs in it.

mod children;
mod gate;
mod share;

use anyhow::{Context, Result};
use clap::Args;
use tokio::sync::oneshot;

use crate::record::Record;
use children::Children;

pub(crate) use gate::Gate;
pub(crate) use share::Share;

/// Who puts the load on.
#[derive(Clone, Debug, Args)]
pub struct CrewOptions {
    /// Load processes that share the clients and the rate; one has as many sockets as `ulimit -n` allows.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub processes: u32,
    /// What this process is to do of it.
    #[arg(long, hide = true)]
    pub share: Option<Share>,
}

/// What the whole crew has found, and what was done beside the load.
pub(crate) struct Work<B> {
    pub(crate) record: Record,
    pub(crate) beside: B,
}

/// Fires once the load is over.
pub(crate) type Over = oneshot::Receiver<()>;

impl CrewOptions {
    /// How many of so many clients one process has at most.
    pub(crate) fn clients_of_one(&self, clients: u32) -> u32 {
        clients.div_ceil(self.processes)
    }

    /// Does the load, by as many processes as there are to be. `part` is what one of them does: it connects, passes the
    /// gate, and goes on. From the moment that the gate is open, `beside` runs in the first process alone.
    ///
    /// `more` stands on the command line of the other processes behind this one's own arguments. `None` comes out in
    /// such a process: what it found is written already, and there is nothing to report.
    pub(crate) async fn work<B>(
        &self,
        more: &[String],
        part: impl AsyncFnOnce(Share, Gate) -> Result<Record>,
        beside: impl AsyncFnOnce(Over) -> B,
    ) -> Result<Option<Work<B>>> {
        if let Some(share) = self.share {
            let found = part(share, Gate::told_by_the_first()?).await?;
            println!("{}", serde_json::to_string(&found)?);
            return Ok(None);
        }
        let (gate, open) = Gate::own();
        let (load_lasts, over) = oneshot::channel();
        let load = async {
            let found = if self.processes == 1 {
                part(Share::WHOLE, gate).await
            } else {
                Children::start(self.processes, more)?.work(gate).await
            };
            drop(load_lasts);
            found
        };
        let beside = async { if open.await.is_ok() { Some(beside(over).await) } else { None } };
        let (found, beside) = tokio::join!(load, beside);
        let (record, beside) = (found?, beside.context("the load has ended before it began")?);
        Ok(Some(Work { record, beside }))
    }
}
