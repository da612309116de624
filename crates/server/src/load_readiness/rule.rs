//! Decides if this server reports unready. Pure: takes counts and the time, and returns a decision.
//! A server becomes a candidate when its count exceeds the mean of all servers by
//! `--unready-above-percent` and by more than chance explains. It stays one until its count is near
//! the mean. Candidates within the top third of all servers by count report unready. Each server
//! computes that from the same polled counts. Silent and closed servers count as ahead, so at least
//! half stay ready. While a peer drains, its clients are about to come: every server is ready.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::LoadReadinessArgs;

/// Distance from the mean that chance hardly ever exceeds, in standard deviations (`sqrt(mean)`).
const BEYOND_CHANCE: f64 = 4.0;
/// Share of the mean above which a candidate stays one.
const NEAR_MEAN: f64 = 0.01;
/// Maximum time unready. After a stretch of that length a server stays ready for as long.
/// Orchestrators treat a server that is unready for longer as failed.
pub const MAX_UNREADY: Duration = Duration::from_secs(600);

/// How a server treats new clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadinessState {
    /// Accepts them.
    Ready,
    /// Accepts them, but reports unready because of its load.
    Unready,
    /// Drains, and still has clients that will move to its peers.
    Draining,
    /// Accepts none, and moves none: not ready, fully drained, or without a public listener.
    Closed,
}

/// Client count and readiness of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The server's own id (`--id`). Discovery may list it under another one.
    pub id: String,
    /// Connected clients; 0 without a public listener.
    pub clients: u64,
    /// Readiness for new clients.
    pub state: ReadinessState,
}

impl LoadReport {
    fn serves(&self) -> bool {
        matches!(self.state, ReadinessState::Ready | ReadinessState::Unready)
    }
}

/// The outcome of one poll.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// `true` if this server reports unready.
    pub is_unready: bool,
    /// Mean client count of servers that accept clients, silent ones excluded; 0 if none do.
    pub mean: f64,
    /// Number of servers that accept clients, this one included if it does.
    pub servers: usize,
}

/// The rule for one server, with its memory of earlier decisions.
#[derive(Debug)]
pub struct LoadReadiness {
    thresholds: LoadReadinessArgs,
    is_candidate: bool,
    /// Start of the time unready and of the pause after it; `None` outside both.
    unready_since: Option<Instant>,
}

impl LoadReadiness {
    /// Returns a rule for a server that starts ready.
    pub fn new(thresholds: LoadReadinessArgs) -> Self {
        Self { thresholds, is_candidate: false, unready_since: None }
    }

    /// Decides from the reports of this server and of its peers, each once. A silent peer is
    /// `None`. Call it about once a second, with increasing times.
    pub fn decide(&mut self, now: Instant, own: &LoadReport, peers: &[Option<LoadReport>]) -> Decision {
        let serving = || peers.iter().flatten().chain([own]).filter(|report| report.serves());
        let servers = serving().count();
        let mean = serving().map(|report| report.clients).sum::<u64>() as f64 / servers.max(1) as f64;
        let LoadReadinessArgs { unready_above_percent, unready_min_clients } = self.thresholds;
        let margin = match self.is_candidate {
            true => NEAR_MEAN * mean,
            false => (f64::from(unready_above_percent) / 100.0 * mean).max(BEYOND_CHANCE * mean.sqrt()),
        };
        self.is_candidate = mean >= unready_min_clients as f64 && own.clients as f64 > mean + margin;

        // A silent or closed peer counts as ahead.
        let is_ahead = |peer: &LoadReport| !peer.serves() || (peer.clients, &peer.id) > (own.clients, &own.id);
        let ahead = peers.iter().map(Option::as_ref).filter(|peer| peer.is_none_or(is_ahead)).count();
        let is_draining = peers.iter().flatten().any(|peer| peer.state == ReadinessState::Draining);
        let wants = own.serves() && self.is_candidate && !is_draining && ahead < (peers.len() + 1).div_ceil(3);

        let lasts = self.unready_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if lasts >= 2 * MAX_UNREADY || (lasts < MAX_UNREADY && !wants) {
            self.unready_since = None;
        }
        let is_unready = wants && now < *self.unready_since.get_or_insert(now) + MAX_UNREADY;
        Decision { is_unready, mean, servers }
    }
}

#[cfg(test)]
mod tests {
    use super::ReadinessState::{Closed, Draining, Ready};
    use super::*;

