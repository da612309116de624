use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::crew::Part;
use crate::latency::Latencies;
use crate::merge::add_counts;
use crate::timeline::Timeline;

/// From the loss of a socket to the next one. Times are those of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journey {
    /// Whose it is.
    pub(super) client: u64,
    pub(super) lost_us: u64,
    pub(super) tries: u32,
    /// `None` while it is on its way, and for good if it was told not to come back.
    pub(super) back_us: Option<u64>,
    /// The mesh says that it is the same session.
    pub(super) is_resumed: bool,
    pub(super) is_refused_for_good: bool,
}

/// Who was lost and came back, in one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HerdPart {
    pub(super) connect: Latencies,
    pub(super) journeys: Vec<Journey>,
    /// Tries that failed, by reason.
    pub(super) refusals: BTreeMap<String, u64>,
    /// Tries begun, clients back, tries failed.
    pub(super) timeline: Timeline,
}

/// Where a journey stands in the log.
#[derive(Clone, Copy)]
pub(super) struct Ticket(usize);

impl HerdPart {
    pub(super) fn new(seconds: u64) -> Result<Self> {
        Ok(Self {
            connect: Latencies::new()?,
            journeys: Vec::new(),
            refusals: BTreeMap::new(),
            timeline: Timeline::lasting(seconds),
        })
    }

    /// A client has lost its socket.
    pub(super) fn lost(&mut self, client: u64, now_us: u64) -> Ticket {
        let (back_us, is_resumed, is_refused_for_good) = (None, false, false);
        let journey = Journey { client, lost_us: now_us, tries: 0, back_us, is_resumed, is_refused_for_good };
        self.journeys.push(journey);
        Ticket(self.journeys.len() - 1)
    }

    /// It tries to connect.
    pub(super) fn tries(&mut self, ticket: Ticket, now_us: u64) {
        self.journeys[ticket.0].tries += 1;
        self.timeline.begun(now_us);
    }

    /// It is back.
    pub(super) fn back(&mut self, ticket: Ticket, now_us: u64, took: Duration, is_resumed: bool) {
        let journey = &mut self.journeys[ticket.0];
        (journey.back_us, journey.is_resumed) = (Some(now_us), is_resumed);
        self.timeline.done(now_us, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// It could not connect, and does not try again if that was final.
    pub(super) fn refused(&mut self, ticket: Ticket, now_us: u64, why: &str, is_final: bool) {
        self.journeys[ticket.0].is_refused_for_good = is_final;
        *self.refusals.entry(why.to_owned()).or_default() += 1;
        self.timeline.failed(now_us);
    }

    /// The latest journey of each client that was lost at all.
    pub(super) fn latest_by_client(&self) -> BTreeMap<u64, &Journey> {
        self.journeys.iter().map(|journey| (journey.client, journey)).collect()
    }
}

impl Journey {
    /// Whether it has come to an end, one way or the other.
    pub(super) fn has_ended(&self) -> bool {
        self.back_us.is_some() || self.is_refused_for_good
    }
}

impl Part for HerdPart {
    fn absorb(&mut self, other: Self) {
        self.connect.absorb(&other.connect);
        self.journeys.extend(other.journeys);
        add_counts(&mut self.refusals, other.refusals);
        self.timeline.absorb(&other.timeline);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_journey_ends_with_a_socket_or_with_a_refusal_that_is_final() {
        let mut log = HerdPart::new(10).unwrap();
        let (one, other, third) = (log.lost(0, 1_000), log.lost(1, 1_000), log.lost(2, 1_000));
        let ended = |log: &HerdPart| log.latest_by_client().values().filter(|journey| journey.has_ended()).count();
        for ticket in [one, other, third] {
            log.tries(ticket, 2_000);
        }
        log.refused(one, 3_000, "refused with 503", false);
        log.refused(other, 3_000, "refused with 409", true);
        log.refused(third, 3_000, "refused with 503", false);
        assert_eq!(ended(&log), 1);

        log.tries(one, 4_000);
        log.back(one, 5_000, Duration::from_micros(1_000), true);

        assert_eq!(ended(&log), 2);
        assert_eq!(
            log.refusals,
            BTreeMap::from([("refused with 409".to_owned(), 1), ("refused with 503".to_owned(), 2)])
        );
        let back_us = Some(5_000);
        let expected =
            Journey { client: 0, lost_us: 1_000, tries: 2, back_us, is_resumed: true, is_refused_for_good: false };
        assert_eq!(log.journeys[0], expected);
    }

    #[test]
    fn a_client_that_is_lost_again_is_one_client_on_its_latest_journey() {
        let mut log = HerdPart::new(10).unwrap();
        let first = log.lost(7, 1_000);
        log.back(first, 2_000, Duration::from_micros(1), true);
        log.lost(7, 3_000);

        let latest = log.latest_by_client();

        assert_eq!(latest.len(), 1);
        assert!(!latest[&7].has_ended());
    }
}
