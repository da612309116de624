//! Messages that wait for their recipients.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::Origin;
use signaling_wire::forward::QueueId;
use slotmap::{SlotMap, new_key_type};

use super::deadline::Deadline;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct HoldLimits {
    /// Bytes for one recipient: what several senders' offers come to.
    pub bytes_per_recipient: usize,
    /// Bytes in all.
    pub bytes: usize,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { bytes_per_recipient: 1024 * 1024, bytes: 64 * 1024 * 1024 }
    }
}

/// What a parcel costs beside its payload.
pub(super) const OVERHEAD: usize = 160;

/// The way that a fate has to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReturnPath {
    /// The sender's node is this one.
    Here,
    /// Through `node`, and from there through `via`, the sender's own node first.
    Through { node: NodeId, via: Box<[NodeId]> },
}

/// A message on its last leg: at the node where its recipient is, or should be.
#[derive(Debug, Clone)]
pub(super) struct InboundMessage {
    pub(super) origin: Origin,
    /// Who it is for.
    pub(super) to: KeyHash,
    pub(super) prev: u64,
    pub(super) life: Deadline,
    /// It may have been sent before.
    pub(super) repeat: bool,
    /// Other copies may be on their way to the recipient: this node does not know that it was never delivered.
    pub(super) shared: bool,
    pub(super) queue_id: QueueId,
    pub(super) back: ReturnPath,
    pub(super) payload: Rc<[u8]>,
}

impl InboundMessage {
    fn cost(&self) -> usize {
        self.payload.len() + OVERHEAD
    }
}

new_key_type! { struct HoldKey; }

#[derive(Debug)]
struct Held {
    to: ClientId,
    parcels: VecDeque<InboundMessage>,
    bytes: usize,
    /// None of them is over before.
    over_from: Instant,
}

/// All that waits, by recipient.
#[derive(Debug)]
pub(super) struct HoldQueues {
    limits: HoldLimits,
    held: SlotMap<HoldKey, Held>,
    key_by_recipient: HashMap<ClientId, HoldKey>,
    bytes: usize,
    refused: u64,
}

