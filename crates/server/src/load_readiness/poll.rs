//! Polls the peers' client counts and sets this server's readiness.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ::http::Method;
use signaling_core::View;
use signaling_protocol::NodeId;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::metrics::METRICS;
use super::report::{LoadReport, LoadReportServer, PATH};
use super::rule::{Decision, Load, LoadReadiness, POLL_INTERVAL, Peer, ReadinessState, Settings};
use crate::server_client::ServerClient;
use crate::{Health, Secrets};

const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Far longer than any report.
const MAX_REPORT_BYTES: usize = 4_096;

/// Keeps the report of this server up to date, and its readiness if readiness by load is on.
pub struct LoadReadinessTask<C> {
    /// Name of this server.
    pub id: NodeId,
    /// Thresholds; `None` if readiness by load is off.
    pub settings: Option<Settings>,
    /// All servers behind the same front proxy, with or without this one.
    pub views: watch::Receiver<Arc<View>>,
    /// Mesh secrets that the peers ask for.
    pub secrets: Secrets,
    /// Readiness of this server.
    pub health: Health,
    /// Report of this server.
    pub report: LoadReportServer,
    /// Number of clients; `None` if this server takes none.
    pub clients: C,
}

type Reports = HashMap<NodeId, (Instant, LoadReport)>;

impl<C: Fn() -> Option<usize>> LoadReadinessTask<C> {
    /// Returns a future that runs until it is dropped.
    ///
    /// # Errors
    /// Fails if the system refuses what an HTTP client needs.
    pub fn run(self) -> Result<impl Future<Output = ()>, reqwest::Error> {
        let client = ServerClient::new(self.secrets.clone(), ANSWER_TIMEOUT, MAX_REPORT_BYTES)?;
        Ok(async move {
            let mut rule = self.settings.map(|settings| LoadReadiness::new(self.id.as_str(), settings));
            if rule.is_some() {
                LazyLock::force(&METRICS);
            }
            let mut log = Log { is_unready: false, is_lost: false };
            let mut reports = Reports::new();
            let mut ticks = interval(POLL_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(rule) = &mut rule else {
                    self.report.set(self.own());
                    continue;
                };
                let view = self.views.borrow().clone();
                self.poll(&client, &view, &mut reports).await;
                let (now, own) = (Instant::now(), self.own());
                let peers = peers(self.id.as_str(), &view, &reports, now);
                let decision = rule.decide(now, own, &peers);
                self.report.set(Load { state: decision.state, ..own });
                let is_unready = decision.state == ReadinessState::Unready;
                self.health.send_elsewhere(is_unready.then(|| reason(own.clients, &decision)));
                log.write(own.clients, peers.len(), &decision);
            }
        })
    }

    fn own(&self) -> Load {
        let clients = (self.clients)();
        let state = match self.health.obstacle() {
            Some(Health::DRAINING) if clients.is_some_and(|clients| clients > 0) => ReadinessState::Draining,
            None if clients.is_some() => ReadinessState::Ready,
            _ => ReadinessState::Closed,
        };
        Load { clients: clients.unwrap_or_default() as u64, state }
    }

    async fn poll(&self, client: &ServerClient, view: &View, reports: &mut Reports) {
        reports.retain(|id, _| view.get(id.as_str()).is_some());
        let asked_at = Instant::now();
        let others = view.members().iter().filter(|member| member.id != self.id).cloned().collect();
        let found = client.request_all::<LoadReport>(others, Method::GET, PATH).await;
        reports.extend(found.answers.into_iter().map(|(member, report)| (member, (asked_at, report))));
    }
}

