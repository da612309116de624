//! Budgets of clients and of token subjects, each for one limit, and the memory that they take.
//!
//! Pure. A budget belongs to a name: neither a reconnect nor a new session of a client refills it.
//! One that is full takes no memory. Of the others 100,000 are kept. Beyond that the one that is
//! full soonest is forgotten, since it loses the least. Many clients with small debts so displace
//! each other. One that is full in 30 s stays unless 100,000 others lack 30 s of their rates: of
//! new rooms, 150 in each of 100,000 clients.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_wire::rate::{Rate, TokenBucket};

/// Maximum budgets that are not full, about 30 MB of memory.
const MAX_BUDGETS: usize = 100_000;
/// Maximum full budgets that one sweep forgets: they take less than 1 ms.
const FORGOTTEN_PER_SWEEP: usize = 1_000;

/// The limit of a budget, and the owner of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BudgetKind {
    /// Members that receive something because of a token subject, or of a client without one.
    FanOut,
    /// New rooms of a client.
    ClientRooms,
    /// New rooms of all clients with the same token subject.
    SubjectRooms,
}

impl BudgetKind {
    const COUNT: usize = 3;
}

#[derive(Debug)]
struct Budget {
    bucket: TokenBucket,
    /// End of the wait that the client was sent. `None`: none was sent.
    refused_until: Option<Instant>,
}

/// Budgets that are not full, or were not at the last sweep.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    by_name: [BTreeMap<Rc<str>, Budget>; BudgetKind::COUNT],
    /// All of them, by the time at which they are full.
    by_end: BTreeSet<(Instant, BudgetKind, Rc<str>)>,
}

impl Budgets {
    /// Returns the time until `amount` units are available. More than the burst are available once
    /// the budget is full. `None`: they are available now.
    pub(super) fn wait(
        &self,
        now: Instant,
        (kind, name): (BudgetKind, &str),
        rate: Rate,
        amount: u64,
    ) -> Option<Duration> {
        self.by_name[kind as usize].get(name)?.bucket.wait(now, rate, units(amount))
    }

    /// Takes `amount` units, available or not.
    pub(super) fn pay(&mut self, now: Instant, (kind, name): (BudgetKind, &str), rate: Rate, amount: u64) {
        if amount == 0 {
            return;
        }
        let budgets = &mut self.by_name[kind as usize];
        let new = || (name.into(), Budget { bucket: TokenBucket::full(now), refused_until: None });
        let (name, mut budget) = budgets.remove_entry(name).unwrap_or_else(new);
        self.by_end.remove(&(budget.bucket.full_at(), kind, Rc::clone(&name)));
        budget.bucket.pay(now, rate, units(amount));
        self.by_end.insert((budget.bucket.full_at(), kind, Rc::clone(&name)));
        budgets.insert(name, budget);
        if self.by_end.len() > MAX_BUDGETS {
            self.forget_first();
        }
    }

    /// Records the wait that a client was sent. No effect on a full budget.
    pub(super) fn record_wait(&mut self, now: Instant, (kind, name): (BudgetKind, &str), wait: Duration) {
        if let Some(budget) = self.by_name[kind as usize].get_mut(name) {
            budget.refused_until = Some(now + wait);
        }
    }

    /// Returns the rest of the wait that a client was sent. `None`: it is over, or none was sent.
    pub(super) fn remaining_wait(&self, now: Instant, (kind, name): (BudgetKind, &str)) -> Option<Duration> {
        let until = self.by_name[kind as usize].get(name)?.refused_until?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Forgets at most 1,000 budgets that are full.
    pub(super) fn sweep(&mut self, now: Instant) {
        for _ in 0..FORGOTTEN_PER_SWEEP {
            if self.by_end.first().is_none_or(|(full_at, ..)| *full_at > now) {
                return;
            }
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, kind, name)) = self.by_end.pop_first() {
            self.by_name[kind as usize].remove(&name);
        }
    }
}

fn units(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::BudgetKind::{ClientRooms, FanOut, SubjectRooms};
    use super::*;

    const RATE: Rate = Rate { per_second: 10, burst: 20 };
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn budget_counts_for_its_name_and_kind() {
        let (now, mut budgets) = (Instant::now(), Budgets::default());
        budgets.pay(now, (FanOut, "a"), RATE, 20);
        assert_eq!(budgets.wait(now, (FanOut, "a"), RATE, 10), Some(SECOND));
        for other in [(FanOut, "b"), (ClientRooms, "a"), (SubjectRooms, "a")] {
            assert_eq!(budgets.wait(now, other, RATE, 20), None);
        }
    }

    #[test]
    fn sent_wait_ends_with_its_time() {
        let (now, mut budgets) = (Instant::now(), Budgets::default());
        budgets.pay(now, (FanOut, "a"), RATE, 30);
        budgets.record_wait(now, (FanOut, "a"), SECOND);
        assert_eq!(budgets.remaining_wait(now + SECOND / 4, (FanOut, "a")), Some(SECOND * 3 / 4));
        assert_eq!(budgets.remaining_wait(now + SECOND, (FanOut, "a")), None);
    }

    #[test]
    fn full_budget_takes_no_memory_after_sweeps() {
        let (now, mut budgets) = (Instant::now(), Budgets::default());
        (0..1_500).for_each(|n| budgets.pay(now, (FanOut, &n.to_string()), RATE, 10));
        budgets.pay(now, (SubjectRooms, "s"), RATE, 11);
        for left in [501, 1, 1] {
            budgets.sweep(now + SECOND);
            let known: usize = budgets.by_name.iter().map(BTreeMap::len).sum();
            assert_eq!((known, budgets.by_end.len()), (left, left));
        }
    }

    #[test]
    fn many_clients_do_not_displace_a_subject_in_debt() {
        let (now, mut budgets) = (Instant::now(), Budgets::default());
        budgets.pay(now, (SubjectRooms, "s"), RATE, 20);
        (0..MAX_BUDGETS + 10).for_each(|n| budgets.pay(now, (ClientRooms, &n.to_string()), RATE, 19));
        assert_eq!(budgets.by_end.len(), MAX_BUDGETS);
        assert_eq!(budgets.wait(now, (SubjectRooms, "s"), RATE, 10), Some(SECOND));
    }
}
