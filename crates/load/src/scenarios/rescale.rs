//! The steady load while nodes are added and taken away.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::drill::{self, Act, DrillOptions, Step};
use crate::fleet::FleetOptions;
use crate::outcome::Outcome;
use crate::traffic::TrafficOptions;

/// What `mesh-load rescale` takes.
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
    /// How many nodes there are to be.
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..))]
    pub to: u32,
    /// How many there are to be --gap seconds later.
    #[arg(long, value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..))]
    pub back_to: Option<u32>,
}

impl Options {
    fn script(&self) -> Vec<Step> {
        let gap = Duration::from_secs(self.drill.gap.into());
        let there = Step { wait: Duration::ZERO, act: Act::Scale(self.to) };
        let back = self.back_to.map(|nodes| Step { wait: gap, act: Act::Scale(nodes) });
        [there].into_iter().chain(back).collect()
    }
}

/// Runs the scenario.
///
/// # Errors
/// When the options do not fit together, the clients cannot connect, or no mesh-dev runs in the folder.
pub async fn run(options: &Options) -> Result<Outcome> {
    drill::run("rescale", &options.fleet, &options.traffic, &options.drill, |_| options.script()).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use clap::Parser as _;

    use crate::options::Cli;
    use crate::scenarios::Scenario;

    fn script(arguments: &[&str]) -> Vec<(u64, String)> {
        let cli = Cli::try_parse_from([&["mesh-load", "rescale"], arguments].concat()).unwrap();
        let Scenario::Rescale(options) = cli.scenario else { panic!("not rescale") };
        options.script().iter().map(|step| (step.wait.as_secs(), step.act.to_string())).collect()
    }

    #[test]
    fn it_scales_there_and_back_where_that_is_asked_for() {
        assert_eq!(script(&["--to=4"]), [(0, "scale 4".to_owned())]);
        assert_eq!(
            script(&["--to=5", "--back-to=2", "--gap=7"]),
            [(0, "scale 5".to_owned()), (7, "scale 2".to_owned())]
        );
        assert!(Cli::try_parse_from(["mesh-load", "rescale"]).is_err());
    }
}
