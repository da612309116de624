//! Actions of a drill and their times, from the command line to their execution by `drill`.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use signaling_devmesh::Act;

use crate::fleet::Fleet;
use crate::schedule::Clock;

/// An action on the servers of a mesh, or on the clients' sockets.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true)]
pub(crate) enum Action {
    #[command(flatten)]
    Servers(Act),
    /// Cuts the connections of this percentage (1 to 100) of the clients, the first ones.
    Cut {
        #[arg(value_parser = percent)]
        percent: u32,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Seconds since the start of the measured time. Negative or not finite counts as 0.
    pub(crate) at: f64,
    /// The action as on the command line.
    pub(crate) text: String,
    pub(crate) action: Action,
}

/// A performed step. Times are microseconds on the run's clock.
#[derive(Clone, Debug)]
pub(crate) struct Performed {
    pub(crate) step: Step,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    /// Reason of the failure. `None` means success.
    pub(crate) problem: Option<String>,
}

impl Step {
    /// Returns `true` if clients may lose their sockets: for a cut and any action on a balancer.
    pub(crate) fn ends_sockets(&self) -> bool {
        matches!(self.action, Action::Cut { .. }) || self.text.contains("balancer-")
    }

    /// Returns `true` if sessions may move to another node: for all but cuts of clients or lanes
    /// and actions on balancers.
    pub(crate) fn moves_sessions(&self) -> bool {
        !self.ends_sockets() && !matches!(self.action, Action::Servers(Act::CutLane { .. }))
    }
}

impl Action {
    fn is_possible(&self) -> bool {
        !matches!(self, Self::Servers(Act::Status | Act::Down | Act::Scale { nodes: 0 | 1_001.. }))
    }

    async fn perform(&self, dir: Option<&Path>, fleet: &Fleet) -> Result<()> {
        match self {
            Self::Servers(act) => {
                let dir = dir.context("only `cut` works without --dir of a running mesh-dev")?;
                act.request(dir).await.map(drop)
            }
            Self::Cut { percent } => {
                fleet.cut(*percent);
                Ok(())
            }
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (at, text) = line.split_once(' ').ok_or("use `SECONDS ACTION`, as `5 kill node-1`")?;
        let at = at.parse().map_err(|_| format!("`{at}` is not a number of seconds"))?;
        let action = Action::try_parse_from(text.split_whitespace()).ok().filter(Action::is_possible);
        let action = action.ok_or_else(|| {
            let servers = "kill|pause|resume|drain|replace|restart SERVER";
            format!("`{text}`: use `scale NODES`, `cut PERCENT%`, `cut-lane NODE NODE`, or {servers}")
        })?;
        Ok(Self { at, text: text.to_owned(), action })
    }
}

fn percent(text: &str) -> Result<u32, &'static str> {
    let percent = text.trim_end_matches('%').parse().ok();
    percent.filter(|percent| (1..=100).contains(percent)).ok_or("use 1% to 100%")
}

/// Performs steps in the given order, each at its time after `begin_us`, or at once if past.
/// Continues after a failed one. `dir` is the folder of the mesh; without it all actions but `cut`
/// fail.
pub(crate) async fn perform(
    steps: &[Step],
    dir: Option<&Path>,
    fleet: &Fleet,
    clock: Clock,
    begin_us: u64,
) -> Vec<Performed> {
    let mut performed = Vec::with_capacity(steps.len());
    for step in steps {
        let after_us = Duration::try_from_secs_f64(step.at).unwrap_or_default().as_micros();
        clock.until_us(begin_us + u64::try_from(after_us).unwrap_or(0)).await;
        let began_us = clock.now_us();
        let problem = step.action.perform(dir, fleet).await.err().map(|error| format!("{error:#}"));
        performed.push(Performed { step: step.clone(), began_us, ended_us: clock.now_us(), problem });
    }
    performed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_parsed_and_some_end_sockets() {
        for (text, ends_sockets) in [
            ("scale 5", false),
            ("kill node-1", false),
            ("pause node-0", false),
            ("restart balancer-0", true),
            ("cut 100%", true),
            ("cut-lane any node-1", false),
        ] {
            let step: Step = format!("2.5 {text}").parse().unwrap();
            assert_eq!((step.at, &*step.text, step.ends_sockets()), (2.5, text, ends_sockets));
        }
        for wrong in ["cut-lane node-1", "scale 0", "scale", "cut 101%", "explode node-1", "down", "status", ""] {
            let error = format!("1 {wrong}").parse::<Step>().unwrap_err();
            assert!(error.contains("use `scale NODES`"), "{wrong}: {error}");
        }
        assert!("soon kill node-1".parse::<Step>().is_err());
    }
}
