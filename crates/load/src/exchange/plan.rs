use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::message::Body;
use crate::record::Record;

/// The load that the clients of an exchange produce.
pub(crate) trait Workload: 'static {
    /// Plans the messages of one unit of the schedule, which is due now.
    fn begin(&mut self, number: u64, at_us: u64, plan: &mut Plan, record: &mut Record);
    /// Handles the first arrival of a message.
    fn arrived(&mut self, _arrived: &Arrived, _plan: &mut Plan, _record: &mut Record) {}
    fn open(&self) -> u64 {
        0
    }
}

pub(crate) struct Arrived {
    pub(crate) receiver: usize,
    /// Tag that the workload assigned.
    pub(crate) tag: u64,
    pub(crate) now_us: u64,
}

/// Messages to be sent, in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    planned: u64,
    due: BinaryHeap<Reverse<Message>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) at_us: u64,
    order: u64,
    pub(super) from: usize,
    pub(super) tag: u64,
    pub(super) body: Body,
}

impl Plan {
    pub(crate) fn add(&mut self, at_us: u64, from: usize, tag: u64, body: Body) {
        self.due.push(Reverse(Message { at_us, order: self.planned, from, tag, body }));
        self.planned += 1;
    }

    pub(super) fn next(&mut self, now_us: u64) -> Option<Message> {
        self.is_due(now_us).then(|| self.due.pop()).flatten().map(|Reverse(message)| message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn is_due(&self, now_us: u64) -> bool {
        self.due.peek().is_some_and(|Reverse(next)| next.at_us <= now_us)
    }
}
