use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::course::{Course, between};
use super::load::{Evidence, Load};
use crate::exchange::{AckTotals, Arrival, Returns, Totals};
use crate::latency::p99_us;

/// Results of a load: its messages, and the sessions meanwhile.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The load.
    pub load: Load,
    /// Share of the schedule that was sent. Below 1 the machine is too slow for the rate.
    pub sent_share: f64,
    /// Deliveries of the messages.
    pub messages: Totals,
    /// Results of the messages with a requested `ack`.
    pub acks: AckTotals,
    /// Clients that came back.
    pub returns: Returns,
    /// Messages received by the wrong client.
    pub foreign: u64,
    /// Messages whose sender received an error.
    pub errors: u64,
    /// Errors by code, other frames by type.
    pub received: BTreeMap<String, u64>,
    /// Ended sockets, by reason. Sockets closed with 1001 of returning clients are in `returns`.
    pub closed: BTreeMap<String, u64>,
    /// Sessions attached to another node, or to the same one again, since the fault began.
    pub moved: u64,
    /// Messages that nodes and edges retransmitted since the fault began.
    pub resends: u64,
    /// Duplicates that edges dropped since the fault began.
    pub filtered: u64,
    /// Maximum latency of a message since its intended time of sending.
    pub longest: Duration,
    /// 99th percentile latency of all messages.
    pub p99: Duration,
    /// 99th percentile latency of the messages before the fault.
    pub calm_p99: Duration,
    /// Duration of the fault.
    pub fault: Duration,
    /// Time from the start of the fault until every session was at one node and less than 1 in 100
    /// messages were late. `None` if that did not happen.
    pub settled: Option<Duration>,
    /// `true` if every session was at exactly one node at the end.
    pub is_complete: bool,
}

impl Figures {
    pub(super) fn new(load: &Load, evidence: Evidence, fault_us: Range<u64>) -> Self {
        let Evidence { measured_us, recording, samples, record, messages, acks, returns } = evidence;
        let arrivals = &recording.arrivals;
        let calm_us = measured_us.start..fault_us.start;
        let p99 = |arrivals: &[Arrival]| p99_us(arrivals.iter().map(|arrival| arrival.latency_us).collect());
        let course = Course::new(&samples, &recording, u64::from(load.clients), &calm_us);
        let last_us = samples.last().map_or(measured_us.end, |sample| sample.at_us + 1).max(measured_us.end);
        let effect = course.effect(fault_us.start..last_us);
        let us = Duration::from_micros;
        Self {
            load: load.clone(),
            sent_share: record.sent_share(),
            messages,
            acks,
            returns,
            foreign: record.count("foreign", "messages"),
            errors: record.count("errors", "errors"),
            received: record.group("received"),
            closed: record.group("closed"),
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
}
