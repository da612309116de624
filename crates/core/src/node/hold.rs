//! Messages held for absent recipients, and for recipients whose edges have to confirm others
//! first, until they can go down, go elsewhere or expire. `custody` owns them, `route` and
//! `takeover` add them. Both, `attach`, `location`, `outcome`, `batch` and `sweep` remove them.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::QueueId;
use signaling_wire::{Credential, MessageNumber};
use slotmap::{SlotMap, new_key_type};

use super::NodeCore;
use super::outbound::Message;

/// Maximum bytes of held messages. A further message is dropped; its sender's node retransmits it.
#[derive(Debug, Clone, Copy)]
pub struct HoldLimits {
    /// Maximum bytes for one recipient, with 160 bytes of overhead for each message.
    pub bytes_per_recipient: usize,
    /// Maximum bytes for all recipients, with the overhead.
    pub bytes: usize,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { bytes_per_recipient: 1024 * 1024, bytes: 64 * 1024 * 1024 }
    }
}

/// Return path of an outcome to the sender's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReturnPath {
    /// This is the sender's node.
    Here,
    /// Through `node`, then through `via` from its end to its start, which is the sender's node.
    /// Empty `via`: `node` is the sender's node.
    Through { node: NodeId, via: Box<[NodeId]> },
}

/// A message at the node where its recipient is attached or expected.
#[derive(Debug, Clone)]
pub(super) struct InboundMessage {
    pub(super) sent: Message,
    /// Hash of the recipient's id.
    pub(super) to: KeyHash,
    /// `true` if other copies may be under way, so this node cannot report it expired.
    pub(super) may_have_copies: bool,
    /// The outbound queue at the sender's node, for the outcome.
    pub(super) queue_id: QueueId,
    /// Path of the outcome.
    pub(super) back: ReturnPath,
    /// Credential of the session that it was held for or went down to. It goes down to no session
    /// with another one. `None`: that session had none, or there was none.
    pub(super) reserved_for: Option<Box<Credential>>,
}

impl InboundMessage {
    /// Returns `true` if it may go down to a session with this credential.
    pub(super) fn is_for(&self, credential: Option<&Credential>) -> bool {
        self.reserved_for.as_deref().is_none_or(|reserved| credential == Some(reserved))
    }

    /// Returns `true` if it is the message with this number of an outbound queue.
    pub(super) fn is(&self, queue_id: QueueId, number: MessageNumber) -> bool {
        self.queue_id == queue_id && self.sent.origin.number == number
    }
}

new_key_type! { struct HoldKey; }

#[derive(Debug)]
struct Held {
    to: ClientId,
    messages: VecDeque<InboundMessage>,
    bytes: usize,
    /// Lower limit of all deadlines. No message expires before it.
    min_expiry: Instant,
}

