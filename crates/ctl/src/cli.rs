//! Command line arguments, as `run` gets them. The texts of fields and commands are also the help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  no such client, seat, room or node, the change is impossible, or it did not happen in time
  2  invalid arguments
  3  the server is unreachable, fails, refuses the token or sends an unusable answer, or some nodes are
     missing from the answer";

/// Reports and changes the state of a signaling mesh through any of its servers.
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
    /// Internal listener of any node; balancers answer only nodes, kick, drain and undrain
    /// [default: the first node of the mesh in --dir, else http://127.0.0.1:7900]
    #[arg(long, global = true, env = "MESH_CTL_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// File with the admin token of the servers [default: for servers of the mesh in --dir, the
    /// token file of that mesh]
    #[arg(long, global = true, env = "MESH_CTL_SECRET_FILE", value_name = "PATH")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Folder of a mesh that mesh-dev runs on this machine [default: .mesh]
    #[arg(long, global = true, env = "MESH_CTL_DIR", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List nodes and balancers with their state
    #[command(visible_alias = "status")]
    Nodes,
    /// List clients with a socket
    Clients(Names),
    /// Show the node, session and rooms of a client
    Client {
        /// client_id
        id: String,
    },
    /// Explain which node owns a client or room, and why
    Explain {
        /// client_id, or with --room the name of a room
        id: String,
        /// Explain a room
        #[arg(long)]
        room: bool,
    },
    /// List rooms with members or waiting clients
    Rooms(Names),
    /// Show a room and its members
    Room {
        /// Name of the room
        name: String,
        /// List all members instead of the first page of at most 500 members or 48 KiB
        #[arg(long)]
        all: bool,
    },
    /// Show or set the maximum members of a room
    Capacity {
        /// Name of the room
        room: String,
        /// New capacity of the room (0 for no limit); present members stay
        capacity: Option<u32>,
        /// Return to the capacity of the mesh
        #[arg(long, conflicts_with = "capacity")]
        reset: bool,
    },
    /// Remove a client from a room or its waiting queue; it can join again
    Remove {
        /// Name of the room
        room: String,
        /// client_id, or a name that `clients` lists
        client: String,
    },
    /// Remove a client from a room, and refuse its joins for some time
    Block {
        /// Name of the room
        room: String,
        /// client_id, or a name that `clients` lists
        client: String,
        /// Time in seconds: at most 86,400
        #[arg(long = "for", value_name = "SECONDS")]
        seconds: u64,
    },
    /// Let a blocked client join a room again
    Unblock {
        /// Name of the room
        room: String,
        /// client_id, or a name that `clients` lists
        client: String,
    },
    /// End all seats in a room and refuse joins
    Close {
        /// Name of the room
        room: String,
        /// Time in seconds, at most 86,400 [default: until `open`, or a day without use]
        #[arg(long = "for", value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// Open a closed room
    Open {
        /// Name of the room
        room: String,
    },
    /// Close a client's session and reject its older tokens
    Kick {
        /// client_id, a name that `clients` lists, or `sub` of tokens
        id: String,
    },
    /// Take a server out of service: its clients move elsewhere, its process stays
    Drain {
        /// Name of a node or balancer, which any node reaches [default: the server of --server]
        name: Option<String>,
        /// Wait until the server has no clients
        #[arg(long)]
        wait: bool,
        /// Maximum wait in seconds; the last check can be 2 s later
        #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "wait")]
        timeout: u64,
    },
    /// Return a server to service
    Undrain {
        /// Name of a node or balancer, which any node reaches [default: the server of --server]
        name: Option<String>,
    },
    /// Print a new random secret for --mesh-secret-file or --hash-seed-file; needs no server
    Secret,
    /// Print the completion script of a shell
    Completions {
        /// Shell that reads the script
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Names {
    /// List only names with this prefix
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// List only names after this one
    #[arg(long, value_name = "NAME")]
    pub(crate) after: Option<String>,
    /// Maximum number of names: at most 1,000 clients or 200 rooms
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
    /// List all names
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn commands_are_consistent_and_exit_codes_documented() {
        Cli::command().debug_assert();
        let help = Cli::command().render_help().to_string();
        assert!((0..=3).all(|code| help.contains(&format!("\n  {code}  "))), "{help}");
    }
}
