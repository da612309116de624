//! Paces requests within the rate that the server's `welcome` has, for `Core`.

use signaling_protocol::server::ClientRate;

use super::Ms;
use crate::rules::{MESSAGE_OVERHEAD, RATE_TENTHS};

/// A message or byte, in units of a bucket. Tenths per millisecond stay whole numbers.
const UNIT: i128 = 10_000;

/// Levels of the server's limits, counted as the server does, with a reserve.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
    /// Time at which the refused request may be sent; `None` if none was refused.
    pub(super) free_at: Option<Ms>,
}

#[derive(Debug)]
struct Bucket {
    at: Ms,
    level: i128,
    capacity: i128,
    /// Units per millisecond.
    refill: i128,
}

impl Pacer {
    /// Creates a pacer from the limits of the server and their present levels.
    pub(super) fn new(now: Ms, rate: &ClientRate) -> Self {
        Self {
            messages: Bucket::new(now, rate.messages, rate.burst, rate.now),
            bytes: Bucket::new(now, rate.bytes, rate.byte_burst, rate.bytes_now),
            free_at: None,
        }
    }

    /// Returns `true` if a text of this size may be sent now, and counts it.
    pub(super) fn take(&mut self, now: Ms, bytes: usize) -> bool {
        let costs = [(&mut self.messages, 1), (&mut self.bytes, bytes + MESSAGE_OVERHEAD)];
        let mut paid: Vec<_> = costs
            .into_iter()
            .filter_map(|(bucket, cost)| Some((bucket.as_mut()?, i128::try_from(cost).ok()? * UNIT)))
            .collect();
        let wait = paid.iter_mut().map(|(bucket, cost)| bucket.wait(now, *cost)).max().unwrap_or_default();
        self.free_at = (wait > 0).then_some(now.saturating_add(wait));
        if wait > 0 {
            return false;
        }
        for (bucket, cost) in paid {
            bucket.level -= cost;
        }
        true
    }
}

impl Bucket {
    /// Returns `None` for a limit that is absent. `level` is the burst unless given.
    fn new(now: Ms, rate: Option<u32>, burst: Option<u32>, level: Option<u32>) -> Option<Self> {
        let (rate, burst) = rate.filter(|rate| *rate > 0).zip(burst.filter(|burst| *burst > 0))?;
        let units = |count: u32| i128::from(count) * UNIT / 10 * RATE_TENTHS;
        let refill = i128::from(rate) * RATE_TENTHS;
        Some(Self { at: now, level: units(level.unwrap_or(burst)), capacity: units(burst), refill })
    }

    /// Refills the bucket. Returns the time until it has this much, or is full.
    fn wait(&mut self, now: Ms, cost: i128) -> Ms {
        let refilled = self.level + i128::from(now.saturating_sub(self.at)) * self.refill;
        (self.at, self.level) = (now, refilled.min(self.capacity));
        let lack = (cost.min(self.capacity) - self.level).max(0);
        Ms::try_from((lack + self.refill - 1) / self.refill).unwrap_or(Ms::MAX)
    }
}
