//! `mesh-ctl`: sends requests of the operator API to any server of a mesh and prints the answers.
//!
//! | module | responsibility |
//! |---|---|
//! | `cli` | command line arguments |
//! | `local` | folder of a mesh that `mesh-dev` runs |
//! | `api` | requests to a server, and their errors |
//! | `run` | requests of each command |
//! | `drain` | waits until drained servers are empty |
//! | `show` | answers as tables |
//! | `table` | rows in columns |

mod api;
mod cli;
mod drain;
mod local;
mod run;
mod show;
mod table;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;

/// Result of a command without an error, with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ending {
    Done = 0,
    /// The answer is negative: no client was kicked, the room has no seats, or the drain took too
    /// long.
    No = 1,
    /// Printed, but some nodes are missing from the answer. It takes precedence over `No`.
    Partial = 3,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run::run(Cli::parse()).await {
        Ok(ending) => ExitCode::from(ending as u8),
        Err(failure) => {
            eprintln!("mesh-ctl: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints to standard output, as it is.
///
/// # Errors
/// If writing fails, except to a closed pipe.
pub(crate) fn print(text: &str) -> Result<(), api::Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(api::Failure::Unusable(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}
