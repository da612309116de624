//! Token buckets at this edge: one set for each token subject, else for each client id.
//!
//! Pure. All sockets of a subject share its set, and neither a reconnect nor a new session refills
//! it. A set without sessions takes no memory once it is full. Of the others 20,000 are kept.
//! Beyond that the one that is full soonest is forgotten, since it loses the least.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_protocol::server::ClientRate;
use signaling_wire::RateDebts;

use super::rate_limiter::{Exceeded, RateLimits};
use super::{KickName, VerifiedToken};
use signaling_wire::rate::{Rate, TokenBucket};

/// Maximum sets without sessions, about 6 MB of memory: an edge takes 2,000 new clients/s, and a
/// set is usually full 10 s after its last use.
const MAX_UNUSED: usize = 20_000;
/// Cost of a message in bytes in addition to its own, so that short ones are not free.
const FRAME_BYTES: u32 = 64;

/// Rate of refused messages, above which a client is not read: the default one of accepted
/// messages, since both cost as much.
const REFUSALS: Rate = Rate { per_second: 200, burst: 1_000 };
/// Maximum time for which refusals keep a client from being read. Many sockets of a token subject
/// share its refusals.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A token subject or client id. The subject of a native client's token is its client id.
type Owner = Rc<str>;

/// The recent rates of a token subject, or of a client without one.
#[derive(Debug)]
pub(super) struct RateBuckets {
    owner: Owner,
    messages: Cell<TokenBucket>,
    bytes: Cell<TokenBucket>,
    controls: Cell<TokenBucket>,
    /// Refused messages.
    refusals: Cell<TokenBucket>,
    /// Its time in the table's list of unused sets. `None`: a session uses it.
    unused_until: Cell<Option<Instant>>,
}

impl RateBuckets {
    pub(super) fn full(now: Instant, owner: Owner) -> Self {
        let full = || Cell::new(TokenBucket::full(now));
        let unused_until = Cell::new(None);
        Self { owner, messages: full(), bytes: full(), controls: full(), refusals: full(), unused_until }
    }

    /// Returns the time until a message of this size is within the limits, and the limit that it
    /// exceeds now. `None`: it is within the limits.
    pub(super) fn wait(&self, limits: &RateLimits, now: Instant, bytes: usize) -> Option<(Exceeded, Duration)> {
        let wait = |bucket: &Cell<TokenBucket>, rate: Option<Rate>, amount| {
            rate.and_then(|rate| bucket.get().wait(now, rate, amount))
        };
        match wait(&self.messages, limits.messages, 1) {
            Some(wait) => Some((Exceeded::Messages, wait)),
            None => wait(&self.bytes, limits.bytes, cost(bytes)).map(|wait| (Exceeded::Bytes, wait)),
        }
    }

    /// Counts a message of this size, within the limits or not.
    pub(super) fn pay(&self, limits: &RateLimits, now: Instant, bytes: usize) {
        pay(&self.messages, limits.messages, now, 1);
        pay(&self.bytes, limits.bytes, now, cost(bytes));
    }

    /// Counts a refused message. Returns the time until the next message may be read. `None`: it
    /// may be read now.
    pub(super) fn pay_refusal(&self, now: Instant) -> Option<Duration> {
        pay(&self.refusals, Some(REFUSALS), now, 1);
        self.refusals.get().wait(now, REFUSALS, 1).map(|wait| wait.min(MAX_PAUSE))
    }

    /// Returns the limits and their present levels, for the client.
    pub(super) fn client_rate(&self, limits: &RateLimits, now: Instant) -> ClientRate {
        ClientRate {
            messages: limits.messages.map(|rate| rate.per_second.max(1)),
            burst: limits.messages.map(|rate| rate.burst.max(1)),
            bytes: limits.bytes.map(|rate| rate.per_second.max(1)),
            byte_burst: limits.bytes.map(|rate| rate.burst.max(1)),
            now: limits.messages.map(|rate| self.messages.get().level(now, rate)),
            bytes_now: limits.bytes.map(|rate| self.bytes.get().level(now, rate)),
        }
    }

