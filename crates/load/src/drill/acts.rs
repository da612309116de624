use std::fmt;
use std::time::Duration;

use anyhow::Result;
use signaling_devmesh::Control;
use tokio::time::sleep;

use super::node_ids;
use crate::clock::Clock;

/// Something done to the nodes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Add or drain nodes until there are so many.
    Scale(u32),
    /// SIGKILL.
    Kill(String),
    /// SIGSTOP.
    Pause(String),
    /// SIGCONT.
    Resume(String),
    /// SIGTERM, and wait for its end.
    Drain(String),
    /// Start another node in its place, in one view.
    Replace(String),
    /// Start again what has ended.
    Start(String),
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// From the end of the step before; of the first one, from the begin of the script.
    pub(crate) wait: Duration,
    pub(crate) act: Act,
}

/// What was done.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) act: Act,
    pub(super) began_us: u64,
    pub(super) ended_us: u64,
    /// The nodes that own clients from then on, suspects left out.
    pub(super) nodes: Vec<String>,
    /// Why it could not be done.
    pub(super) problem: Option<String>,
}

impl Act {
    async fn perform(&self, control: &Control) -> Result<()> {
        match self {
            Self::Scale(nodes) => control.scale(*nodes).await,
            Self::Kill(id) => control.kill(id).await,
            Self::Pause(id) => control.pause(id).await,
            Self::Resume(id) => control.resume(id).await,
            Self::Drain(id) => control.drain(id).await,
            Self::Replace(id) => control.replace(id).await,
            Self::Start(id) => control.restart(id).await,
        }
    }

    /// Who owns clients after it, of the nodes that mesh-dev then says there are: it counts a paused one.
    fn nodes_after(&self, mut listed: Vec<String>) -> Vec<String> {
        if let Self::Pause(id) = self {
            listed.retain(|node| node != id);
        }
        listed
    }
}

impl fmt::Display for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale(nodes) => write!(out, "scale {nodes}"),
            Self::Kill(id) => write!(out, "kill {id}"),
            Self::Pause(id) => write!(out, "pause {id}"),
            Self::Resume(id) => write!(out, "resume {id}"),
            Self::Drain(id) => write!(out, "drain {id}"),
            Self::Replace(id) => write!(out, "replace {id}"),
            Self::Start(id) => write!(out, "start {id}"),
        }
    }
}

/// Plays a script from `begin_us` on. An act that fails does not keep the next ones from being done.
pub(super) async fn play(control: Control, clock: Clock, begin_us: u64, steps: Vec<Step>) -> Vec<Done> {
    let mut acts = Vec::with_capacity(steps.len());
    clock.until_us(begin_us).await;
    for Step { wait, act } in steps {
        sleep(wait).await;
        let began_us = clock.now_us();
        let performed = act.perform(&control).await;
        let ended_us = clock.now_us();
        let listed = performed.and_then(|()| control.state()).map(|mesh| node_ids(&mesh));
        let (listed, problem) = match listed {
            Ok(listed) => (listed, None),
            Err(error) => (control.state().map(|mesh| node_ids(&mesh)).unwrap_or_default(), Some(format!("{error:#}"))),
        };
        acts.push(Done { nodes: act.nodes_after(listed), act, began_us, ended_us, problem });
    }
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_node_owns_nobody_though_it_is_listed() {
        let nodes = || ["node-0", "node-1"].map(str::to_owned).to_vec();

        assert_eq!(Act::Pause("node-1".to_owned()).nodes_after(nodes()), ["node-0"]);
        assert_eq!(Act::Resume("node-1".to_owned()).nodes_after(nodes()), nodes());
    }
}
