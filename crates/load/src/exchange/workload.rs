//! Options of a load, planned messages, and the workload of single messages, for `exchange`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use clap::Args;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use crate::message::Size;
use crate::record::Record;
use crate::report::Report;
use crate::schedule::Schedule;

/// The load that the clients of an exchange produce. All times are microseconds on the run's clock.
pub(crate) trait Workload: 'static {
    /// Plans the messages of unit `number` (from 0), which client `from` starts and which is due at
    /// `at_us`. Counts in `record`.
    fn begin(&mut self, number: u64, from: usize, at_us: u64, plan: &mut Plan, record: &mut Record);
    /// Handles the first arrival of a message with this tag at a client. Does nothing by default.
    fn arrived(&mut self, _receiver: usize, _tag: u64, _now_us: u64, _plan: &mut Plan, _record: &mut Record) {}
    /// Returns the number of units that still expect messages; 0 by default.
    fn open(&self) -> u64 {
        0
    }
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    planned: u64,
    due: BinaryHeap<Reverse<Message>>,
}

/// A planned message: its time on the run's clock in microseconds, sender, the workload's tag, and
/// length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) at_us: u64,
    order: u64,
    pub(super) from: usize,
    pub(super) tag: u64,
    pub(super) bytes: usize,
}

impl Plan {
    /// Plans a message of client `from`, due at `at_us`. `tag` comes back with its arrival.
    pub(crate) fn add(&mut self, at_us: u64, from: usize, tag: u64, bytes: usize) {
        self.due.push(Reverse(Message { at_us, order: self.planned, from, tag, bytes }));
        self.planned += 1;
    }

    /// Takes the first message that is due at `now_us`; `None` if there is none.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<Message> {
        self.is_due(now_us).then(|| self.due.pop()).flatten().map(|Reverse(message)| message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn is_due(&self, now_us: u64) -> bool {
        self.due.peek().is_some_and(|Reverse(next)| next.at_us <= now_us)
    }
}

/// Workload of clients that take turns to send messages of this size to their groups. A unit is one
/// message.
impl Workload for Size {
    fn begin(&mut self, number: u64, from: usize, at_us: u64, plan: &mut Plan, _record: &mut Record) {
        plan.add(at_us, from, 0, self.bytes(number));
    }
}

/// Groups of clients that send to all others of their group: pairs, or the members of topics.
#[derive(Debug)]
pub(super) struct Groups {
    size: usize,
    /// All clients, one group after the other.
    order: Vec<usize>,
    place_of: Vec<usize>,
}

impl Groups {
    /// Draws groups of `size` clients. The number of clients must be a multiple of it.
    pub(super) fn new(clients: usize, size: usize, seed: u64) -> Self {
        let order = shuffled(clients, seed);
        let mut place_of = vec![0; clients];
        order.iter().enumerate().for_each(|(place, client)| place_of[*client] = place);
        Self { size, order, place_of }
    }

    /// Returns the group of a client, with that client.
    pub(super) fn of(&self, client: usize) -> &[usize] {
        let first = self.place_of[client] / self.size * self.size;
        &self.order[first..first + self.size]
    }

    pub(super) fn others(&self, client: usize) -> impl Iterator<Item = usize> {
        self.of(client).iter().copied().filter(move |other| *other != client)
    }

    /// Returns the place of a client in its group, from 0.
    pub(super) fn place(&self, client: usize) -> usize {
        self.place_of[client] % self.size
    }
}

/// Returns all clients in the order in which they start units, again and again.
pub(crate) fn turns(clients: usize, seed: u64) -> Vec<usize> {
    shuffled(clients, seed.wrapping_add(1))
}

fn shuffled(clients: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..clients).collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed));
    order
}

/// Duration and seed of a load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct RunOptions {
    /// Measured time, in seconds (1 to 86,400)
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: u64,
    /// Load before the measured time, in seconds (0 to 3,600); messages lost in it count too
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub(crate) warmup: u64,
    /// Seed for the pairs and the order of clients, and for the messages of calls
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Maximum wait at the end for late messages, answers and reconnects, in milliseconds
    #[arg(long, default_value_t = 30_000)]
    pub(crate) settle_ms: u64,
}

/// Messages of a load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct TrafficOptions {
    /// Messages per second of all clients together (1 to 1,000,000)
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) rate: u64,
    /// Size of a message's data, at most 60,000 bytes: ice (200 bytes), sdp (3,000 bytes), varied
    /// (10 of 200 to 300 bytes to 1 of 2,000 to 4,000), or a number of bytes
    #[arg(long, default_value = "ice")]
    pub(crate) size: Size,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

impl RunOptions {
    /// Adds the options and the record of the clients to a report. `rate` is in units per second.
    pub(crate) fn describe(&self, report: &mut Report, clients: u32, rate: u64, record: &Record) {
        report.set("clients", clients);
        report.set("rate", rate);
        report.set("seconds", self.seconds);
        report.set("warmup", self.warmup);
        report.set("seed", self.seed);
        report.set("sent_share", record.sent_share());
        record.describe(report);
    }

    /// Returns the schedule of warm-up and measured time, at `rate` units per second.
    pub(crate) fn schedule(&self, rate: u64) -> Schedule {
        Schedule { rate, duration_us: (self.warmup + self.seconds) * 1_000_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_no_client_and_each_client_has_its_turn() {
        for size in [2, 5] {
            let groups = Groups::new(100, size, 7);

            for client in 0..100 {
                assert_eq!(groups.of(client)[groups.place(client)], client);
                assert_eq!(groups.others(client).count(), size - 1);
                assert!(groups.others(client).all(|other| groups.of(other) == groups.of(client)));
            }
            assert_ne!(groups.order, Groups::new(100, size, 8).order);
        }
        let mut order = turns(100, 7);
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
