//! Proof that a streamer's socket is alive, for clients that claim its id. At most one Ping per
//! second.

use std::time::{Duration, Instant};

use super::peer::Peer;

/// Age of the client's last input up to which it counts as alive without a Ping.
const RECENT: Duration = Duration::from_secs(1);
/// Time for the answer to a Ping. Claimants wait 2 s.
const PING_TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum claimants of one Ping. Further ones get no answer.
const MAX_CLAIMANTS: usize = 64;

/// Reaction to a probe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// The client is alive.
    Alive,
    /// The edge must ping the client. The claimant gets its answer after that.
    Ping,
    /// A Ping has no answer yet. The claimant gets its answer after that.
    Wait,
}

/// Inputs of the client, and claimants without an answer.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Time of the client's last input. `None`: there was none.
    last_input: Option<Instant>,
    /// Time when the socket counts as dead. `None`: no Ping is open.
    pub(super) dead_at: Option<Instant>,
    claimants: Vec<Peer>,
}

impl Liveness {
    /// Handles an input of the client. Returns the claimants to answer.
    pub(super) fn heard(&mut self, now: Instant) -> Vec<Peer> {
        self.last_input = Some(now);
        self.dead_at = None;
        std::mem::take(&mut self.claimants)
    }

    /// Handles a probe. `is_paused`: the edge does not read the client.
    pub(super) fn probe(&mut self, now: Instant, from: Peer, is_paused: bool) -> Reaction {
        if is_paused || self.last_input.is_some_and(|last| now.saturating_duration_since(last) <= RECENT) {
            return Reaction::Alive;
        }
        if self.claimants.len() < MAX_CLAIMANTS && !self.claimants.contains(&from) {
            self.claimants.push(from);
        }
        if self.dead_at.is_some() {
            return Reaction::Wait;
        }
        self.dead_at = Some(now + PING_TIMEOUT);
        Reaction::Ping
    }

    /// Returns the size of the claimants, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.claimants.capacity() * size_of::<Peer>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::Kind;
    use super::*;

    fn peer(number: u64) -> Peer {
        Peer { number, kind: Kind::Streamer }
    }

    #[test]
    fn flood_of_probes_causes_one_ping_a_second() {
        let (mut liveness, start) = (Liveness::default(), Instant::now());
        let mut pings = 0;
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            pings += u32::from(liveness.probe(now, peer(ms), false) == Reaction::Ping);
            assert!(liveness.claimants.len() <= MAX_CLAIMANTS);
            if liveness.dead_at.is_some() && ms % 50 == 49 {
                liveness.heard(now);
            }
        }
        assert!((8..=10).contains(&pings), "{pings}");
    }
}
