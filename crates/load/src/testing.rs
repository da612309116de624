//! Helpers for several tests of this crate.
#![allow(clippy::unwrap_used)]

use clap::Args;

use crate::exchange::TrafficOptions;
use crate::fleet::FleetOptions;

/// Options that most scenarios have.
#[derive(Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,
}

/// Parses options from command-line arguments.
pub(crate) fn options<T: Args>(arguments: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("mesh-load").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

pub(crate) fn parse(arguments: &[&str]) -> Result<Common, clap::Error> {
    options(arguments)
}
