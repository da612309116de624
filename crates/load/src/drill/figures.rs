use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::course::{Course, between};
use super::load::{Evidence, Load};
use crate::exchange::Arrival;
use crate::latency::p99_us;

/// What became of a load, and of the sessions meanwhile.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The load.
    pub load: Load,
    /// The share of the schedule that was sent; below 1 the machine is too slow for the rate.
    pub sent_share: f64,
    /// Messages that clients wrote.
    pub sent: u64,
    /// Messages that arrived, each counted once.
    pub delivered: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Messages that arrived again, though their sender sent them once.
    pub doubled: u64,
    /// Messages that arrived again since their sender did not know that they had and sent them again, or on the next
    /// socket of a client that came back.
    pub copied: u64,
    /// Messages that arrived after one that was sent later.
    pub swapped: u64,
    /// Messages that were not for who got them.
    pub foreign: u64,
    /// Messages that asked for an ack and got no answer.
    pub unanswered: u64,
    /// Messages that had an ack and never arrived.
    pub untrue: u64,
    /// Messages whose sender was told that they failed.
    pub errors: u64,
    /// Frames that were no message and no ack, by type; errors by code.
    pub other_frames: BTreeMap<String, u64>,
    /// Sockets that ended, by reason; of clients that come back, those closed with 1001 are in `sent_away`.
    pub closed: BTreeMap<String, u64>,
    /// Sockets of clients that come back, closed with 1001.
    pub sent_away: u64,
    /// Clients that came back.
    pub returned: u64,
    /// Of these, those that were told that their session went on.
    pub resumed: u64,
    /// Messages that those clients sent again.
    pub sent_again: u64,
    /// Sessions that came to another node, or to the same one again, since the fault began.
    pub moved: u64,
    /// Messages that nodes and edges sent again since the fault began.
    pub resends: u64,
    /// Repeats that edges did not write again since the fault began.
    pub filtered: u64,
    /// The longest that a message took, from when it was to be sent.
    pub longest: Duration,
    /// Of all messages.
    pub p99: Duration,
    /// Of the messages before the fault.
    pub calm_p99: Duration,
    /// How long the fault took.
    pub fault: Duration,
    /// From the begin of the fault until every session was at one node and less than 1 in 100 messages were late;
    /// `None` when that has not come to be.
    pub settled: Option<Duration>,
    /// Whether at the end every session was at exactly one node.
    pub is_complete: bool,
}

impl Figures {
    pub(super) fn new(load: &Load, evidence: &Evidence, fault_us: Range<u64>) -> Self {
        let Evidence { measured_us, recording, samples, record, totals, acks, returns } = evidence;
        let arrivals = &recording.arrivals;
        let calm_us = measured_us.start..fault_us.start;
        let p99 = |arrivals: &[Arrival]| p99_us(arrivals.iter().map(|arrival| arrival.latency_us).collect());
        let course = Course::new(samples, recording, u64::from(load.clients), &calm_us);
        let last_us = samples.last().map_or(measured_us.end, |sample| sample.at_us + 1).max(measured_us.end);
        let effect = course.effect(fault_us.start..last_us);
        let us = Duration::from_micros;
        Self {
            load: load.clone(),
            sent_share: record.sent_share(),
            sent: totals.sent,
            delivered: totals.delivered,
            lost: totals.lost,
            doubled: totals.doubled,
            copied: totals.copied,
            swapped: totals.swapped,
            foreign: record.count("foreign", "messages"),
            unanswered: acks.unanswered,
            untrue: acks.untrue,
            errors: record.count("errors", "errors"),
            other_frames: record.group("received"),
            closed: record.group("closed"),
            sent_away: returns.sent_away,
            returned: returns.returned,
            resumed: returns.resumed,
            sent_again: returns.sent_again,
            moved: effect.counts.moved(),
            resends: effect.counts.resends,
            filtered: effect.counts.filtered,
            longest: us(arrivals.iter().map(|arrival| u64::from(arrival.latency_us)).max().unwrap_or(0)),
            p99: us(p99(arrivals).unwrap_or(0)),
            calm_p99: us(p99(between(arrivals, &calm_us, |arrival| arrival.at_us)).unwrap_or(0)),
            fault: us(fault_us.end - fault_us.start),
            settled: effect.settled_us().map(us),
            is_complete: effect.complete_us.is_some(),
        }
    }

    /// Sockets that the mesh closed for no reason that the load allows for.
    #[must_use]
    pub fn closed_by_the_mesh(&self) -> u64 {
        self.closed.values().sum()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load { clients, rate, seed, come_back, .. } = self.load;
        let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
        write!(
            out,
            "seed {seed}: {clients} clients, {rate}/s ({:.1}% sent), fault at {} for {}: {} sent, {} delivered, {} lost, \
             {} doubled, {} swapped, {} closed {:?}, {} errors, {} unanswered, {} untrue acks; {} moved, {} resends, {} filtered; \
             longest gap {}, p99 {} (before {}), settled after {}",
            self.sent_share * 100.0,
            seconds(self.load.fault_at()),
            seconds(self.fault),
            self.sent,
            self.delivered,
            self.lost,
            self.doubled,
            self.swapped,
            self.closed_by_the_mesh(),
            self.closed,
            self.errors,
            self.unanswered,
            self.untrue,
            self.moved,
            self.resends,
            self.filtered,
            seconds(self.longest),
            seconds(self.p99),
            seconds(self.calm_p99),
            self.settled.map_or_else(|| "never".to_owned(), seconds),
        )?;
        if come_back {
            write!(
                out,
                "; {} sent away, {} returned, {} resumed, {} sent again by clients, {} of them arrived twice",
                self.sent_away, self.returned, self.resumed, self.sent_again, self.copied
            )?;
        }
        if !self.other_frames.is_empty() {
            write!(out, "; other frames {:?}", self.other_frames)?;
        }
        Ok(())
    }
}