    const THRESHOLDS: LoadReadinessArgs = LoadReadinessArgs { unready_above_percent: 5, unready_min_clients: 500 };
    const LOW: Option<(u64, ReadinessState)> = Some((1_000, Ready));

    fn report(id: usize, (clients, state): (u64, ReadinessState)) -> LoadReport {
        LoadReport { id: id.to_string(), clients, state }
    }

    /// Returns `true` if a server with `own` clients turns unready. `None` is a silent peer.
    fn is_unready(own: u64, peers: &[Option<(u64, ReadinessState)>]) -> bool {
        let peers: Vec<_> = peers.iter().zip(1..).map(|(peer, id)| peer.map(|peer| report(id, peer))).collect();
        LoadReadiness::new(THRESHOLDS).decide(Instant::now(), &report(0, (own, Ready)), &peers).is_unready
    }

    #[test]
    fn server_far_above_the_mean_within_the_top_third_is_unready() {
        let high = |clients| Some((clients, Ready));
        for (own, peers, expected) in [
            (1_400, &[LOW, LOW][..], true),
            (1_040, &[LOW, LOW], false),                           // within 5% of the mean
            (1_130, &[LOW, LOW], false),                           // more than 5%, but chance explains it
            (700, &[high(0), high(0)], false),                     // below the minimum
            (4_000, &[high(4_100), LOW, LOW, LOW], true),          // second of five
            (4_000, &[high(4_100), high(4_200), LOW, LOW], false), // third of five
            (4_000, &[high(4_100), LOW], false),                   // second of three
            (4_000, &[None, LOW, LOW, LOW], true),                 // a silent peer uses up one of two places
            (4_000, &[None, None, LOW, LOW], false),
            (4_000, &[Some((0, Closed)), LOW], false),
            (4_000, &[], false),                                     // alone
            (4_000, &[Some((900, Draining)), LOW, LOW, LOW], false), // its clients are about to come
        ] {
            assert_eq!(is_unready(own, peers), expected, "{own} {peers:?}");
        }
    }

    #[test]
    fn unready_ends_near_the_mean_and_after_the_longest_time() {
        let begin = Instant::now();
        let mut rule = LoadReadiness::new(THRESHOLDS);
        for (seconds, own, expected) in [
            (0, 2_000, true),
            (20, 1_040, true), // until it is near the mean
            (21, 1_000, false),
            (30, 2_000, true),
            (629, 2_000, true),
            (631, 2_000, false),
            (1_200, 2_000, false), // the pause is as long
            (1_231, 2_000, true),
        ] {
            let peers = [1, 2].map(|id| Some(report(id, (1_000, Ready))));
            let decision = rule.decide(begin + Duration::from_secs(seconds), &report(0, (own, Ready)), &peers);
            assert_eq!(decision.is_unready, expected, "{own} after {seconds} s");
        }
    }

    /// Five servers behind a front proxy with round robin over the servers that its probes, 5 s
    /// apart, found ready. One starts empty.
    #[test]
    fn empty_server_catches_up_and_most_stay_ready() {
        let begin = Instant::now();
        let mut rules = [(); 5].map(|()| LoadReadiness::new(THRESHOLDS));
        let mut clients = [0, 2_000, 2_000, 2_000, 2_000];
        let (mut probed, mut turn) = ([true; 5], 0);
        for second in 0..450 {
            let reports: Vec<_> = (0..5).map(|id| Some(report(id, (clients[id], Ready)))).collect();
            let unready = [0, 1, 2, 3, 4].map(|id| {
                let mut peers = reports.clone();
                let own = peers.swap_remove(id);
                own.is_some_and(|own| rules[id].decide(begin + Duration::from_secs(second), &own, &peers).is_unready)
            });
            assert!(unready.iter().filter(|unready| **unready).count() <= 2, "{unready:?} after {second} s");
            if second % 5 == 0 {
                probed = unready.map(|unready| !unready);
            }
            for _ in 0..30 {
                turn = (1..=5).map(|step| (turn + step) % 5).find(|id| probed[*id]).unwrap_or(turn);
                clients[turn] += 1;
            }
        }
        // The empty server gets a third of 30 clients/s, so all are even after about 330 s.
        let (most, least) = (clients.iter().max(), clients.iter().min());
        assert!(most.zip(least).is_some_and(|(most, least)| (most - least) * 10 < *most), "{clients:?}");
    }
}
