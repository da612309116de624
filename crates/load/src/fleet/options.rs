use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use signaling_devmesh::MeshFile;

use super::FleetPlan;
use crate::costs::{Watched, watched};
use crate::crew::Share;
use crate::route::{Owners, Route};

/// Where the clients connect, and what is measured beside them.
#[derive(Clone, Debug, Args)]
pub struct FleetOptions {
    /// How many clients.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Where to connect, ws://HOST:PORT; clients take several in turn [default: the balancers of --dir].
    #[arg(long = "url")]
    pub urls: Vec<String>,
    /// The folder of a running mesh-dev: where to connect, and whose CPU time and memory to read.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Which of the mesh's servers to connect to.
    #[arg(long, value_enum, default_value_t = Via::Balancers)]
    pub via: Via,
    /// A whole URL with {client_id} and {node} (its owner) filled in, for a proxy in front of the nodes of --dir.
    #[arg(long, conflicts_with = "urls")]
    pub target_template: Option<String>,
    /// Further processes to measure, with their children: NAME=PID.
    #[arg(long, value_parser = named_process)]
    pub also: Vec<(String, u32)>,
    /// Source addresses, used in turn: one has about 28,000 ports.
    #[arg(long = "source", value_delimiter = ',')]
    pub sources: Vec<IpAddr>,
    /// Connections begun a second.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connect_rate: u32,
    /// The clients are called PREFIX-0, PREFIX-1, ...; runs at the same time need different ones.
    #[arg(long, default_value = "load", value_parser = prefix)]
    pub prefix: String,
    /// Clients whose socket ends come back with their resume token, and send again what asked for an ack and has none.
    #[arg(skip)]
    pub(crate) come_back: bool,
    /// The number of the first client; other processes have those before it.
    #[arg(skip)]
    pub(crate) first: u32,
    /// Write the report as JSON to this file, - for the standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as a page with plots to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Which servers of a mesh clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// The balancers, in turn.
    Balancers,
    /// The owner's own public listener.
    Nodes,
}

impl FleetOptions {
    pub(crate) fn client_id(&self, number: usize) -> String {
        format!("{}-{}", self.prefix, self.first as usize + number)
    }

    /// Whether these clients are pairs, of which each process has one.
    pub(crate) fn check_pairs(&self, processes: u32) -> Result<()> {
        if !self.clients.is_multiple_of(2) {
            bail!("--clients is odd: clients come in pairs");
        }
        if self.clients / 2 < processes {
            bail!("--clients {} is not a pair for each of {processes} processes", self.clients);
        }
        Ok(())
    }

    /// The part of the clients, and of the rate at which they connect, that a process has.
    pub(crate) fn of_share(&self, share: Share) -> Self {
        let clients = share.of_clients(self.clients);
        let rate = share.of(self.connect_rate.into());
        let connect_rate = u32::try_from(rate.end - rate.start).unwrap_or(self.connect_rate).max(1);
        Self { first: clients.start, clients: clients.end - clients.start, connect_rate, ..self.clone() }
    }

    /// Finds the URL of each client and the processes to measure.
    pub(crate) fn plan(&self) -> Result<(FleetPlan, Vec<Watched>)> {
        let mesh = self.mesh()?;
        let urls = self.urls(mesh.as_ref())?;
        let urls = (0..usize::try_from(self.clients)?).map(urls).collect::<Result<_>>()?;
        let plan = FleetPlan {
            urls,
            sources: self.sources.clone(),
            trust: None,
            rate: self.connect_rate,
            come_back: self.come_back,
        };
        Ok((plan, watched(mesh.as_ref(), &self.also)))
    }

    /// The mesh of --dir, where there is one.
    pub(crate) fn mesh(&self) -> Result<Option<MeshFile>> {
        self.dir.as_ref().map(MeshFile::read).transpose()
    }

    /// What finds the URLs of a client, by its number.
    pub(crate) fn urls(&self, mesh: Option<&MeshFile>) -> Result<impl Fn(usize) -> Result<Vec<String>> + '_> {
        let route = self.route(mesh)?;
        Ok(move |number| route.urls(self.first as usize + number, &self.client_id(number)))
    }

    fn route(&self, mesh: Option<&MeshFile>) -> Result<Route> {
        if let Some(template) = &self.target_template {
            return Ok(Route::Template(template.clone(), mesh.map(Owners::of)));
        }
        match (self.via, mesh) {
            (Via::Nodes, Some(mesh)) => Ok(Route::Owner(Owners::of(mesh))),
            (Via::Nodes, None) => bail!("--via nodes needs --dir, to know the nodes"),
            (Via::Balancers, _) if !self.urls.is_empty() => Ok(Route::Any(self.urls.clone())),
            (Via::Balancers, Some(mesh)) => Ok(Route::Any(mesh.balancers.iter().map(|it| it.url.clone()).collect())),
            (Via::Balancers, None) => {
                bail!("say where to connect: --url ws://HOST:PORT, or --dir of a running mesh-dev")
            }
        }
    }
}

fn named_process(text: &str) -> Result<(String, u32)> {
    let (name, pid) = text.split_once('=').context("use NAME=PID")?;
    Ok((name.to_owned(), pid.parse().context("the PID is a number")?))
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:@-".contains(&byte);
    if text.is_empty() || text.len() > 100 || !text.bytes().all(is_fine) {
        return Err("use 1 to 100 characters of A-Z a-z 0-9 . _ ~ : @ -");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::parse;

    fn fleet(arguments: &[&str]) -> FleetOptions {
        parse(arguments).unwrap().fleet
    }

    #[test]
    fn urls_are_enough_to_connect() {
        let (plan, watched) =
            fleet(&["--clients=3", "--url=ws://127.0.0.1:1", "--url=ws://127.0.0.1:2"]).plan().unwrap();

        assert_eq!(plan.urls[2][0], "ws://127.0.0.1:1/v1/connect?client_id=load-2");
        assert!(watched.is_empty());
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |arguments: &[&str]| fleet(arguments).plan().err().unwrap().to_string();

        assert!(error(&[]).contains("--url"));
        assert!(error(&["--via=nodes"]).contains("needs --dir"));
        assert!(error(&["--dir=/no/such/folder"]).contains("mesh-dev up"));
    }

    #[test]
    fn further_processes_have_a_name_and_a_number() {
        let own = std::process::id();
        let options = fleet(&["--url=ws://127.0.0.1:1", &format!("--also=nginx={own}")]);

        assert_eq!(options.also, [("nginx".to_owned(), own)]);
        assert!(!options.plan().unwrap().1.is_empty());
        assert!(parse(&["--also=nginx"]).is_err());
    }

    #[test]
    fn the_clients_of_all_processes_together_are_those_of_one() {
        let whole = fleet(&["--clients=10", "--url=ws://127.0.0.1:1", "--url=ws://127.0.0.1:2"]);
        let urls = |options: &FleetOptions| options.plan().unwrap().0.urls;
        let shares = ["0/3", "1/3", "2/3"].map(|share| share.parse().unwrap());

        let parts: Vec<_> = shares.into_iter().flat_map(|share| urls(&whole.of_share(share))).collect();

        assert_eq!(parts, urls(&whole));
    }

    #[test]
    fn a_prefix_that_makes_no_client_id_is_refused() {
        assert!(parse(&["--prefix=a b"]).is_err());
    }
}
