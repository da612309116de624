use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use signaling_devmesh::MeshFile;

use super::FleetPlan;
use crate::costs::{Watched, watched};
use crate::workers::Share;

const DEFAULT_CONNECT_RATE: u32 = 1_000;
const DEFAULT_PREFIX: &str = "load";

/// Clients, and the servers that they connect to.
#[derive(Clone, Debug, Args)]
pub(crate) struct FleetOptions {
    /// Number of clients.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients: u32,
    /// Server URL, ws://HOST:PORT; clients take several in turn [default: the balancers of --dir].
    #[arg(long = "url")]
    pub(crate) urls: Vec<String>,
    /// Directory of a running mesh-dev, to connect to its balancers and read CPU time and memory of
    /// its servers.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Further process to measure, with its children: NAME=PID; may be repeated.
    #[arg(long, value_parser = named_process)]
    pub(crate) also: Vec<(String, u32)>,
    /// Connections begun per second.
    #[arg(long, default_value_t = DEFAULT_CONNECT_RATE, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connect_rate: u32,
    /// Prefix of client ids (PREFIX-0, PREFIX-1, ...); concurrent runs need different ones.
    #[arg(long, default_value = DEFAULT_PREFIX, value_parser = prefix)]
    pub(crate) prefix: String,
    /// Clients resume their session when the socket ends, and send unacknowledged messages again.
    #[arg(skip)]
    pub(crate) come_back: bool,
    /// Number of the first client in this process.
    #[arg(skip)]
    pub(crate) first: u32,
    /// File for the report as JSON; - prints it to standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl FleetOptions {
    /// Returns options for this number of clients, otherwise with the defaults of the command line.
    pub(crate) fn new(clients: u32) -> Self {
        Self {
            clients,
            urls: Vec::new(),
            dir: None,
            also: Vec::new(),
            connect_rate: DEFAULT_CONNECT_RATE,
            prefix: DEFAULT_PREFIX.to_owned(),
            come_back: false,
            first: 0,
            json: None,
        }
    }

    pub(crate) fn client_id(&self, number: usize) -> String {
        format!("{}-{}", self.prefix, self.first as usize + number)
    }

    /// Checks that the clients are pairs, and at least one for each process.
    pub(crate) fn check_pairs(&self, processes: u32) -> Result<()> {
        if !self.clients.is_multiple_of(2) {
            bail!("--clients is odd: clients come in pairs");
        }
        if self.clients / 2 < processes {
            bail!("--clients {} is not a pair for each of {processes} processes", self.clients);
        }
        Ok(())
    }

    /// Returns a process's part of the clients and of the rate at which they connect.
    pub(crate) fn of_share(&self, share: Share) -> Self {
        let clients = share.of_clients(self.clients);
        let rate = share.of(self.connect_rate.into());
        let connect_rate = u32::try_from(rate.end - rate.start).unwrap_or(self.connect_rate).max(1);
        let also = if share.is_first() { self.also.clone() } else { Vec::new() };
        Self { first: clients.start, clients: clients.end - clients.start, connect_rate, also, ..self.clone() }
    }

    /// Returns the URLs of all clients, and the processes to measure, which only the first share
    /// has.
    pub(crate) fn plan(&self) -> Result<(FleetPlan, Vec<Watched>)> {
        let mesh = self.mesh()?;
        let balancers = mesh.iter().flat_map(|mesh| &mesh.balancers).map(|balancer| &balancer.url);
        let bases: Vec<&String> = if self.urls.is_empty() { balancers.collect() } else { self.urls.iter().collect() };
        if bases.is_empty() {
            bail!("say where to connect: --url ws://HOST:PORT, or --dir of a running mesh-dev");
        }
        let urls_of = |number: usize| {
            let first = self.first as usize + number;
            let bases = (first..first + bases.len()).map(|turn| bases[turn % bases.len()]);
            bases.map(|base| connect_url(base, &self.client_id(number))).collect()
        };
        let urls = (0..usize::try_from(self.clients)?).map(urls_of).collect();
        let mesh = mesh.filter(|_| self.first == 0);
        Ok((FleetPlan { urls, rate: self.connect_rate, come_back: self.come_back }, watched(mesh.as_ref(), &self.also)))
    }

    pub(crate) fn mesh(&self) -> Result<Option<MeshFile>> {
        self.dir.as_ref().map(MeshFile::read).transpose()
    }
}

pub(crate) fn connect_url(base: &str, client_id: &str) -> String {
    format!("{}/v1/connect?client_id={client_id}", base.trim_end_matches('/'))
}

fn named_process(text: &str) -> Result<(String, u32)> {
    let (name, pid) = text.split_once('=').context("use NAME=PID")?;
    Ok((name.to_owned(), pid.parse().context("the PID is a number")?))
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:@-".contains(&byte);
    if text.is_empty() || text.len() > 100 || !text.bytes().all(is_valid) {
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
    fn plan_without_a_server_names_the_missing_flag() {
        let error = |arguments: &[&str]| fleet(arguments).plan().err().unwrap().to_string();

        assert!(error(&[]).contains("--url"));
        assert!(error(&["--dir=/no/such/folder"]).contains("mesh-dev up"));
    }

    #[test]
    fn wrong_processes_and_prefixes_are_refused() {
        let own = std::process::id();
        let options = fleet(&["--url=ws://127.0.0.1:1", &format!("--also=nginx={own}")]);

        assert!(!options.plan().unwrap().1.is_empty());
        assert!(parse(&["--also=nginx"]).is_err());
        assert!(parse(&["--prefix=a b"]).is_err());
    }

    #[test]
    fn shares_have_each_client_and_its_urls_once() {
        let whole = fleet(&["--clients=10", "--url=ws://127.0.0.1:1", "--url=ws://127.0.0.1:2"]);
        let urls = |options: &FleetOptions| options.plan().unwrap().0.urls;

        let parts: Vec<_> = (0..3).flat_map(|number| urls(&whole.of_share(Share { number, of: 3 }))).collect();

        assert_eq!(parts, urls(&whole));
        assert_eq!(parts[2][0], "ws://127.0.0.1:1/v1/connect?client_id=load-2");
    }
}
