//! Counts of events. A simulation in which an event never happens proves nothing about it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::plan::FaultKind;

/// Events of custody and rooms that many seeds together must contain, besides each fault.
const DEMANDED: &[&str] = &[
    "clients: messages that their application had",
    "clients: requests repeated in a resumed session",
    "clients: requests sent anew in another session",
    "clients: resumed",
    "clients: resumed at another edge",
    "clients: drained",
    "clients: sockets closed without a goodbye",
    "clients: stalls",
    "process pauses detected",
    "edges: duplicates dropped",
    "edges: client reads paused",
    "edges: sequence gaps",
    "edges: handoffs",
    "edges: messages refused by full filters",
    "edges: messages refused by full outputs",
    "edges: retransmissions",
    "messages given up early",
    "messages unavailable",
    "nodes: batches sent again",
    "nodes: detours",
    "nodes: holds expired",
    "nodes: lingering sessions moved",
    "nodes: envelopes relayed",
    "nodes: retransmissions",
    "nodes: sessions resumed",
    "rooms: admitted from the queue",
    "rooms: broadcasts answered behind a loss",
    "rooms: broadcasts that applications got",
    "rooms: compared when all was quiet",
    "rooms: joins anew in another session",
    "rooms: members expired",
    "rooms: operations without a result",
    "rooms: resyncs",
    "rooms: seats moved to another node",
    "rooms: seats restored",
    "silence: lanes refused",
    "silence: trunks refused",
    "trunks closed for silence",
    "views seen at different times",
];

/// Counts by name, summed over runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<Cow<'static, str>, u64>);

impl Counters {
    /// Adds `count` to the count of `what`. A count of 0 is shown too.
    pub(crate) fn add(&mut self, what: impl Into<Cow<'static, str>>, count: u64) {
        *self.0.entry(what.into()).or_default() += count;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, count)| self.add(what.clone(), *count));
    }

    /// Returns the events that many seeds must contain and that never happened: each usual fault,
    /// and required events of custody and rooms.
    pub fn missing(&self) -> Vec<String> {
        let faults = FaultKind::usual().map(FaultKind::name);
        let demanded = faults.chain(DEMANDED.iter().map(|what| (*what).to_owned()));
        demanded.filter(|what| self.get(what) == 0).collect()
    }

    /// Returns the count of `what`; 0 if it never happened.
    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "  {count:>12}  {what}")?;
        }
        Ok(())
    }
}
