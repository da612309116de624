//! Decides whether this server reports unready. Pure: counts and the time go in, a decision comes out.
//!
//! A server becomes a candidate when its count exceeds the mean of all servers by [`Settings::above`] and by more than chance
//! explains. It stays one until its count is near the mean. Of the candidates, only the top third of all servers by count reports
//! unready. Each server computes that from the same polled counts. Silent and closed servers use up places, so at least half of
//! the servers stay ready. While a peer drains, its clients are about to come, and every server is ready.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Interval between two polls of the peers.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Age at which a count no longer stands for its server.
const MAX_AGE: Duration = Duration::from_secs(6);
/// Standard deviations of a random distribution that chance hardly ever exceeds.
const BEYOND_CHANCE: f64 = 4.0;
/// A candidate stays one while it is above the mean by this share.
const NEAR_MEAN: f64 = 0.01;
/// Shortest time unready: front proxies probe every few seconds and would miss a shorter one.
const MIN_UNREADY: Duration = Duration::from_secs(10);
/// Longest time unready, and the shortest pause after it: orchestrators treat a server as failed after that.
pub const MAX_UNREADY: Duration = Duration::from_secs(600);

/// Thresholds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Share of the mean by which a candidate exceeds it.
    pub above: f64,
    /// Mean client count below which every server is ready.
    pub min_clients: u64,
}

/// What a server does with new clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadinessState {
    /// Takes them.
    Ready,
    /// Takes them, but reports unready because of its load.
    Unready,
    /// Sends its clients to its peers.
    Draining,
    /// Takes none for another reason.
    #[serde(other)]
    Closed,
}

/// The load of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Connected clients.
    pub clients: u64,
    /// State at the time of the count.
    pub state: ReadinessState,
}

/// A peer, and its last count with the time at which it was asked; `None` before the first.
pub type Peer<'a> = (&'a str, Option<(Instant, Load)>);

/// The outcome of one poll.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// State of this server.
    pub state: ReadinessState,
    /// Mean client count of the servers that take clients.
    pub mean: f64,
    /// Number of servers that take clients, this one included.
    pub servers: usize,
    /// Peers with a recent count.
    pub reporting_peers: usize,
}

/// Decides for one server.
#[derive(Debug)]
pub struct LoadReadiness {
    id: String,
    settings: Settings,
    is_candidate: bool,
    unready_since: Option<Instant>,
    rests_until: Option<Instant>,
}

impl LoadReadiness {
    /// Returns a rule for the server `id`, which starts ready.
    #[must_use]
    pub fn new(id: &str, settings: Settings) -> Self {
        Self { id: id.to_owned(), settings, is_candidate: false, unready_since: None, rests_until: None }
    }

    /// Decides from this server's load (`Ready`, `Draining` or `Closed`) and the peers', each of which is listed once.
    pub fn decide(&mut self, now: Instant, own: Load, peers: &[Peer<'_>]) -> Decision {
        let recent: Vec<(&str, Load)> = peers
            .iter()
            .filter_map(|(id, load)| {
                load.filter(|(at, _)| now.saturating_duration_since(*at) <= MAX_AGE).map(|(_, load)| (*id, load))
            })
            .collect();
        let serves = |load: &Load| matches!(load.state, ReadinessState::Ready | ReadinessState::Unready);
        let serving: Vec<_> = recent.iter().filter(|(_, load)| serves(load)).collect();
        let servers = serving.len() + usize::from(serves(&own));
        let clients =
            serving.iter().map(|(_, load)| load.clients).sum::<u64>() + if serves(&own) { own.clients } else { 0 };
        let mean = clients as f64 / servers.max(1) as f64;

        let is_draining = recent.iter().any(|(_, load)| load.state == ReadinessState::Draining);
        let places = (peers.len() + 1).div_ceil(3).saturating_sub(peers.len() - serving.len());
        let rank = serving.iter().filter(|(id, load)| (load.clients, *id) > (own.clients, &*self.id)).count();
        let unready = serving.iter().filter(|(_, load)| load.state == ReadinessState::Unready).count();

        let share = if self.is_candidate { NEAR_MEAN } else { self.settings.above };
        let chance = if self.is_candidate { 0.0 } else { BEYOND_CHANCE * mean.sqrt() };
        self.is_candidate =
            mean >= self.settings.min_clients as f64 && own.clients as f64 > mean + chance.max(share * mean);

        let may_be = serves(&own) && self.is_candidate && !is_draining && places > 0;
        let is_unready = may_be
            && match self.unready_since {
                Some(since) => {
                    let lasts = now.saturating_duration_since(since);
                    lasts < MIN_UNREADY || (lasts < MAX_UNREADY && rank < places)
                }
                None => rank < places && unready < places && self.rests_until.is_none_or(|until| now >= until),
            };
        if let Some(since) =
            self.unready_since.filter(|since| !is_unready && now.saturating_duration_since(*since) >= MAX_UNREADY)
        {
            self.rests_until = Some(since + 2 * MAX_UNREADY);
        }
        self.unready_since = is_unready.then(|| self.unready_since.unwrap_or(now));
        let state = if is_unready { ReadinessState::Unready } else { own.state };
        Decision { state, mean, servers, reporting_peers: recent.len() }
    }
}