/// The other servers of the view, each once. Discovery may know a server by another name than its own.
fn peers<'a>(own: &str, view: &'a View, reports: &'a Reports, now: Instant) -> Vec<Peer<'a>> {
    let mut peers: Vec<Peer<'a>> = Vec::with_capacity(view.len());
    for member in view.members().iter().filter(|member| member.id.as_str() != own) {
        let report = reports.get(&member.id);
        let id = report.map_or(member.id.as_str(), |(_, report)| report.id.as_str());
        if id == own || peers.iter().any(|(other, _)| *other == id) {
            continue;
        }
        let load = report.map(|(at, report)| (*at, Load { clients: report.clients, state: report.state }));
        // Discovery may know that a server ends before the server does.
        let ends = match load {
            Some((_, Load { clients: 0, .. })) => ReadinessState::Closed,
            _ => ReadinessState::Draining,
        };
        peers.push((id, if member.draining { Some((now, Load { clients: 0, state: ends })) } else { load }));
    }
    peers
}

/// Logs changes only.
struct Log {
    is_unready: bool,
    is_lost: bool,
}

impl Log {
    fn write(&mut self, clients: u64, peers: usize, decision: &Decision) {
        let is_unready = decision.state == ReadinessState::Unready;
        METRICS.unready.set(is_unready.into());
        METRICS.became_unready.inc_by(u64::from(is_unready && !self.is_unready));
        let (mean, servers, reporting) = (decision.mean.round(), decision.servers, decision.reporting_peers);
        match (self.is_unready, is_unready) {
            (false, true) => info!(clients, mean, servers, "unready because of its load"),
            (true, false) => {
                info!(clients, mean, servers, "ready again, load is near the mean");
            }
            _ => {}
        }
        let is_lost = reporting * 2 < peers;
        match (self.is_lost, is_lost) {
            (false, true) => warn!(reporting, peers, "most peers do not report their client count, stays ready"),
            (true, false) => info!(reporting, peers, "peers report their client count again"),
            _ => {}
        }
        (self.is_unready, self.is_lost) = (is_unready, is_lost);
    }
}

fn reason(clients: u64, decision: &Decision) -> String {
    let above = (clients as f64 / decision.mean - 1.0) * 100.0;
    format!("unready: {clients} clients are {above:.0}% above the mean of {} servers", decision.servers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use signaling_core::Member;

    use super::*;

    fn view(members: &[(&str, bool)]) -> View {
        let member = |(id, draining): &(&str, bool)| Member {
            id: id.parse().unwrap(),
            address: "127.0.0.1:1".parse().unwrap(),
            draining: *draining,
        };
        View::new(members.iter().map(member)).unwrap()
    }

    fn report(member: &str, id: &str, clients: u64, at: Instant) -> (NodeId, (Instant, LoadReport)) {
        (member.parse().unwrap(), (at, LoadReport { id: id.to_owned(), clients, state: ReadinessState::Ready }))
    }

    #[test]
    fn peer_with_two_names_in_discovery_counts_once() {
        let now = Instant::now();
        let view = view(&[("a", false), ("10.0.0.1", false), ("10.0.0.2", false), ("10.0.0.3", false)]);
        let reports = Reports::from([
            report("10.0.0.1", "a", 5, now),
            report("10.0.0.2", "b", 7, now),
            report("10.0.0.3", "b", 7, now),
        ]);
        let peers = peers("a", &view, &reports, now);
        assert_eq!(peers.len(), 1, "{peers:?}");
        assert_eq!((peers[0].0, peers[0].1.unwrap().1.clients), ("b", 7));
    }

    #[test]
    fn draining_member_counts_as_draining_until_it_has_no_clients() {
        let now = Instant::now();
        let view = view(&[("a", false), ("b", true), ("c", true), ("d", false)]);
        let reports = Reports::from([report("b", "b", 7, now), report("c", "c", 0, now)]);
        let peers = peers("a", &view, &reports, now);
        let states: Vec<_> = peers.iter().map(|(id, load)| (*id, load.map(|(_, load)| load.state))).collect();
        let expected = [("b", Some(ReadinessState::Draining)), ("c", Some(ReadinessState::Closed)), ("d", None)];
        assert_eq!(states, expected);
    }
}
