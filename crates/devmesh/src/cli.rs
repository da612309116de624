use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use signaling_devmesh::{Binaries, MeshOptions, ServerStatus};

/// Runs a local signaling mesh of the real binaries.
#[derive(Debug, Parser)]
#[command(name = "mesh-dev", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a mesh and stay in the foreground until `down` or Ctrl-C.
    Up(Up),
    #[command(flatten)]
    Act(Act),
}

/// What can be done to a running mesh. Each returns when it is done.
#[derive(Debug, Subcommand)]
pub(crate) enum Act {
    /// Start or drain nodes until there are so many.
    Scale {
        /// How many nodes.
        nodes: u32,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Kill a server at once (SIGKILL).
    Kill {
        /// node-N, balancer-N or redis.
        id: String,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Stop a server in good order (SIGTERM).
    Drain {
        /// node-N, balancer-N or redis.
        id: String,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Drain a server and start it again under the same name and ports.
    Restart {
        /// node-N, balancer-N or redis.
        id: String,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Start a node in the place of another, which drains.
    Replace {
        /// node-N.
        id: String,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Stop a server where it stands (SIGSTOP).
    Pause {
        /// node-N, balancer-N or redis.
        id: String,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Let a paused server go on (SIGCONT).
    Resume {
        /// node-N, balancer-N or redis.
        id: String,
        #[command(flatten)]
        mesh: Folder,
    },
    /// Show all servers.
    Status {
        #[command(flatten)]
        mesh: Folder,
    },
    /// Stop the mesh.
    Down {
        #[command(flatten)]
        mesh: Folder,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Folder {
    /// The mesh's folder.
    #[arg(long)]
    dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    mesh: Folder,
    /// How many nodes.
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// How many balancers.
    #[arg(long, default_value_t = 1)]
    balancers: u32,
    /// Start a Redis for the rooms.
    #[arg(long)]
    redis: bool,
    /// Where the first balancer listens (port 0: any free one); further ones take free ports.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How long the discovery file still names a killed node.
    #[arg(long, default_value_t = 1000)]
    notice_ms: u64,
    /// A further flag for each node, as --node-arg=--hold-ms=5000; may be given again.
    #[arg(long = "node-arg", value_name = "FLAG", allow_hyphen_values = true)]
    node_args: Vec<String>,
    /// A further flag for each balancer; may be given again.
    #[arg(long = "balancer-arg", value_name = "FLAG", allow_hyphen_values = true)]
    balancer_args: Vec<String>,
    /// Where signaling-node and signaling-balancer are [default: beside mesh-dev].
    #[arg(long, env = "SIGNALING_BIN_DIR")]
    bin_dir: Option<PathBuf>,
}

impl Act {
    pub(crate) fn dir(&self) -> &Path {
        match self {
            Self::Scale { mesh, .. }
            | Self::Kill { mesh, .. }
            | Self::Drain { mesh, .. }
            | Self::Restart { mesh, .. }
            | Self::Replace { mesh, .. }
            | Self::Pause { mesh, .. }
            | Self::Resume { mesh, .. }
            | Self::Status { mesh }
            | Self::Down { mesh } => &mesh.dir,
        }
    }
}

impl Up {
    pub(crate) fn into_mesh_options(self) -> Result<MeshOptions> {
        let binaries = Binaries::locate(self.bin_dir.as_deref())?;
        Ok(MeshOptions {
            nodes: self.nodes,
            balancers: self.balancers,
            redis: self.redis,
            listen: self.listen,
            notice: Duration::from_millis(self.notice_ms),
            node_args: self.node_args,
            balancer_args: self.balancer_args,
            ..MeshOptions::new(self.mesh.dir, binaries)
        })
    }
}

/// The table of `status`, columns aligned.
pub(crate) fn status_table(servers: &[ServerStatus]) -> String {
    let header = ["SERVER", "PID", "INTERNAL", "PUBLIC", "STATE"].map(str::to_owned);
    let rows = servers.iter().map(|server| {
        let pid = server.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        [server.id.clone(), pid, server.internal.clone(), server.public.clone(), server.phase.clone()]
    });
    let lines: Vec<[String; 5]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut table = String::new();
    for [id, pid, internal, public, state] in &lines {
        let [a, b, c, d] = widths;
        table.push_str(&format!("{id:a$}  {pid:>b$}  {internal:c$}  {public:d$}  {state}\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn flags_for_the_servers_may_begin_with_dashes_and_be_repeated() {
        let cli = Cli::try_parse_from([
            "mesh-dev",
            "up",
            "--dir=/tmp/x",
            "--node-arg=--hold-ms=5000",
            "--node-arg",
            "--reveal-nodes",
        ]);

        let Command::Up(up) = cli.unwrap().command else { panic!("not up") };
        assert_eq!(up.node_args, ["--hold-ms=5000", "--reveal-nodes"]);
    }

    #[test]
    fn every_action_needs_the_folder() {
        assert!(Cli::try_parse_from(["mesh-dev", "kill", "node-1"]).is_err());
        assert!(Cli::try_parse_from(["mesh-dev", "kill", "node-1", "--dir", "x"]).is_ok());
        assert!(Cli::try_parse_from(["mesh-dev", "scale", "5", "--dir", "x"]).is_ok());
    }

    #[test]
    fn the_table_is_aligned() {
        let server = |id: &str, pid, phase: &str| ServerStatus {
            id: id.into(),
            phase: phase.into(),
            pid,
            internal: "127.0.0.1:1".into(),
            public: "127.0.0.1:22".into(),
        };

        let table = status_table(&[server("node-0", Some(4711), "ready"), server("node-10", None, "down: exited")]);

        assert_eq!(
            table,
            "SERVER    PID  INTERNAL     PUBLIC        STATE\n\
             node-0   4711  127.0.0.1:1  127.0.0.1:22  ready\n\
             node-10     -  127.0.0.1:1  127.0.0.1:22  down: exited\n"
        );
    }
}