    /// Counts a control frame or a `ping`. Returns `false` if it exceeds its rate.
    pub(super) fn take_control(&self, limits: &RateLimits, now: Instant) -> bool {
        let is_within = limits.controls.is_none_or(|rate| self.controls.get().wait(now, rate, 1).is_none());
        if is_within {
            pay(&self.controls, limits.controls, now, 1);
        }
        is_within
    }

    /// Returns the time until each bucket is full. That of refusals protects this edge alone.
    fn debts(&self, now: Instant) -> RateDebts {
        let debt = |bucket: &Cell<TokenBucket>| {
            let left = bucket.get().full_at().saturating_duration_since(now);
            u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
        };
        RateDebts { messages: debt(&self.messages), bytes: debt(&self.bytes), controls: debt(&self.controls) }
    }

    /// Raises each debt to that of the same session at another edge.
    pub(super) fn raise_debts(&self, now: Instant, RateDebts { messages, bytes, controls }: RateDebts) {
        for (bucket, debt) in [(&self.messages, messages), (&self.bytes, bytes), (&self.controls, controls)] {
            let full_at = now + Duration::from_millis(u64::from(debt));
            if full_at > bucket.get().full_at() {
                bucket.set(TokenBucket::full(full_at));
            }
        }
    }

    fn latest_full_at(&self) -> Instant {
        let full_at = |bucket: &Cell<TokenBucket>| bucket.get().full_at();
        let accepted = full_at(&self.messages).max(full_at(&self.bytes)).max(full_at(&self.controls));
        accepted.max(full_at(&self.refusals))
    }
}

fn pay(bucket: &Cell<TokenBucket>, rate: Option<Rate>, now: Instant, amount: u32) {
    if let Some(rate) = rate {
        let mut paid = bucket.get();
        paid.pay(now, rate, amount);
        bucket.set(paid);
    }
}

/// Returns the cost of a message of this size in bytes.
fn cost(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(FRAME_BYTES)
}

/// The sets of buckets of all sessions, and the sets without a session that are not full.
#[derive(Debug, Default)]
pub(super) struct RateBucketTable {
    /// Time of the last newcomer or sweep, at most 0.5 s ago. `None`: there was none.
    now: Option<Instant>,
    by_owner: HashMap<Owner, Rc<RateBuckets>>,
    /// Sets without a session, by the time at which they are full.
    unused: BTreeSet<(Instant, Owner)>,
}

impl RateBucketTable {
    /// Returns the set of a newcomer. Each call needs a [`Self::release`].
    pub(super) fn acquire(
        &mut self,
        now: Instant,
        client: &ClientId,
        token: Option<&VerifiedToken>,
    ) -> Rc<RateBuckets> {
        self.now = Some(now);
        let subject = token.and_then(|token| token.subject.as_ref()).map(KickName::as_str);
        let owner: Owner = subject.unwrap_or(client.as_str()).into();
        let new = || Rc::new(RateBuckets::full(now, Rc::clone(&owner)));
        let buckets = Rc::clone(self.by_owner.entry(Rc::clone(&owner)).or_insert_with(new));
        if let Some(until) = buckets.unused_until.take() {
            self.unused.remove(&(until, owner));
        }
        buckets
    }

    /// Replaces the set of a session that has a new token, which may have another subject.
    pub(super) fn renew(&mut self, buckets: &mut Rc<RateBuckets>, client: &ClientId, token: &VerifiedToken) {
        if let Some(now) = self.now {
            let former = std::mem::replace(buckets, self.acquire(now, client, Some(token)));
            self.release(former);
        }
    }

    /// Takes back the set of a session that ends.
    pub(super) fn release(&mut self, buckets: Rc<RateBuckets>) {
        let owner = Rc::clone(&buckets.owner);
        drop(buckets);
        let Some(buckets) = self.by_owner.get(&owner).filter(|buckets| Rc::strong_count(buckets) == 1) else { return };
        let full_at = buckets.latest_full_at();
        if self.now.is_some_and(|now| full_at <= now) {
            self.by_owner.remove(&owner);
            return;
        }
        buckets.unused_until.set(Some(full_at));
        self.unused.insert((full_at, owner));
        if self.unused.len() > MAX_UNUSED {
            self.forget_first();
        }
    }

