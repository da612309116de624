//! Proof that a streamer's socket is alive, for clients that claim its id. At most 1 Ping/s.

use std::time::{Duration, Instant};

use super::envelope::Envelope;
use super::mesh::Context;
use super::peer::Peer;

/// Age of the client's last input up to which it counts as alive without a Ping.
const RECENT: Duration = Duration::from_secs(1);
/// Time for the answer to a Ping. Claimants wait 2 s.
const PING_TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum claimants of one Ping. Further ones get no answer, and try the seat again after 2 s.
const MAX_CLAIMANTS: usize = 64;

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
    /// Handles an input of the client, and answers the claimants.
    pub(super) fn heard(&mut self, context: &mut Context<'_>) {
        self.last_input = Some(context.now);
        self.dead_at = None;
        for claimant in std::mem::take(&mut self.claimants) {
            context.send(claimant, &Envelope::Alive, 0);
        }
    }

    /// Handles a probe: answers that the client is alive, or pings it and answers after its next
    /// input. `is_paused`: the edge does not read the client, which then counts as alive.
    pub(super) fn probe(&mut self, context: &mut Context<'_>, from: Peer, is_paused: bool) {
        let is_recent = |last| context.now.saturating_duration_since(last) <= RECENT;
        if is_paused || self.last_input.is_some_and(is_recent) {
            return context.send(from, &Envelope::Alive, 0);
        }
        if self.claimants.len() < MAX_CLAIMANTS && !self.claimants.contains(&from) {
            self.claimants.push(from);
        }
        if self.dead_at.is_none() {
            self.dead_at = Some(context.now + PING_TIMEOUT);
            context.out.ping = true;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.claimants.capacity() * size_of::<Peer>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::super::peer::Kind;
    use super::*;
    use crate::room_requests::RoomRequests;
    use crate::translator::Out;

    fn peer(number: u64) -> Peer {
        Peer { number, kind: Kind::Streamer }
    }

    #[test]
    fn flood_of_probes_causes_one_ping_a_second() {
        let (mut liveness, start) = (Liveness::default(), Instant::now());
        let mut pings = 0;
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            let (requests, out) = (&mut RoomRequests::default(), &mut Out::default());
            let context = &mut Context { now, own: peer(0), role: Role::Streamer, requests, out };
            liveness.probe(context, peer(ms), false);
            pings += u32::from(context.out.ping);
            assert!(liveness.claimants.len() <= MAX_CLAIMANTS);
            if liveness.dead_at.is_some() && ms % 50 == 49 {
                liveness.heard(context);
            }
        }
        assert!((8..=10).contains(&pings), "{pings}");
    }
}
