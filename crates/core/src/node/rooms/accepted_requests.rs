//! Limits of one client's broadcasts, for `broadcast`.

use signaling_wire::MessageNumber;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::edge::{Rate, TokenBucket};

/// Budget of members that one client's broadcasts can reach. Each attachment of its session has its
/// own, so it is full again after a handoff or resume.
#[derive(Debug, Default)]
pub(in crate::node) struct BroadcastBudget {
    /// `None`: no broadcast was sent.
    members: Option<TokenBucket>,
    /// End of the wait that the client was given.
    until: Option<Instant>,
}

impl BroadcastBudget {
    /// Returns the rest of the wait that the client was sent. `None`: it is over, or none was sent.
    pub(super) fn remaining_wait(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        Some(left).filter(|left| !left.is_zero())
    }

    /// Returns the time until a broadcast may reach `members`. `None`: now.
    pub(super) fn wait(&mut self, now: Instant, rate: Rate, members: u64) -> Option<Duration> {
        let wait = self.members?.wait(now, rate, amount(members))?;
        self.until = Some(now + wait);
        Some(wait)
    }

    /// Takes `members` off the budget, available or not.
    pub(super) fn pay(&mut self, now: Instant, rate: Rate, members: u64) {
        self.members.get_or_insert(TokenBucket::full(now)).pay(now, rate, amount(members));
    }
}

/// Accepted broadcasts that are remembered for a reliable client, as many as may be unanswered. One
/// more replaces the oldest.
const MAX_OPEN: usize = 128;

/// Accepted broadcasts of a reliable client. A resumed client retransmits the unanswered ones. They
/// may be under way, so each is accepted once more per socket.
#[derive(Debug, Default)]
pub(super) struct AcceptedBroadcasts {
    /// Last accepted numbers, each with the accept time of the last socket that sent it.
    known: VecDeque<(MessageNumber, u64)>,
    /// Broadcasts that another node may have accepted.
    unknown: usize,
}

impl AcceptedBroadcasts {
    /// Creates the record of a session from another node, which may have accepted any broadcasts.
    pub(super) fn from_other_node() -> Self {
        Self { known: VecDeque::new(), unknown: MAX_OPEN }
    }

    /// Returns `true` if an earlier socket may have sent the broadcast, once for each socket. Also
    /// for the first 128 unknown numbers of a session from another node.
    pub(super) fn is_retransmission(&mut self, number: MessageNumber, accepted_at_us: u64) -> bool {
        if let Some((_, last)) = self.known.iter_mut().find(|(known, _)| *known == number) {
            return std::mem::replace(last, accepted_at_us) < accepted_at_us;
        }
        let is_unknown = self.unknown > 0;
        self.unknown -= usize::from(is_unknown);
        is_unknown
    }

    /// Stores an accepted broadcast, sent by the socket of `accepted_at_us` (us since 1970).
    pub(super) fn record(&mut self, number: MessageNumber, accepted_at_us: u64) {
        self.known.retain(|&(known, _)| known != number);
        if self.known.len() >= MAX_OPEN {
            self.known.pop_front();
        }
        self.known.push_back((number, accepted_at_us));
    }
}

fn amount(members: u64) -> u32 {
    u32::try_from(members).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_from_other_node_may_have_its_maximum_open() {
        let mut accepted = AcceptedBroadcasts::from_other_node();
        let open = (0..1_000).filter(|&number| accepted.is_retransmission(MessageNumber(number), 2));
        assert_eq!(open.count(), MAX_OPEN);
    }

    #[test]
    fn oldest_broadcasts_are_forgotten_at_the_limit() {
        let mut accepted = AcceptedBroadcasts::default();
        (0..1_000).map(MessageNumber).for_each(|number| accepted.record(number, 1));
        let open = (0..1_000).filter(|&number| accepted.is_retransmission(MessageNumber(number), 2));
        assert_eq!(open.count(), MAX_OPEN);
        assert!(accepted.is_retransmission(MessageNumber(999), 3));
    }
}