/// Held messages by recipient.
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

    /// Returns the bytes of all held messages, with their overhead.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds a message in its sender's order. A retransmission replaces its copy, except the
    /// payload: a client that repeats a number with other data has sent the first. Returns `false`
    /// without room, or if `to` is no valid name.
    pub(super) fn push(&mut self, to: &str, message: InboundMessage) -> bool {
        let key = match self.key_by_recipient.get(to) {
            Some(key) => *key,
            None => {
                let Ok(to) = ClientId::new(to) else { return false };
                let min_expiry = message.sent.deadline.expires;
                let key = self.held.insert(Held { to: to.clone(), messages: VecDeque::new(), bytes: 0, min_expiry });
                self.key_by_recipient.insert(to, key);
                key
            }
        };
        let Some(held) = self.held.get_mut(key) else { return false };
        held.min_expiry = held.min_expiry.min(message.sent.deadline.expires);
        if let Some(same) = held.messages.iter_mut().find(|same| same.sent.origin == message.sent.origin) {
            // Nodes count the TTL down, and a paused node counts late.
            let expires = same.sent.deadline.expires.min(message.sent.deadline.expires);
            let (payload, reserved_for) = (Rc::clone(&same.sent.payload), same.reserved_for.take());
            *same = message;
            (same.sent.deadline.expires, same.sent.payload) = (expires, payload);
            same.reserved_for = reserved_for.or(same.reserved_for.take());
            return true;
        }
        let cost = message.sent.cost();
        if held.bytes + cost > self.limits.bytes_per_recipient || self.bytes + cost > self.limits.bytes {
            self.refused += 1;
            if held.messages.is_empty() {
                self.remove(key);
            }
            return false;
        }
        held.bytes += cost;
        self.bytes += cost;
        let behind = |earlier: &InboundMessage| {
            earlier.sent.origin.session == message.sent.origin.session
                && earlier.sent.origin.number > message.sent.origin.number
        };
        let at = held.messages.iter().position(behind).unwrap_or(held.messages.len());
        held.messages.insert(at, message);
        true
    }

    /// Takes all messages held for one recipient.
    pub(super) fn take(&mut self, to: &str) -> VecDeque<InboundMessage> {
        let key = self.key_by_recipient.get(to).copied();
        key.and_then(|key| self.remove(key)).map(|held| held.messages).unwrap_or_default()
    }

    /// Takes the first message held for one recipient. `None`: none is held.
    pub(super) fn take_first(&mut self, to: &str) -> Option<InboundMessage> {
        let key = *self.key_by_recipient.get(to)?;
        let held = self.held.get_mut(key)?;
        let message = held.messages.pop_front()?;
        held.bytes -= message.sent.cost();
        self.bytes -= message.sent.cost();
        if held.messages.is_empty() {
            self.remove(key);
        }
        Some(message)
    }

    /// Takes expired messages.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<InboundMessage> {
        let mut expired = Vec::new();
        let mut emptied = Vec::new();
        for (key, held) in self.held.iter_mut().filter(|(_, held)| held.min_expiry <= now) {
            let before = expired.len();
            while let Some(at) = held.messages.iter().position(|message| message.sent.deadline.is_over(now)) {
                expired.extend(held.messages.remove(at));
            }
            let freed: usize = expired.iter().skip(before).map(|message| message.sent.cost()).sum();
            held.bytes -= freed;
            self.bytes -= freed;
            held.min_expiry = held.messages.iter().map(|message| message.sent.deadline.expires).min().unwrap_or(now);
            if held.messages.is_empty() {
                emptied.push(key);
            }
        }
        for key in emptied {
            self.remove(key);
        }
        expired
    }

    /// Returns the recipients of held messages that `wanted` accepts.
    pub(super) fn recipients(&self, wanted: impl Fn(&str) -> bool) -> Vec<ClientId> {
        let recipients = self.held.values().map(|held| &held.to);
        recipients.filter(|to| wanted(to.as_str())).cloned().collect()
    }

    /// Removes a held message that may have other copies: its outcome came on another path.
    pub(super) fn forget_copied(&mut self, queue_id: QueueId, number: MessageNumber) {
        let is_it = |message: &InboundMessage| message.may_have_copies && message.is(queue_id, number);
        let held = self.held.values().find(|held| held.messages.iter().any(is_it));
        if let Some(to) = held.map(|held| held.to.clone()) {
            self.forget(to.as_str(), |message| message.is(queue_id, number));
        }
    }

    /// Removes the messages to one recipient that `unwanted` accepts.
    pub(super) fn forget(&mut self, to: &str, unwanted: impl Fn(&InboundMessage) -> bool) {
        let Some(&key) = self.key_by_recipient.get(to) else { return };
        let Some(held) = self.held.get_mut(key) else { return };
        let before = held.bytes;
        held.messages.retain(|message| !unwanted(message));
        held.bytes = held.messages.iter().map(|message| message.sent.cost()).sum();
        self.bytes -= before - held.bytes;
        if held.messages.is_empty() {
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

impl NodeCore {
    /// Returns the number of messages held for a client, their bytes with overhead, and a time
    /// before which none expires. `None`: none is held.
    pub fn held_for(&self, client: &ClientId) -> Option<(usize, usize, Instant)> {
        let HoldQueues { held, key_by_recipient, .. } = &self.custody.holds;
        let held = held.get(*key_by_recipient.get(client)?)?;
        Some((held.messages.len(), held.bytes, held.min_expiry))
    }

    /// Returns the number of messages, with retransmissions, not held for lack of room so far.
    pub fn hold_refused(&self) -> u64 {
        self.custody.holds.refused
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn message(number: u64, expires: Instant) -> InboundMessage {
        let sent = Message::for_test(number, expires, &[0; 40]);
        let (to, back) = (KeyHash::of("bob"), ReturnPath::Here);
        InboundMessage { sent, to, may_have_copies: false, queue_id: QueueId(0), back, reserved_for: None }
    }

    #[test]
    fn held_messages_return_once_in_the_senders_order() {
        let soon = Instant::now() + Duration::from_secs(1);
        let mut holds = HoldQueues::new(HoldLimits::default());
        for number in [1, 3, 2, 3] {
            assert!(holds.push("bob", message(number, soon)));
        }
        assert_eq!(holds.bytes(), 3 * 200);
        let numbers: Vec<_> = holds.take("bob").iter().map(|message| message.sent.origin.number.0).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(holds.take("bob").is_empty());
        assert_eq!((holds.bytes(), holds.held.len(), holds.key_by_recipient.len()), (0, 0, 0));
    }

    #[test]
    fn repeated_number_with_larger_data_holds_the_first_data() {
        let now = Instant::now();
        let mut holds = HoldQueues::new(HoldLimits::default());
        let larger = InboundMessage { sent: Message::for_test(1, now, &[1; 4000]), ..message(1, now) };
        assert!(holds.push("bob", message(1, now)) && holds.push("bob", larger));
        let expired = holds.take_expired(now);
        assert_eq!((expired.len(), expired[0].sent.payload.len(), holds.bytes()), (1, 40, 0));
    }

    #[test]
    fn redirected_queue_is_forgotten_alone() {
        let soon = Instant::now() + Duration::from_secs(1);
        let mut holds = HoldQueues::new(HoldLimits::default());
        assert!(holds.push("bob", message(1, soon)));
        assert!(holds.push("bob", InboundMessage { queue_id: QueueId(7), ..message(2, soon) }));
        holds.forget("bob", |message| message.queue_id == QueueId(7));
        assert_eq!((holds.bytes(), holds.held.len()), (200, 1));
        holds.forget("bob", |message| message.queue_id == QueueId(0));
        assert_eq!((holds.bytes(), holds.held.len(), holds.key_by_recipient.len()), (0, 0, 0));
    }

    #[test]
    fn both_bounds_hold() {
        let soon = Instant::now() + Duration::from_secs(1);
        let mut holds = HoldQueues::new(HoldLimits { bytes_per_recipient: 400, bytes: 600 });
        assert!(holds.push("bob", message(1, soon)));
        assert!(holds.push("bob", message(2, soon)));
        assert!(!holds.push("bob", message(3, soon)));
        assert!(holds.push("carol", message(1, soon)));
        assert!(!holds.push("dave", message(1, soon)));
        assert_eq!(holds.key_by_recipient.len(), 2, "no trace of those without room");
        assert_eq!(holds.refused, 2);
    }

    #[test]
    fn expiry_takes_only_what_is_due_and_leaves_nothing_behind() {
        let now = Instant::now();
        let mut holds = HoldQueues::new(HoldLimits::default());
        assert!(holds.push("bob", message(1, now + Duration::from_secs(2))));
        assert!(holds.push("bob", message(2, now + Duration::from_secs(1))));
        let expired = holds.take_expired(now + Duration::from_secs(1));
        assert_eq!(expired.iter().map(|message| message.sent.origin.number.0).collect::<Vec<_>>(), [2]);
        assert_eq!(holds.take_expired(now + Duration::from_secs(2)).len(), 1);
        assert_eq!((holds.bytes(), holds.held.len(), holds.key_by_recipient.len()), (0, 0, 0));
    }
}