    /// Returns the time until each bucket of a set is full.
    pub(super) fn debts(&self, buckets: &RateBuckets) -> RateDebts {
        self.now.map_or_else(RateDebts::default, |now| buckets.debts(now))
    }

    /// Forgets sets without a session that are full.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.now = Some(now);
        while self.unused.first().is_some_and(|(full_at, _)| *full_at <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, owner)) = self.unused.pop_first() {
            self.by_owner.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Option<Rate> = Some(Rate { per_second: 10, burst: 10 });
    const LIMITS: RateLimits = RateLimits { messages: RATE, bytes: None, controls: RATE };
    const SECOND: Duration = Duration::from_secs(1);

    fn id(text: &str) -> ClientId {
        ClientId::new(text).unwrap()
    }

    fn of_subject(subject: &str) -> VerifiedToken {
        let subject = Some(KickName::new(subject));
        VerifiedToken { grant: Box::default(), subject, issued: 0, expires: None, rate_class: None }
    }

    #[test]
    fn sessions_of_a_subject_share_their_buckets() {
        let (now, mut table, token) = (Instant::now(), RateBucketTable::default(), of_subject("alice"));
        let one = table.acquire(now, &id("~yw1"), Some(&token));
        let same = [table.acquire(now, &id("~yw2"), Some(&token)), table.acquire(now, &id("alice"), None)];
        (0..10).for_each(|_| one.pay(&LIMITS, now, 1));
        assert!(same.iter().all(|same| same.wait(&LIMITS, now, 1).is_some()));
        assert_eq!(table.acquire(now, &id("bob"), None).wait(&LIMITS, now, 1), None);
    }

    #[test]
    fn client_rate_has_what_is_left_and_no_absent_limit() {
        let (now, mut table) = (Instant::now(), RateBucketTable::default());
        let buckets = table.acquire(now, &id("a"), None);
        (0..7).for_each(|_| buckets.pay(&LIMITS, now, 1));
        let left = |after| buckets.client_rate(&LIMITS, now + Duration::from_millis(after)).now;
        assert_eq!([0, 99, 100, 700, 800].map(left), [3, 3, 4, 10, 10].map(Some));
        let rate = buckets.client_rate(&LIMITS, now);
        assert_eq!((rate.messages, rate.burst, rate.bytes, rate.bytes_now), (Some(10), Some(10), None, None));
    }

    #[test]
    fn full_buckets_without_a_session_take_no_memory() {
        let (now, mut table) = (Instant::now(), RateBucketTable::default());
        let (used, full) = (table.acquire(now, &id("a"), None), table.acquire(now, &id("b"), None));
        used.pay(&LIMITS, now, 1);
        table.release(full);
        table.release(used);
        let again = table.acquire(now, &id("a"), None);
        table.sweep(now + SECOND);
        assert_eq!((table.by_owner.len(), table.unused.len()), (1, 0), "a session uses it");
        again.pay(&LIMITS, now + SECOND, 1);
        table.release(again);
        assert_eq!((table.by_owner.len(), table.unused.len()), (1, 1));
        table.sweep(now + 2 * SECOND);
        assert!(table.by_owner.is_empty() && table.unused.is_empty());
    }

    #[test]
    fn debt_of_another_edge_only_rises() {
        let (now, mut table) = (Instant::now(), RateBucketTable::default());
        let buckets = table.acquire(now, &id("a"), None);
        (0..5).for_each(|_| buckets.pay(&LIMITS, now, 1));
        buckets.raise_debts(now, RateDebts { messages: 400, bytes: 30, controls: 20 });
        assert_eq!(buckets.debts(now), RateDebts { messages: 500, bytes: 30, controls: 20 });
    }
}
