//! Changes to frames between servers that break a rule. `trunks` and `lanes` apply them.

use std::collections::{BTreeMap, BTreeSet};

use signaling_rooms::{OpResult, Operation, Requester};
use signaling_wire::forward::{self, CopyAnswer, Item};
use signaling_wire::trunk::{Slot, ToEdge, ToNode, Unwritten};
use signaling_wire::{BatchNumber, Elapsed, MessageNumber, Rank, RemainingTtl, Seq, codec};

use super::Mutant;

impl Mutant {
    /// Changes frames from an edge to a node. `hold` is the TTL of a restarted message.
    pub(crate) fn to_node(self, mut bytes: &[u8], hold: RemainingTtl) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut stored = BTreeMap::new();
        while let Ok(mut frame) = ToNode::take(&mut bytes) {
            match &mut frame {
                ToNode::Attach(attach) => {
                    stored.insert(attach.slot, attach.seq);
                    match self {
                        Self::Ranks => attach.rank = Rank::NONE,
                        Self::Attachments => attach.attachment = 1,
                        Self::Seats => attach.state = attach.state.map(without_seats),
                        _ => {}
                    }
                }
                ToNode::Up { slot, seq, ttl, .. } => match self {
                    Self::EdgeRetransmissions if stored.get(slot).is_some_and(|last| *seq <= *last) => continue,
                    Self::RemainingTtl => *ttl = hold,
                    _ => {}
                },
                ToNode::Clock { .. } if self == Self::LateFrames => continue,
                ToNode::Confirm { exceptions, .. } => match self {
                    Self::Written => exceptions.clear(),
                    Self::SkippedReports => exceptions.iter_mut().for_each(|(_, why)| *why = Unwritten::Skipped),
                    _ => {}
                },
                _ => {}
            }
            frame.append(&mut out);
        }
        out
    }

    /// Changes frames from a node to an edge. `hold` is the TTL of a restarted message.
    pub(crate) fn to_edge(self, mut bytes: &[u8], hold: RemainingTtl) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        while let Ok(mut frame) = ToEdge::take(&mut bytes) {
            match (self, &mut frame) {
                (Self::LateFrames, ToEdge::Clock { .. }) => continue,
                (Self::RemainingTtl, ToEdge::Down { ttl, .. }) => *ttl = hold,
                (Self::PrevPending, ToEdge::Down { prev_pending, .. }) => *prev_pending = MessageNumber::NONE,
                _ => {}
            }
            frame.append(&mut out);
        }
        out
    }

    /// Changes a batch for a node whose view has this hash. `hold` is the TTL of a restarted
    /// message.
    pub(crate) fn between_nodes(self, mut bytes: &[u8], hold: RemainingTtl, to_view: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let Ok((number, elapsed)) = forward::open(&mut bytes) else { return out };
        forward::start(&mut out, if self == Self::BatchNumbers { BatchNumber(1) } else { number }, elapsed);
        let mut rewritten;
        while let Ok(mut item) = Item::take(&mut bytes) {
            if self.drops(&item) {
                continue;
            }
            match (self, &mut item) {
                (Self::RemainingTtl, Item::Envelope(envelope)) => envelope.ttl = hold,
                (Self::PrevPending, Item::Envelope(envelope)) => envelope.prev_pending = MessageNumber::NONE,
                (Self::Via, Item::Envelope(envelope)) => envelope.via.clear(),
                (Self::KeptOutcomes, Item::Envelope(envelope)) => envelope.retransmitted = false,
                (Self::RoomReports, Item::ViewConfirmed { rooms, .. }) => rooms.clear(),
                (Self::Barrier, Item::ViewQuery { view, .. }) => *view = to_view,
                (Self::RoomEpochs, Item::RoomChanged { epoch, .. }) => *epoch = 0,
                (Self::RoomEpochs, Item::RoomResult { result, .. }) => {
                    if let Ok(known) = codec::from_bytes::<OpResult>(result) {
                        rewritten = codec::to_bytes(&OpResult { epoch: 0, ..known });
                        *result = &rewritten;
                    }
                }
                (Self::LateDrops, Item::RoomRequest { op, .. }) => {
                    if let Ok(Operation::Drop { requester, keep }) = codec::from_bytes(op) {
                        let requester = Requester { attachment: u64::MAX, ..requester };
                        rewritten = codec::to_bytes(&Operation::Drop { requester, keep });
                        *op = &rewritten;
                    }
                }
                _ => {}
            }
            item.append(&mut out);
        }
        out
    }

    /// Returns a batch with another time, at which its receiver finds it in time.
    pub(crate) fn in_time(mut bytes: &[u8], elapsed: Elapsed) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        if let Ok((number, _)) = forward::open(&mut bytes) {
            forward::start(&mut out, number, elapsed);
            out.extend_from_slice(bytes);
        }
        out
    }

    fn drops(self, item: &Item<'_>) -> bool {
        match item {
            Item::Envelope(envelope) => match self {
                Self::OutcomeRequests => envelope.ttl == RemainingTtl::NONE,
                Self::Relays => !envelope.via.is_empty(),
                _ => false,
            },
            Item::Outcome { via, .. } => self == Self::ReturnPath && !via.is_empty(),
            Item::Held { .. } => self == Self::Held,
            Item::Forget { .. } => self == Self::Forget,
            Item::Located { .. } => self == Self::Located,
            Item::Lingering { .. } => self == Self::Lingering,
            Item::Seats { .. } => self == Self::LingeringSeats,
            Item::RoomChanged { .. } => self == Self::RoomChanges,
            Item::ClaimSeats(_) => self == Self::ClaimSeats,
            Item::RoomCopy { .. } => self == Self::RoomCopies,
            Item::RoomRetired { .. } => self == Self::RoomRetired,
            Item::RoomCopied { answer: CopyAnswer::Accepted, .. } => self == Self::RoomCopied,
            Item::RoomCopied { .. } => self == Self::RefusedLogs,
            Item::RoomRequest { op, .. } => codec::from_bytes(op).is_ok_and(|op| match op {
                Operation::Drop { .. } => self == Self::SeatDrops,
                Operation::Claim { seats } => self == Self::Claims && !seats.is_empty(),
                Operation::Restore { .. } => self == Self::Restore,
                _ => false,
            }),
            _ => false,
        }
    }
}

