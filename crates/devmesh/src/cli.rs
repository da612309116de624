//! The command line of `mesh-dev`, and the table of its command `status`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use signaling_devmesh::{Act, MeshOptions, ServerStatus};

use crate::page::PageOptions;

/// Runs a local signaling mesh of the real binaries
#[derive(Debug, Parser)]
#[command(name = "mesh-dev", version)]
pub(crate) struct Cli {
    /// Folder of the mesh
    #[arg(long, global = true, default_value = ".mesh")]
    pub(crate) dir: PathBuf,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a mesh with the demo page, and run until `down` or Ctrl-C
    Up(Up),
    /// Serve the demo page before a mesh elsewhere, until Ctrl-C
    Page(PageOptions),
    #[command(flatten)]
    Act(Act),
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) options: MeshOptions,
    /// Folder of signaling-node and signaling-balancer [default: folder of mesh-dev]
    #[arg(long, env = "SIGNALING_BIN_DIR")]
    pub(crate) bin_dir: Option<PathBuf>,
}

/// Returns the table of `mesh-dev status`, one line per server.
pub(crate) fn status_table(servers: &[ServerStatus]) -> String {
    let row = |id: &str, pid: &str, internal: &str, public: &str, state: &str| {
        format!("{id:<12}  {pid:>7}  {internal:<15}  {public:<15}  {state}\n")
    };
    let mut table = row("SERVER", "PID", "INTERNAL", "PUBLIC", "STATE");
    for ServerStatus { id, phase, pid, internal, public } in servers {
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        table.push_str(&row(id, &pid, internal, public, phase));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn server_flags_may_begin_with_dashes_and_repeat() {
        let arguments = "mesh-dev up --dir=/tmp/x --node-arg=--hold-ms=5000 --node-arg --reveal-nodes";
        let cli = Cli::try_parse_from(arguments.split(' ')).unwrap();

        assert_eq!(cli.dir, Path::new("/tmp/x"));
        let Command::Up(up) = cli.command else { panic!("not up") };
        assert_eq!(up.options.node_args, ["--hold-ms=5000", "--reveal-nodes"]);
    }
}
