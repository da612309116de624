//! The steady load while nodes are killed, paused, drained, replaced or restarted.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::drill::{self, Act, DrillOptions, Step};
use crate::fleet::FleetOptions;
use crate::outcome::Outcome;
use crate::traffic::TrafficOptions;

/// What `mesh-load crash` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What they send.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// When it happens, and what may follow.
    #[command(flatten)]
    pub drill: DrillOptions,
    /// What happens.
    #[command(flatten)]
    pub fault: Fault,
    /// How many seconds a node is paused.
    #[arg(long = "for", default_value_t = 5, value_name = "SECONDS")]
    pub pause_for: u32,
}

/// What happens, to nodes only: the clients here do not come back, as those of a balancer would have to.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Fault {
    /// Kill this node (SIGKILL).
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub kill: Option<String>,
    /// Stop this node where it stands (SIGSTOP), and let it go on after --for seconds.
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub pause: Option<String>,
    /// Stop this node in good order (SIGTERM).
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub drain: Option<String>,
    /// Start another node in the place of this one, which stops in good order.
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub replace: Option<String>,
    /// Stop this node in good order and start it again.
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub restart: Option<String>,
    /// Kill each node in turn, and start it again before the next.
    #[arg(long)]
    pub kill_each: bool,
}

impl Options {
    fn script(&self, nodes: &[String]) -> Vec<Step> {
        let gap = Duration::from_secs(self.drill.gap.into());
        let pause = Duration::from_secs(self.pause_for.into());
        let step = |wait, act| Step { wait, act };
        let Fault { kill, pause: paused, drain, replace, restart, kill_each } = &self.fault;
        let mut steps = Vec::new();
        steps.extend(kill.iter().map(|id| step(Duration::ZERO, Act::Kill(id.clone()))));
        steps.extend(drain.iter().map(|id| step(Duration::ZERO, Act::Drain(id.clone()))));
        steps.extend(replace.iter().map(|id| step(Duration::ZERO, Act::Replace(id.clone()))));
        if let Some(id) = paused {
            steps.push(step(Duration::ZERO, Act::Pause(id.clone())));
            steps.push(step(pause, Act::Resume(id.clone())));
        }
        if let Some(id) = restart {
            steps.push(step(Duration::ZERO, Act::Drain(id.clone())));
            steps.push(step(Duration::ZERO, Act::Start(id.clone())));
        }
        for (number, id) in nodes.iter().enumerate().filter(|_| *kill_each) {
            let wait = if number == 0 { Duration::ZERO } else { gap };
            steps.push(step(wait, Act::Kill(id.clone())));
            steps.push(step(gap, Act::Start(id.clone())));
        }
        steps
    }
}

/// Runs the scenario.
///
/// # Errors
/// When the options do not fit together, the clients cannot connect, or no mesh-dev runs in the folder.
pub async fn run(options: &Options) -> Result<Outcome> {
    drill::run("crash", &options.fleet, &options.traffic, &options.drill, |nodes| options.script(nodes)).await
}

fn node(text: &str) -> Result<String, &'static str> {
    let number = text.strip_prefix("node-").filter(|number| number.parse::<u32>().is_ok());
    number.map(|_| text.to_owned()).ok_or("use the name of a node, as node-1")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use clap::Parser as _;

    use super::*;
    use crate::options::Cli;
    use crate::scenarios::Scenario;

    fn script(arguments: &[&str]) -> Result<Vec<String>, clap::Error> {
        let cli = Cli::try_parse_from([&["mesh-load", "crash"], arguments].concat())?;
        let Scenario::Crash(options) = cli.scenario else { panic!("not crash") };
        let nodes = ["node-0", "node-1"].map(str::to_owned);
        Ok(options.script(&nodes).iter().map(|step| format!("{} {}", step.wait.as_secs(), step.act)).collect())
    }

    #[test]
    fn each_fault_has_its_script() {
        assert_eq!(script(&["--kill=node-1"]).unwrap(), ["0 kill node-1"]);
        assert_eq!(script(&["--drain=node-1"]).unwrap(), ["0 drain node-1"]);
        assert_eq!(script(&["--pause=node-1", "--for=8"]).unwrap(), ["0 pause node-1", "8 resume node-1"]);
        assert_eq!(script(&["--replace=node-1"]).unwrap(), ["0 replace node-1"]);
        assert_eq!(script(&["--restart=node-1"]).unwrap(), ["0 drain node-1", "0 start node-1"]);
        assert_eq!(
            script(&["--kill-each", "--gap=4"]).unwrap(),
            ["0 kill node-0", "4 start node-0", "4 kill node-1", "4 start node-1"]
        );
    }

    #[test]
    fn one_fault_and_only_one_is_asked_for_and_only_nodes_can_have_it() {
        assert!(script(&[]).is_err());
        assert!(script(&["--kill=node-1", "--kill-each"]).is_err());
        assert!(script(&["--kill=balancer-0"]).is_err());
    }
}