/// Returns a session's state without its seats in rooms.
fn without_seats(state: &[u8]) -> &[u8] {
    let words: [&[u8]; 2] = [b"admitted", b"resumed"];
    words.into_iter().find(|word| state.starts_with(word)).unwrap_or(state)
}

/// Requests between nodes that are not repeated: the batch of each, by sender and number. Queries
/// have a recipient too.
#[derive(Debug, Default)]
pub(crate) struct Once(BTreeMap<(usize, Option<usize>, u64), BatchNumber>);

impl Once {
    /// Returns a batch between these nodes without the repeated requests that the mutant
    /// suppresses.
    pub(crate) fn without_repeats(&mut self, mutant: Mutant, (from, to): (usize, usize), mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let Ok((number, elapsed)) = forward::open(&mut bytes) else { return out };
        forward::start(&mut out, number, elapsed);
        while let Ok(item) = Item::take(&mut bytes) {
            let key = match item {
                Item::RoomRequest { id, .. } if mutant == Mutant::RepeatedRequests => Some((from, None, id.0)),
                Item::ViewQuery { query, .. } if mutant == Mutant::RepeatedQueries => Some((from, Some(to), query)),
                _ => None,
            };
            if key.is_none_or(|key| *self.0.entry(key).or_insert(number) == number) {
                item.append(&mut out);
            }
        }
        out
    }
}

/// Outcomes of one trunk connection, released only in the order of their messages.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    pending: BTreeMap<Slot, BTreeSet<Seq>>,
    waiting: BTreeMap<(Slot, Seq), Vec<u8>>,
}

impl Ordered {
    /// Records the messages that an edge sends.
    pub(crate) fn asks(&mut self, mut bytes: &[u8]) {
        while let Ok(frame) = ToNode::take(&mut bytes) {
            if let ToNode::Up { slot, seq, .. } = frame {
                self.pending.entry(slot).or_default().insert(seq);
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
            let pending = self.pending.entry(slot).or_default();
            while let Some(first) = pending.first().copied()
                && let Some(outcome) = self.waiting.remove(&(slot, first))
            {
                pending.remove(&first);
                out.extend(outcome);
            }
        }
        out
    }
}
