//! Readiness by load: a server with many more clients than its peers reports unready, so that a
//! front proxy that only does round robin sends new clients elsewhere. Open sockets stay.
//! [`rule`] decides from polled counts. [`LoadReadinessTask`] serves this server's count, whether
//! or not the rule is on. With the rule it requests the counts of the peers once a second and sets
//! `/readyz` of a balancer, or `/readyz/clients` of a node.

pub mod rule;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{Method, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Json, Router};
use clap::Args;
use signaling_membership::View;
use signaling_metrics::{Counter, Gauge, metrics};
use signaling_protocol::NodeId;
use tokio::sync::watch;
use tracing::info;

pub use self::rule::MAX_UNREADY;
use self::rule::{LoadReadiness, LoadReport, ReadinessState};
use crate::auth::require_proof;
use crate::clock::ticks;
use crate::proofs::Proofs;
use crate::server_client::ServerClient;
use crate::{Common, Health};

const PATH: &str = "/internal/v1/load";
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_REPORT_BYTES: usize = 4_096;
/// Age at which a report no longer stands for its server.
const MAX_AGE: Duration = Duration::from_secs(6);

/// Flags of readiness by load, which are the thresholds of its rule.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Discovery")]
pub struct LoadReadinessArgs {
    /// Percentage above the mean client count past which a server of the fullest third reports
    /// unready (0 to 1,000; 0 disables it). For front proxies with round robin
    ///
    /// A server is unready for at most 10 min at a time, and hardly ever by chance.
    #[arg(long, env = "SIGNALING_UNREADY_ABOVE_PERCENT", value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub unready_above_percent: u32,

    /// Mean client count below which no server reports unready because of its load
    #[arg(long, env = "SIGNALING_UNREADY_MIN_CLIENTS", value_name = "CLIENTS", default_value_t = 500)]
    pub unready_min_clients: u64,
}

impl LoadReadinessArgs {
    /// Returns the thresholds, or `None` if readiness by load is off.
    pub fn thresholds(self) -> Option<Self> {
        (self.unready_above_percent > 0).then_some(self)
    }
}

metrics! {
    /// Metrics of a server with `--unready-above-percent`.
    pub struct LoadReadinessMetrics {
        unready: Gauge = "signaling_load_unready",
            "1 while this server reports unready because of its client count (`--unready-above-percent`), else 0";
        became_unready: Counter = "signaling_load_unready_total",
            "Changes of this server to unready because of its client count";
    }
}

/// Serves this server's report, and updates its readiness if the rule is on. `C` counts clients.
pub struct LoadReadinessTask<C> {
    thresholds: Option<LoadReadinessArgs>,
    views: watch::Receiver<Arc<View>>,
    proofs: Proofs,
    health: Health,
    report: watch::Sender<LoadReport>,
    clients: C,
}

/// Latest reports by member of the view, with the times of the requests.
type Reports = HashMap<NodeId, (Instant, LoadReport)>;

impl<C: Fn() -> Option<usize>> LoadReadinessTask<C> {
    /// Creates the task. `thresholds` is `None` if readiness by load is off.
    /// `views` lists all servers behind the same front proxy, with or without this one. `clients`
    /// returns the number of connected clients, or `None` if this server has no public listener.
    pub fn new(
        common: &Common,
        thresholds: Option<LoadReadinessArgs>,
        views: watch::Receiver<Arc<View>>,
        health: Health,
        clients: C,
    ) -> Self {
        let report = LoadReport { id: common.id.as_str().to_owned(), clients: 0, state: ReadinessState::Closed };
        let (proofs, report) = (common.proofs.clone(), watch::Sender::new(report));
        Self { thresholds, views, proofs, health, report, clients }
    }

    /// Returns the route `/internal/v1/load`: a [`LoadReport`] as JSON, or 401 without a proof of
    /// the mesh secret.
    pub fn router(&self) -> Router {
        let reports = self.report.clone();
        let report = async move || ([(header::CACHE_CONTROL, "no-store")], Json(reports.borrow().clone()));
        Router::new().route(PATH, get(report)).layer(from_fn_with_state(self.proofs.clone(), require_proof))
    }

