//! Named options of `mesh-sim`, each for one kind of worlds.

use clap::ValueEnum;

/// Options of a kind of worlds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Three nodes and a few usual faults; most worlds have rooms.
    #[default]
    Default,
    /// Rooms in all worlds.
    Rooms,
    /// Rooms in which operators remove and block clients, and which they close.
    Operators,
    /// Rooms, more nodes and many faults.
    Large,
    /// Rooms, and nodes that lose each other for some seconds.
    Parted,
    /// Rooms, and nodes that lose all other nodes, also with `--nodes 2` or `--nodes 5`.
    Isolated,
    /// Rooms in most worlds, more servers, many faults and short TTLs.
    Hasty,
    /// Rooms with a journal, and nodes that crash until all copies of rooms are lost.
    Journal,
    /// Rooms, and servers whose wall clocks differ by up to an hour.
    Skewed,
}

impl Preset {
    /// Returns its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns its options, separated by spaces.
    pub const fn options(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Rooms => "--rooms 100",
            Self::Operators => "--rooms 100 --operators 8",
            Self::Large => "--rooms 100 --nodes 5 --faults 14",
            Self::Parted => "--rooms 100 --faults 10 --kinds cut-nodes,cut-one-way,flap,pause-node,cut-lane",
            Self::Skewed => "--rooms 100 --skew 3600",
            Self::Isolated => "--rooms 100 --faults 8 --kinds isolate,isolate-pair,dead",
            Self::Hasty => "--rooms 80 --nodes 4 --edges 3 --faults 12 --hasty 30",
            Self::Journal => "--rooms 100 --journal --nodes 2 --faults 10 --kinds crash,flap,pause-node,crash-edge",
        }
    }
}
