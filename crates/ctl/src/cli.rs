use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  the answer is no: no such client, room or node, it cannot be done, or it did not happen in time
  2  these words make no sense
  3  the server cannot be reached or refuses the secret, or some nodes are missing from the answer";

/// Shows a signaling mesh, and acts on it, through any of its servers.
#[derive(Debug, Parser)]
#[command(name = "mesh-ctl", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Internal listener of any node; balancers answer explain, kick, drain and undrain [default:
    /// the first node of the mesh in --dir, else http://127.0.0.1:7900]
    #[arg(long, global = true, env = "MESH_CTL_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the admin token, where the servers ask for one [default: that of the mesh in
    /// --dir, for its servers]
    #[arg(long, global = true, env = "MESH_CTL_SECRET_FILE", value_name = "PATH")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Folder of a mesh that mesh-dev runs on this machine [default: .mesh, if there is one]
    #[arg(long, global = true, env = "MESH_CTL_DIR", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Nodes and balancers, and how they are
    #[command(visible_alias = "status")]
    Nodes,
    /// Clients with a socket
    Clients {
        /// Only those whose ids begin so
        #[arg(long)]
        prefix: Option<String>,
        #[command(flatten)]
        pages: Pages,
    },
    /// Where a client is, and what waits for it
    Client {
        /// Its id
        id: String,
    },
    /// Why a client is where it is
    Explain {
        /// Its id
        id: String,
    },
    /// Which clients would move if a node joined or left
    #[command(group = clap::ArgGroup::new("change").required(true))]
    Preview {
        /// A node that joins, or returns to service
        #[arg(long, group = "change", value_name = "NODE")]
        join: Option<String>,
        /// A node that leaves, or drains
        #[arg(long, group = "change", value_name = "NODE")]
        leave: Option<String>,
        #[command(flatten)]
        pages: Pages,
    },
    /// Rooms with members or waiting clients
    Rooms {
        /// Only those whose names begin so
        #[arg(long)]
        prefix: Option<String>,
        #[command(flatten)]
        pages: Pages,
    },
    /// A room and its members
    Room {
        /// Its name
        name: String,
        /// All members, not the first 500 alone
        #[arg(long)]
        all: bool,
    },
    /// How many a room holds
    Capacity {
        /// The room
        room: String,
        /// New capacity of the room (0 for no limit); present members stay
        capacity: Option<u32>,
        /// Give it the mesh's capacity again
        #[arg(long, conflicts_with = "capacity")]
        reset: bool,
    },
    /// Put a client out
    Kick {
        /// Its id
        id: String,
    },
    /// Take a server out of service: its clients move elsewhere, its process stays
    Drain {
        /// A node of the mesh [default: the server that is asked]
        node: Option<String>,
        /// Wait until it has no clients any more
        #[arg(long)]
        wait: bool,
        /// For how long at most
        #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "wait")]
        timeout: u64,
    },
    /// Put a server back into service
    Undrain {
        /// A node of the mesh [default: the server that is asked]
        node: Option<String>,
    },
    /// Print what a shell needs to complete these words
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Pages {
    /// Only names behind this one
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn commands_are_consistent_and_exit_codes_documented() {
        Cli::command().debug_assert();
        let help = Cli::command().render_help().to_string();
        assert!((0..=3).all(|code| help.contains(&format!("\n  {code}  "))), "{help}");
    }

    #[test]
    fn preview_is_of_one_change() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["mesh-ctl", "preview"], words].concat());
        assert!(parse(&["--join", "node-3"]).is_ok() && parse(&["--leave", "node-3"]).is_ok());
        assert!(parse(&[]).is_err() && parse(&["--join", "a", "--leave", "b"]).is_err());
    }
}
