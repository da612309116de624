//! Settings of a balancer, and their checked form [`Config`], for the binary and `run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::FalseyValueParser;
use signaling_discovery::Source;
use signaling_edge::{EdgeArgs, EdgeConfig};
use signaling_server::coalescer::{BusyThresholds, Coalescer};
use signaling_server::load_readiness::LoadReadinessArgs;
use signaling_server::{Common, CommonArgs, ConfigError};

/// Signaling balancer: holds client sockets and hands sessions off between nodes behind them.
#[derive(Debug, Parser)]
#[command(name = "signaling-balancer", version)]
pub struct Args {
    /// Settings of both servers.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Address for clients
    #[arg(long, env = "SIGNALING_LISTEN", value_name = "ADDR", help_heading = "Listeners",
          default_value_t = SocketAddr::from(([127, 0, 0, 1], 8080)))]
    pub listen: SocketAddr,

    /// Source of the balancers behind one front proxy, with their internal listeners, in the form
    /// of --discovery; --unready-above-percent needs it
    #[arg(long, env = "SIGNALING_BALANCER_DISCOVERY", value_name = "SOURCE", help_heading = "Discovery")]
    pub balancer_discovery: Option<Source>,

    /// Maximum read delay of a busy balancer in microseconds (0 to 10,000; 0 disables it). Adds
    /// this latency on the way in and out and saves CPU time
    #[arg(long, env = "SIGNALING_COALESCE_US", value_name = "US", default_value_t = 350, help_heading = "Operations",
          value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub coalesce_us: u64,

    /// Maximum time in ms of a shutdown with clients of dialects, which stay open until its last
    /// --drain-ms (0 to 86,400,000); at least --drain-ms, the default
    #[arg(long, env = "SIGNALING_DIALECT_DRAIN_MS", value_name = "MS", help_heading = "Operations",
          value_parser = clap::value_parser!(u64).range(..=86_400_000))]
    pub dialect_drain_ms: Option<u64>,

    /// Serve the demo page under /
    #[arg(long, env = "SIGNALING_DEMO", value_parser = FalseyValueParser::new(), help_heading = "Operations")]
    pub demo: bool,

    /// Control socket of mesh-dev for the buttons of the demo page
    #[arg(long, env = "SIGNALING_DEMO_CONTROL", value_name = "PATH", requires = "demo", help_heading = "Operations")]
    pub demo_control: Option<PathBuf>,

    /// Readiness by load.
    #[command(flatten)]
    pub load_readiness: LoadReadinessArgs,

    /// Clients.
    #[command(flatten)]
    pub edge: EdgeArgs,
}

/// Busy time, in percent, at which a balancer coalesces input.
const BUSY: BusyThresholds = BusyThresholds { enter: 15, exit: 10, full_delay_percent: 10 };

/// Checked settings of a balancer.
#[derive(Debug, Clone)]
pub struct Config {
    /// Settings of both servers.
    pub common: Common,
    /// Address for clients.
    pub listen: SocketAddr,
    /// Maximum time of a shutdown with clients of dialects; less than `drain` counts as `drain`.
    pub dialect_drain: Duration,
    /// `true` if the demo page is served.
    pub demo: bool,
    /// Control socket of `mesh-dev` for the page's buttons; `None`: the page has no buttons.
    pub demo_control: Option<PathBuf>,
    /// Balancers behind one front proxy, and thresholds of unreadiness; `None`: load is ignored.
    pub load_readiness: Option<(Source, LoadReadinessArgs)>,
    /// Settings of the edge.
    pub edge: EdgeConfig,
}

impl Args {
    /// Checks the settings that clap cannot check, and reads the files of flags.
    ///
    /// # Errors
    /// Names the flag whose value cannot be used.
    pub fn check(self) -> Result<Config, ConfigError> {
        let common = self.common.check()?;
        let load_readiness = match (self.load_readiness.thresholds(), self.balancer_discovery) {
            (None, _) => None,
            (Some(thresholds), Some(balancers)) => {
                common.check_source("--balancer-discovery", &balancers)?;
                Some((balancers, thresholds))
            }
            (Some(_), None) => {
                let why = "needs --balancer-discovery with the balancers to compare with".to_owned();
                return Err(ConfigError { flag: "--unready-above-percent", why });
            }
        };
        let coalescer = Coalescer::new(Duration::from_micros(self.coalesce_us), BUSY);
        Ok(Config {
            load_readiness,
            dialect_drain: self.dialect_drain_ms.map_or(common.drain, Duration::from_millis),
            edge: EdgeConfig { coalescer, ..self.edge.check(&common, "--listen", Some(self.listen))? },
            common,
            listen: self.listen,
            demo: self.demo,
            demo_control: self.demo_control,
        })
    }
}
