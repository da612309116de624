//! `mesh-ctl`: asks any server of a mesh, by the API of `signaling-admin`, and shows what it says.
//!
//! | module | idea |
//! |---|---|
//! | `cli` | the words of the command line |
//! | `local` | the folder of a mesh that `mesh-dev` runs |
//! | `api` | asking a server, and what can go wrong with it |
//! | `run` | what each command asks |
//! | `drain` | taking servers out of service, and waiting until they are empty |
//! | `show` | answers as tables |
//! | `table` | columns that fit the terminal |

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

/// How a command ended well, or nearly so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As asked.
    Done,
    /// The answer is no.
    No,
    /// Some nodes are missing from the answer.
    Partial,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::No => 1,
            Ending::Partial => 3,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run::run(Cli::parse()).await {
        Ok(ending) => ending.into(),
        Err(failure) => {
            eprintln!("mesh-ctl: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints, unless nobody reads any more.
pub(crate) fn print(text: &str) -> Result<(), api::Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(api::Failure::Output(error)),
        _ => Ok(()),
    }
}
