//! Actions of a drill and their times, from the command line to their execution by `drill`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use signaling_devmesh::{Act, Control};

use crate::fleet::Fleet;
use crate::schedule::Clock;

/// An action on the servers of a mesh, or on the clients' sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Adds or drains nodes to reach this number of nodes.
    Scale(u32),
    /// One of [`SERVER_ACTIONS`] with the id of a server.
    Server(&'static str, String),
    /// Resets the lane from one node to another. `any` draws a node at random.
    CutLane(String, String),
    /// Cuts the connections of this percentage of the clients.
    Cut(u32),
}

/// Kill is SIGKILL, pause SIGSTOP, resume SIGCONT, drain SIGTERM. Replace starts another node in
/// one view with the end of this one. Restart starts a server again, after a drain if it runs.
const SERVER_ACTIONS: [&str; 6] = ["kill", "pause", "resume", "drain", "replace", "restart"];

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Seconds since the start of the measured time. Negative or not finite counts as 0.
    pub(crate) at: f64,
    /// The action.
    pub(crate) action: Action,
}

/// A performed action. Times are microseconds on the run's clock.
#[derive(Clone, Debug)]
pub(crate) struct Performed {
    pub(crate) action: Action,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    /// Reason of the failure. `None` means success.
    pub(crate) problem: Option<String>,
}

impl Action {
    /// Returns `true` if clients may lose their sockets: for a cut and any action on a balancer.
    pub(crate) fn ends_sockets(&self) -> bool {
        match self {
            Self::Scale(_) | Self::CutLane(..) => false,
            Self::Server(_, id) => id.starts_with("balancer-"),
            Self::Cut(_) => true,
        }
    }

    /// Returns `true` if sessions may move to another node: for all but cuts and balancers.
    pub(crate) fn moves_sessions(&self) -> bool {
        !self.ends_sockets() && !matches!(self, Self::CutLane(..))
    }

    async fn perform(&self, control: Option<&Control>, fleet: &Fleet) -> Result<()> {
        if let Self::Cut(percent) = self {
            fleet.cut(*percent);
            return Ok(());
        }
        let control = control.context("only `cut` works without --dir of a running mesh-dev")?;
        let act = match self {
            Self::Scale(nodes) => Act::Scale { nodes: *nodes },
            Self::Server(what, id) => serde_json::from_value(json!({ "command": what, "id": id }))?,
            Self::CutLane(from, to) => Act::CutLane { from: from.clone(), to: to.clone() },
            Self::Cut(_) => return Ok(()),
        };
        control.act(&act).await.map(drop)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale(nodes) => write!(out, "scale {nodes}"),
            Self::Server(what, id) => write!(out, "{what} {id}"),
            Self::CutLane(from, to) => write!(out, "cut-lane {from} {to}"),
            Self::Cut(percent) => write!(out, "cut {percent}%"),
        }
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = SERVER_ACTIONS.join("|");
        let wrong = || format!("`{text}`: use `scale NODES`, `cut PERCENT%`, `cut-lane NODE NODE`, or {known} SERVER");
        let (what, object) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let number = |text: &str, max| text.parse().ok().filter(|number| (1..=max).contains(number)).ok_or_else(wrong);
        match what {
            "scale" => number(object, 1_000).map(Self::Scale),
            "cut" => number(object.trim_end_matches('%'), 100).map(Self::Cut),
            "cut-lane" => {
                let (from, to) = object.split_once(' ').ok_or_else(wrong)?;
                Ok(Self::CutLane(from.to_owned(), to.to_owned()))
            }
            _ => {
                let what = SERVER_ACTIONS.into_iter().find(|known| *known == what).ok_or_else(wrong)?;
                Ok(Self::Server(what, object.trim().to_owned()))
            }
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, action) = text.split_once(' ').ok_or("use `SECONDS ACTION`, as `5 kill node-1`")?;
        let at = at.parse().map_err(|_| format!("`{at}` is not a number of seconds"))?;
        Ok(Self { at, action: action.parse()? })
    }
}

/// Performs steps in the given order, each at its time after `begin_us`, or at once if past.
/// Continues after a failed one. `control` is the mesh-dev of the servers; without it all actions
/// but `cut` fail.
pub(crate) async fn perform(
    steps: &[Step],
    control: Option<&Control>,
    fleet: &Fleet,
    clock: Clock,
    begin_us: u64,
) -> Vec<Performed> {
    let mut performed = Vec::with_capacity(steps.len());
    for Step { at, action } in steps {
        let after_us = Duration::try_from_secs_f64(*at).unwrap_or_default().as_micros();
        clock.until_us(begin_us + u64::try_from(after_us).unwrap_or(0)).await;
        let began_us = clock.now_us();
        let problem = action.perform(control, fleet).await.err().map(|error| format!("{error:#}"));
        performed.push(Performed { action: action.clone(), began_us, ended_us: clock.now_us(), problem });
    }
    performed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_as_they_are_written() {
        for text in ["scale 5", "kill node-1", "pause node-0", "restart balancer-0", "cut 100%", "cut-lane any node-1"]
        {
            assert_eq!(text.parse::<Action>().unwrap().to_string(), text);
        }
        for wrong in ["cut-lane node-1", "scale 0", "scale", "cut 101%", "explode node-1", ""] {
            assert!(wrong.parse::<Action>().unwrap_err().contains("use `scale NODES`"), "{wrong}");
        }
    }

    #[test]
    fn steps_are_read_and_some_end_sockets() {
        let step: Step = "2.5 kill node-1".parse().unwrap();

        assert_eq!((step.at, step.action.to_string()), (2.5, "kill node-1".to_owned()));
        assert!("soon kill node-1".parse::<Step>().is_err());
        let ends = ["kill balancer-0", "cut 10%", "kill node-0", "scale 3"];
        assert_eq!(ends.map(|text| text.parse::<Action>().unwrap().ends_sockets()), [true, true, false, false]);
    }
}