    /// Returns the task as a future that runs until it is dropped. It updates the report every 1 s.
    /// With the rule it polls the peers first, which takes up to 5 s if many are silent.
    ///
    /// # Errors
    /// If the system refuses a resource of the HTTP client.
    pub fn run(self) -> Result<impl Future<Output = ()>, reqwest::Error> {
        let client = ServerClient::new(self.proofs.clone(), ANSWER_TIMEOUT, MAX_REPORT_BYTES)?;
        Ok(async move {
            let mut rule = self.thresholds.map(LoadReadiness::new);
            let mut reports = Reports::new();
            loop {
                if let Some(rule) = &mut rule {
                    self.poll(&client, &mut reports).await;
                    self.decide(rule, &reports);
                } else {
                    self.report.send_replace(self.own());
                }
                ticks(POLL_INTERVAL).tick().await;
            }
        })
    }

    fn own(&self) -> LoadReport {
        let clients = (self.clients)();
        let state = match self.health.obstacle() {
            Some(Health::DRAINING) if clients.is_some_and(|clients| clients > 0) => ReadinessState::Draining,
            None if clients.is_some() => ReadinessState::Ready,
            _ => ReadinessState::Closed,
        };
        LoadReport { clients: clients.unwrap_or_default() as u64, state, ..self.report.borrow().clone() }
    }

    async fn poll(&self, client: &ServerClient, reports: &mut Reports) {
        let (view, asked_at) = (self.views.borrow().clone(), Instant::now());
        let own = self.report.borrow().id.clone();
        let found = client.request_all::<LoadReport>(&view, &own, Method::GET, PATH).await;
        reports.extend(found.answers.into_iter().map(|(member, report)| (member, (asked_at, report))));
        reports.retain(|id, (at, _)| view.get(id.as_str()).is_some() && at.elapsed() <= MAX_AGE);
    }

    fn decide(&self, rule: &mut LoadReadiness, reports: &Reports) {
        let mut own = self.own();
        let decision = rule.decide(Instant::now(), &own, &peers(&own.id, &self.views.borrow(), reports));
        let (clients, mean, servers) = (own.clients, decision.mean.round(), decision.servers);
        self.health.send_elsewhere(decision.is_unready.then(|| {
            let above = (clients as f64 / decision.mean - 1.0) * 100.0;
            format!("unready: {clients} clients are {above:.0}% above the mean of {servers} servers")
        }));
        if decision.is_unready {
            own.state = ReadinessState::Unready;
        }
        METRICS.unready.set(decision.is_unready.into());
        let before = self.report.send_replace(own).state;
        match (before == ReadinessState::Unready, decision.is_unready) {
            (false, true) => {
                METRICS.became_unready.inc();
                info!(clients, mean, servers, "unready because of its load");
            }
            (true, false) => info!(clients, mean, servers, "ready again, load is near the mean"),
            _ => {}
        }
    }
}

/// Returns the reports of the peers in the view, each once; `None` for a silent one. Discovery may
/// name a server otherwise than itself.
fn peers(own: &str, view: &View, reports: &Reports) -> Vec<Option<LoadReport>> {
    let peers = view.members().iter().map(|member| {
        let report = reports.get(&member.id).map(|(_, report)| report.clone());
        (report.as_ref().map_or(member.id.as_str(), |report| &report.id).to_owned(), report)
    });
    let peers: BTreeMap<_, _> = peers.filter(|(id, _)| id != own).collect();
    peers.into_values().collect()
}

#[cfg(test)]
mod tests {
    use signaling_membership::NodeEntry;

    use super::*;

    #[test]
    fn peer_with_two_names_in_discovery_counts_once() {
        let member = |id: &str| NodeEntry {
            id: id.parse().unwrap(),
            address: "127.0.0.1:1".parse().unwrap(),
            draining: false,
            zone: None,
        };
        let report = |id: &str, clients| LoadReport { id: id.into(), clients, state: ReadinessState::Ready };
        let polled = [("ip-1", "a", 5), ("ip-2", "b", 7), ("ip-3", "b", 7)]
            .map(|(member, id, clients)| (member.parse().unwrap(), (Instant::now(), report(id, clients))));
        let view = View::new(["a", "ip-1", "ip-2", "ip-3", "silent"].map(member)).unwrap();
        assert_eq!(peers("a", &view, &polled.into()), [Some(report("b", 7)), None]);
    }
}
