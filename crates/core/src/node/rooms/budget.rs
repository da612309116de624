//! Limits of one client's broadcasts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::edge::{Rate, TokenBucket};

/// Budget of members that one client's broadcasts can reach, per socket.
#[derive(Debug, Default)]
pub(in crate::node) struct BroadcastBudget {
    /// `None`: no broadcast was sent.
    members: Option<TokenBucket>,
    /// End of the wait that the client was given.
    until: Option<Instant>,
}

impl BroadcastBudget {
    /// Returns the remaining wait that the client was given.
    pub(super) fn told_to_wait(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        Some(left).filter(|left| !left.is_zero())
    }

    /// Returns the time until a broadcast may reach `members`. `None`: now.
    pub(super) fn wait(&mut self, now: Instant, rate: Rate, members: u64) -> Option<Duration> {
        let wait = self.members?.wait(now, rate, amount(members))?;
        self.until = Some(now + wait);
        Some(wait)
    }

    /// Takes `members` off the budget.
    pub(super) fn pay(&mut self, now: Instant, rate: Rate, members: u64) {
        self.members.get_or_insert(TokenBucket::full(now)).pay(now, rate, amount(members));
    }
}

/// Maximum open broadcasts of a reliable client. SDKs keep at most this many, and others need
/// fewer.
const MOST_OPEN: usize = 128;

/// Accepted broadcasts of a reliable client. A resumed client retransmits the unanswered ones. They
/// may be under way, so each is accepted once more per socket.
#[derive(Debug, Default)]
pub(super) struct AcceptedBroadcasts {
    /// Last accepted numbers, each with the accept time of the last socket that sent it.
    known: VecDeque<(u64, u64)>,
    /// Broadcasts that another node may have accepted.
    unknown: usize,
}

impl AcceptedBroadcasts {
    /// Creates the record of a session from another node.
    pub(super) fn elsewhere() -> Self {
        Self { known: VecDeque::new(), unknown: MOST_OPEN }
    }

    /// Returns `true` if an earlier socket may have sent the broadcast.
    pub(super) fn again(&mut self, number: u64, accepted_at_us: u64) -> bool {
        if let Some((_, said)) = self.known.iter_mut().find(|(known, _)| *known == number) {
            return std::mem::replace(said, accepted_at_us) < accepted_at_us;
        }
        let is_unknown = self.unknown > 0;
        self.unknown -= usize::from(is_unknown);
        is_unknown
    }

    /// Stores an accepted broadcast.
    pub(super) fn note(&mut self, number: u64, accepted_at_us: u64) {
        self.known.retain(|&(known, _)| known != number);
        if self.known.len() >= MOST_OPEN {
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
    fn what_was_let_through_is_so_once_more_on_each_later_socket() {
        let mut let_through = AcceptedBroadcasts::default();
        let_through.note(5, 1);
        assert!(!let_through.again(5, 1), "on the same socket it is no repeat of a resumed session");
        assert!(let_through.again(5, 2));
        assert!(!let_through.again(5, 2));
        assert!(let_through.again(5, 3));
        assert!(!let_through.again(4, 3), "a lower number is not an earlier one");
    }

    #[test]
    fn of_a_session_from_elsewhere_as_many_are_believed_as_it_may_have_open() {
        let mut let_through = AcceptedBroadcasts::elsewhere();
        assert_eq!((0..1_000).filter(|&number| let_through.again(number, 2)).count(), MOST_OPEN);
    }

    #[test]
    fn only_the_last_are_known() {
        let mut let_through = AcceptedBroadcasts::default();
        (0..1_000).for_each(|number| let_through.note(number, 1));
        assert_eq!((0..1_000).filter(|&number| let_through.again(number, 2)).count(), MOST_OPEN);
        assert!(let_through.again(999, 3));
    }
}
