//! Changes to frames between servers that break a rule.

use std::collections::{BTreeMap, BTreeSet};

use signaling_wire::forward::{self, Envelope, Header, Item};
use signaling_wire::trunk::{Attach, Slot, ToEdge, ToNode, Unwritten};
use signaling_wire::{Incarnation, MessageNumber, RemainingTtl, Seq};

use super::Mutant;

impl Mutant {
    fn ttl(self, ttl: RemainingTtl, hold: RemainingTtl) -> RemainingTtl {
        if self == Self::Life { hold } else { ttl }
    }

    fn prev_pending(self, number: MessageNumber) -> MessageNumber {
        if self == Self::Prev { MessageNumber::NONE } else { number }
    }

    /// Changes frames from an edge to a node.
    pub(crate) fn to_node(self, mut bytes: &[u8], hold: RemainingTtl) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut stored: BTreeMap<Slot, Seq> = BTreeMap::new();
        while let Ok(frame) = ToNode::take(&mut bytes) {
            let frame = match frame {
                ToNode::Attach(attach) => {
                    stored.insert(attach.slot, attach.seq);
                    let accepted_at_us = if self == Self::Born { 0 } else { attach.accepted_at_us };
                    let state =
                        attach.state.map(|state| if self == Self::Seats { without_seats(state) } else { state });
                    ToNode::Attach(Attach { accepted_at_us, state, ..attach })
                }
                ToNode::Up { slot, seq, .. }
                    if self == Self::StoreRepeats && stored.get(&slot).is_some_and(|last| seq <= *last) =>
                {
                    continue;
                }
                ToNode::Up { slot, seq, ttl, payload } => ToNode::Up { slot, seq, ttl: self.ttl(ttl, hold), payload },
                ToNode::Confirm { slot, up_to, .. } if self == Self::Written => {
                    ToNode::Confirm { slot, up_to, exceptions: Vec::new() }
                }
                ToNode::Confirm { slot, up_to, exceptions } if self == Self::Again => {
                    let exceptions = exceptions.into_iter().map(|(d, _)| (d, Unwritten::Skipped)).collect();
                    ToNode::Confirm { slot, up_to, exceptions }
                }
                other => other,
            };
            frame.append(&mut out);
        }
        out
    }

    /// Changes frames from a node to an edge.
    pub(crate) fn to_edge(self, mut bytes: &[u8], hold: RemainingTtl) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(frame) = ToEdge::take(&mut bytes) {
            let frame = match frame {
                ToEdge::Down { slot, down_seq, origin, prev_pending, ttl, payload } => {
                    let (prev_pending, ttl) = (self.prev_pending(prev_pending), self.ttl(ttl, hold));
                    ToEdge::Down { slot, down_seq, origin, prev_pending, ttl, payload }
                }
                other => other,
            };
            frame.append(&mut out);
        }
        out
    }

    /// Changes a batch or an answer between nodes.
    pub(crate) fn between_nodes(self, mut bytes: &[u8], hold: RemainingTtl) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let Ok(header) = forward::open(&mut bytes) else { return out };
        let incarnation = if self == Self::Incarnation { Incarnation([0; 8]) } else { header.incarnation };
        let number = if self == Self::Number { 1 } else { header.number };
        forward::start(&mut out, &Header { incarnation, number, ..header });
        while let Ok(item) = Item::take(&mut bytes) {
            if self.drops(&item) {
                continue;
            }
            let item = match item {
                Item::Envelope(envelope) => {
                    let (prev_pending, ttl) = (self.prev_pending(envelope.prev_pending), self.ttl(envelope.ttl, hold));
                    let via = if self == Self::Via { Vec::new() } else { envelope.via };
                    let retransmitted = envelope.retransmitted && self != Self::KeptOutcomes;
                    Item::Envelope(Envelope { prev_pending, ttl, via, retransmitted, ..envelope })
                }
                other => other,
            };
            item.append(&mut out);
        }
        out
    }

    fn drops(self, item: &Item<'_>) -> bool {
        match item {
            Item::Envelope(envelope) => match self {
                Self::Question => envelope.ttl == RemainingTtl::NONE,
                Self::PassingOn => !envelope.via.is_empty(),
                _ => false,
            },
            Item::Outcome { via, .. } => self == Self::Path && !via.is_empty(),
            Item::Held { .. } => self == Self::Held,
            Item::Forget { .. } => self == Self::Forget,
            Item::Located { .. } => self == Self::Located,
            Item::Lingering { .. } => self == Self::Lingering,
            Item::Seats { .. } => self == Self::LingeringSeats,
            Item::RoomChanged { .. } => self == Self::RoomChanges,
            Item::RequestSession { .. } | Item::Copies { .. } => false,
        }
    }
}

/// Returns a session's state without its seats in rooms.
fn without_seats(state: &[u8]) -> &[u8] {
    let words: [&[u8]; 2] = [b"admitted", b"resumed"];
    words.into_iter().find(|word| state.starts_with(word)).unwrap_or(state)
}

/// Splits an answer: one part without the outcomes, and the outcomes for a separate batch.
pub(crate) fn without_outcomes(mut answer: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut rest, mut outcomes) = (Vec::new(), Vec::new());
    let Ok(header) = forward::open(&mut answer) else { return (rest, outcomes) };
    forward::start(&mut rest, &header);
    while let Ok(item) = Item::take(&mut answer) {
        item.append(if matches!(item, Item::Outcome { .. }) { &mut outcomes } else { &mut rest });
    }
    (rest, outcomes)
}

/// Outcomes of one trunk connection, released only in the order of their messages.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    without_outcome: BTreeMap<Slot, BTreeSet<Seq>>,
    waiting: BTreeMap<(Slot, Seq), Vec<u8>>,
}

impl Ordered {
    /// Records the messages that an edge sends.
    pub(crate) fn asks(&mut self, mut bytes: &[u8]) {
        while let Ok(frame) = ToNode::take(&mut bytes) {
            if let ToNode::Up { slot, seq, .. } = frame {
                self.without_outcome.entry(slot).or_default().insert(seq);
            }
        }
    }

    /// Returns the frames of the node that may pass now.
    pub(crate) fn answers(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(frame) = ToEdge::take(&mut bytes) {
            let ToEdge::Outcomes { slot, first, count, outcome, reply } = frame else {
                frame.append(&mut out);
                continue;
            };
            for seq in first.run(count) {
                let mut one = Vec::new();
                ToEdge::Outcomes { slot, first: seq, count: 1, outcome, reply }.append(&mut one);
                self.waiting.insert((slot, seq), one);
            }
            let without_outcome = self.without_outcome.entry(slot).or_default();
            while let Some(first) = without_outcome.first().copied()
                && let Some(outcome) = self.waiting.remove(&(slot, first))
            {
                without_outcome.remove(&first);
                out.extend(outcome);
            }
        }
        out
    }
}
