//! What several tests of this crate share.

use clap::Parser as _;

use crate::drill::DrillOptions;
use crate::fleet::FleetOptions;
use crate::traffic::TrafficOptions;

/// The options that scenarios have in common.
#[derive(clap::Parser)]
pub(crate) struct Command {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
    #[command(flatten)]
    pub(crate) drill: DrillOptions,
}

pub(crate) fn parse(arguments: &[&str]) -> Result<Command, clap::Error> {
    Command::try_parse_from([&["mesh-load"], arguments].concat())
}