impl HoldQueues {
    pub(super) fn new(limits: HoldLimits) -> Self {
        Self { limits, held: SlotMap::with_key(), key_by_recipient: HashMap::new(), bytes: 0, refused: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Parcels for which there was no room.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Keeps a parcel in its order; a repeat takes the place of what it repeats. Says whether there was room.
    pub(super) fn push(&mut self, to: &str, parcel: InboundMessage) -> bool {
        let key = match self.key_by_recipient.get(to) {
            Some(key) => *key,
            None => {
                let Ok(to) = ClientId::new(to) else { return false };
                let over_from = parcel.life.expires;
                let key = self.held.insert(Held { to: to.clone(), parcels: VecDeque::new(), bytes: 0, over_from });
                self.key_by_recipient.insert(to, key);
                key
            }
        };
        let Some(held) = self.held.get_mut(key) else { return false };
        held.over_from = held.over_from.min(parcel.life.expires);
        if let Some(same) = held.parcels.iter_mut().find(|same| same.origin == parcel.origin) {
            // Whoever has a message counts its life down; who was stopped meanwhile counted late.
            let expires = same.life.expires.min(parcel.life.expires);
            *same = InboundMessage { life: Deadline { expires, ..parcel.life }, ..parcel };
            return true;
        }
        let cost = parcel.cost();
        if held.bytes + cost > self.limits.bytes_per_recipient || self.bytes + cost > self.limits.bytes {
            self.refused += 1;
            if held.parcels.is_empty() {
                self.remove(key);
            }
            return false;
        }
        held.bytes += cost;
        self.bytes += cost;
        let behind = |earlier: &InboundMessage| {
            earlier.origin.session == parcel.origin.session && earlier.origin.number > parcel.origin.number
        };
        let at = held.parcels.iter().position(behind).unwrap_or(held.parcels.len());
        held.parcels.insert(at, parcel);
        true
    }

    /// How many parcels wait for one recipient, their bytes, and before when none of them is over.
    pub(super) fn waiting_for(&self, to: &str) -> Option<(usize, usize, Instant)> {
        let held = self.held.get(*self.key_by_recipient.get(to)?)?;
        Some((held.parcels.len(), held.bytes, held.over_from))
    }

    /// Takes all that waits for one recipient.
    pub(super) fn take(&mut self, to: &str) -> VecDeque<InboundMessage> {
        let key = self.key_by_recipient.get(to).copied();
        key.and_then(|key| self.remove(key)).map(|held| held.parcels).unwrap_or_default()
    }

    /// Takes what has waited longest for one recipient.
    pub(super) fn take_first(&mut self, to: &str) -> Option<InboundMessage> {
        let key = *self.key_by_recipient.get(to)?;
        let held = self.held.get_mut(key)?;
        let parcel = held.parcels.pop_front()?;
        held.bytes -= parcel.cost();
        self.bytes -= parcel.cost();
        if held.parcels.is_empty() {
            self.remove(key);
        }
        Some(parcel)
    }

    /// Takes what has waited long enough.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<InboundMessage> {
        let mut expired = Vec::new();
        let mut emptied = Vec::new();
        for (key, held) in self.held.iter_mut().filter(|(_, held)| held.over_from <= now) {
            let before = expired.len();
            while let Some(at) = held.parcels.iter().position(|parcel| parcel.life.is_over(now)) {
                expired.extend(held.parcels.remove(at));
            }
            let freed: usize = expired.iter().skip(before).map(InboundMessage::cost).sum();
            held.bytes -= freed;
            self.bytes -= freed;
            held.over_from = held.parcels.iter().map(|parcel| parcel.life.expires).min().unwrap_or(now);
            if held.parcels.is_empty() {
                emptied.push(key);
            }
        }
        for key in emptied {
            self.remove(key);
        }
        expired
    }

    /// The recipients that `wanted` picks, for whom something waits.
    pub(super) fn recipients(&self, wanted: impl Fn(&str) -> bool) -> Vec<ClientId> {
        let recipients = self.held.values().map(|held| &held.to);
        recipients.filter(|to| wanted(to.as_str())).cloned().collect()
    }

    /// Takes away what waits of one queue for one recipient.
    pub(super) fn forget(&mut self, to: &str, queue_id: QueueId) {
        self.discard(to, |parcel| parcel.queue_id == queue_id);
    }

    /// Takes away older copies of a message that is over.
    pub(super) fn forget_copies(&mut self, to: &str, origin: Origin) {
        self.discard(to, |parcel| parcel.origin == origin);
    }

    /// Takes away one message whose fate has come another way.
    pub(super) fn forget_one(&mut self, to: &str, queue_id: QueueId, number: u64) {
        self.discard(to, |parcel| parcel.queue_id == queue_id && parcel.origin.number == number);
    }

    /// The recipient for whom a copy of this message waits here while others are under way.
    pub(super) fn recipient_of_shared(&self, queue_id: QueueId, number: u64) -> Option<ClientId> {
        let is_it =
            |parcel: &InboundMessage| parcel.shared && parcel.queue_id == queue_id && parcel.origin.number == number;
        self.held.values().find(|held| held.parcels.iter().any(is_it)).map(|held| held.to.clone())
    }

    fn discard(&mut self, to: &str, unwanted: impl Fn(&InboundMessage) -> bool) {
        let Some(&key) = self.key_by_recipient.get(to) else { return };
        let Some(held) = self.held.get_mut(key) else { return };
        let before = held.bytes;
        held.parcels.retain(|parcel| !unwanted(parcel));
        held.bytes = held.parcels.iter().map(InboundMessage::cost).sum();
        self.bytes -= before - held.bytes;
        if held.parcels.is_empty() {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: HoldKey) -> Option<Held> {
        let held = self.held.remove(key)?;
        self.key_by_recipient.remove(&held.to);
        self.bytes -= held.bytes;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use signaling_wire::SessionId;

    use super::*;

    fn parcel(number: u64, expires: Instant) -> InboundMessage {
        InboundMessage {
            origin: Origin { session: SessionId([1; 16]), number },
            to: KeyHash::of("bob"),
            prev: 0,
            life: Deadline { expires, waits: true },
            repeat: false,
            shared: false,
            queue_id: QueueId(0),
            back: ReturnPath::Here,
            payload: Rc::from(&[0_u8; 40][..]),
        }
    }

    #[test]
    fn what_waits_comes_back_once_in_the_senders_order() {
        let soon = Instant::now() + Duration::from_secs(1);
        let mut holds = HoldQueues::new(HoldLimits::default());
        for number in [1, 3, 2, 3] {
            assert!(holds.push("bob", parcel(number, soon)));
        }
        assert_eq!(holds.bytes(), 3 * 200);
        let numbers: Vec<_> = holds.take("bob").iter().map(|parcel| parcel.origin.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(holds.take("bob").is_empty());
        assert_eq!((holds.bytes(), holds.held.len(), holds.key_by_recipient.len()), (0, 0, 0));
    }

    #[test]
    fn a_queue_that_was_sent_elsewhere_is_forgotten_alone() {
        let soon = Instant::now() + Duration::from_secs(1);
        let mut holds = HoldQueues::new(HoldLimits::default());
        assert!(holds.push("bob", parcel(1, soon)));
        assert!(holds.push("bob", InboundMessage { queue_id: QueueId(7), ..parcel(2, soon) }));
        holds.forget("bob", QueueId(7));
        assert_eq!((holds.bytes(), holds.held.len()), (200, 1));
        holds.forget("bob", QueueId(0));
        assert_eq!((holds.bytes(), holds.held.len(), holds.key_by_recipient.len()), (0, 0, 0));
    }

    #[test]
    fn both_bounds_hold() {
        let soon = Instant::now() + Duration::from_secs(1);
        let mut holds = HoldQueues::new(HoldLimits { bytes_per_recipient: 400, bytes: 600 });
        assert!(holds.push("bob", parcel(1, soon)));
        assert!(holds.push("bob", parcel(2, soon)));
        assert!(!holds.push("bob", parcel(3, soon)));
        assert!(holds.push("carol", parcel(1, soon)));
        assert!(!holds.push("dave", parcel(1, soon)));
        assert_eq!(holds.key_by_recipient.len(), 2, "no trace of those without room");
        assert_eq!(holds.refused(), 2);
    }

    #[test]
    fn expiry_takes_only_what_is_due_and_leaves_nothing_behind() {
        let now = Instant::now();
        let mut holds = HoldQueues::new(HoldLimits::default());
        assert!(holds.push("bob", parcel(1, now + Duration::from_secs(2))));
        assert!(holds.push("bob", parcel(2, now + Duration::from_secs(1))));
        let expired = holds.take_expired(now + Duration::from_secs(1));
        assert_eq!(expired.iter().map(|parcel| parcel.origin.number).collect::<Vec<_>>(), [2]);
        assert_eq!(holds.take_expired(now + Duration::from_secs(2)).len(), 1);
        assert_eq!((holds.bytes(), holds.held.len(), holds.key_by_recipient.len()), (0, 0, 0));
    }
}
