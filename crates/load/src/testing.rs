//! Helper for several tests of this crate.

use clap::Args;

/// Parses options from command-line arguments.
pub(crate) fn options<T: Args>(arguments: &[&str]) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("mesh-load").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(arguments)?)
}
