//! Flags of a balancer into a checked [`Config`].

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use clap::builder::FalseyValueParser;
use signaling_edge::shell::{EdgeArgs, EdgeConfig};
use signaling_server::{Common, CommonArgs, ConfigError};

/// The balancer: holds clients' sockets, and moves them between nodes behind their sockets.
#[derive(Debug, Parser)]
#[command(name = "signaling-balancer", version)]
pub struct Args {
    /// What both servers take.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where to listen for clients
    #[arg(long, env = "SIGNALING_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Serve the demo page under /
    #[arg(long, env = "SIGNALING_DEMO", value_parser = FalseyValueParser::new())]
    pub demo: bool,

    /// The control socket of the mesh-dev that runs this mesh, for the demo page's buttons
    #[arg(long, env = "SIGNALING_DEMO_CONTROL", value_name = "PATH", requires = "demo")]
    pub demo_control: Option<PathBuf>,

    /// What clients may do.
    #[command(flatten)]
    pub edge: EdgeArgs,
}

/// What a balancer is told, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// What both servers are told.
    pub common: Common,
    /// Where to listen for clients.
    pub listen: SocketAddr,
    /// Whether to serve the demo page.
    pub demo: bool,
    /// The control socket that its buttons act through.
    pub demo_control: Option<PathBuf>,
    /// What clients may do.
    pub edge: EdgeConfig,
}

impl Args {
    /// Checks what clap could not, and reads the files that flags name.
    ///
    /// # Errors
    /// Names the flag that does not serve.
    pub fn check(self) -> Result<Config, ConfigError> {
        let common = self.common.check()?;
        Ok(Config {
            edge: self.edge.check(&common, "--listen", Some(self.listen))?,
            common,
            listen: self.listen,
            demo: self.demo,
            demo_control: self.demo_control,
        })
    }
}
