//! Outbound queues: messages of one session to one recipient, kept until each has its outcome.
//! `custody` owns the queues. `request`, `route` and `sweep` fill, retransmit and end them.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::{MessageNumber, Origin, Seq, SessionId};

use super::deadline::Deadline;
use super::{PeerKey, Rules, SessionKey};

/// Destination of a queue's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// This node.
    Here,
    /// Another node.
    Peer(PeerKey),
}

/// A message in custody: held until its outcome is known.
#[derive(Debug, Clone)]
pub struct OutboundMessage {
    /// Number in the sender's session.
    pub(super) number: MessageNumber,
    /// The latest uplink frame with it, which the outcome answers.
    pub(super) seq: Seq,
    /// The client's `id` for the `ack`. `None`: the client requested no `ack`.
    pub(super) id: Option<u64>,
    pub(super) deadline: Deadline,
    /// JSON text for the recipient.
    pub(super) payload: Rc<[u8]>,
    /// `true` for a copy of a broadcast. All copies of it have one answer.
    pub(super) to_many: bool,
    /// `None`: it is not sent yet.
    first_destination: Option<Destination>,
    /// `true` if another node than the first destination may have had it. A node that requests a
    /// retransmission may have relayed the message.
    pub(super) was_elsewhere: bool,
}

impl OutboundMessage {
    /// Creates a message to send. `fresh`: no other node has had it.
    pub(super) fn new(
        number: MessageNumber,
        seq: Seq,
        id: Option<u64>,
        deadline: Deadline,
        payload: Rc<[u8]>,
        fresh: bool,
    ) -> Self {
        let (to_many, was_elsewhere) = (false, !fresh);
        Self { number, seq, id, deadline, payload, to_many, first_destination: None, was_elsewhere }
    }

    /// Creates a copy of a broadcast.
    pub(super) fn copy(number: MessageNumber, seq: Seq, deadline: Deadline, payload: Rc<[u8]>, fresh: bool) -> Self {
        Self { to_many: true, ..Self::new(number, seq, None, deadline, payload, fresh) }
    }

    fn to_send(&self, session: SessionId, prev_pending: MessageNumber, retransmitted: bool) -> Message {
        let origin = Origin { session, number: self.number };
        Message { origin, prev_pending, deadline: self.deadline, retransmitted, payload: Rc::clone(&self.payload) }
    }
}

/// Messages of one session to one recipient.
#[derive(Debug)]
pub(super) struct OutboundQueue {
    /// The sender's session at this node, and its id.
    pub(super) session: SessionKey,
    pub(super) origin: SessionId,
    /// The recipient, and the hash of its id.
    pub(super) to: ClientId,
    pub(super) key: KeyHash,
    pub(super) destination: Destination,
    /// `true` if the destination reported that it holds messages, or lacks room for them.
    pub(super) held: bool,
    /// `true` if it has had a copy of a broadcast since it was empty. Later messages must not pass
    /// that in a lane.
    pub(super) is_bulk: bool,
    sent: VecDeque<OutboundMessage>,
    /// Lower limit of the times at which messages are given up.
    give_up_at: Option<Instant>,
    retransmit_at: Instant,
    /// `true` if the destination requested the retransmission, which nothing postpones then.
    is_requested: bool,
    retransmitted_at: Instant,
    rules: Arc<Rules>,
}

impl OutboundQueue {
    pub(super) fn new(
        now: Instant,
        rules: Arc<Rules>,
        session: SessionKey,
        origin: SessionId,
        to: ClientId,
        key: KeyHash,
        destination: Destination,
    ) -> Self {
        let retransmit_at = now + rules.retransmit_after;
        Self {
            session,
            origin,
            to,
            key,
            destination,
            held: false,
            is_bulk: false,
            sent: VecDeque::new(),
            give_up_at: None,
            retransmit_at,
            is_requested: false,
            retransmitted_at: now,
            rules,
        }
    }

    /// Returns the number of pending messages.
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    fn position(&self, number: MessageNumber) -> Option<usize> {
        self.sent.binary_search_by_key(&number, |sent| sent.number).ok()
    }

    /// Takes custody of a message. Returns its first transmission.
    pub(super) fn push(&mut self, now: Instant, sent: OutboundMessage) -> Message {
        let first = sent.to_send(self.origin, self.prev_pending(now, sent.number), sent.was_elsewhere);
        if self.sent.is_empty() {
            (self.retransmit_at, self.is_requested) = (now + self.rules.retransmit_after, false);
            self.is_bulk = false;
        }
        self.is_bulk |= sent.to_many;
        let overdue = sent.deadline.expires + self.rules.late_outcome_grace;
        self.give_up_at = Some(self.give_up_at.map_or(overdue, |earlier| earlier.min(overdue)));
        let sent = OutboundMessage { first_destination: Some(self.destination), ..sent };
        if self.sent.back().is_none_or(|latest| latest.number < sent.number) {
            self.sent.push_back(sent);
        } else {
            // A reliable client retransmits a message without an outcome. It keeps its place.
            let at = self.sent.partition_point(|earlier| earlier.number < sent.number);
            self.sent.insert(at, sent);
        }
        first
    }

    /// Returns the latest pending number below `number` that is not over, or `NONE`.
    fn prev_pending(&self, now: Instant, number: MessageNumber) -> MessageNumber {
        let before = |sent: &&OutboundMessage| sent.number < number && !sent.deadline.is_over(now);
        self.sent.iter().rev().find(before).map_or(MessageNumber::NONE, |sent| sent.number)
    }

    /// Moves a pending message to the frame `seq`. Returns its former frame. `None`: not pending.
    pub(super) fn renew(&mut self, number: MessageNumber, seq: Seq) -> Option<Seq> {
        let at = self.position(number)?;
        self.sent.get_mut(at).map(|sent| std::mem::replace(&mut sent.seq, seq))
    }

    /// Ends custody of a message and returns it. `None`: it is not pending.
    pub(super) fn remove(&mut self, now: Instant, number: MessageNumber) -> Option<OutboundMessage> {
        let at = self.position(number)?;
        // Outcomes of later messages do not postpone the retransmission of the oldest one.
        if at == 0 {
            self.not_held(now);
        }
        self.sent.remove(at)
    }

    /// Handles the destination's report that a message expired. Ends custody and returns the
    /// message. `None`: it is not pending, another node may have had it, or it may be held and is
    /// not over by this node's clock.
    pub(super) fn expired(&mut self, now: Instant, number: MessageNumber) -> Option<OutboundMessage> {
        let sent = self.sent.get(self.position(number)?)?;
        if sent.was_elsewhere || (sent.deadline.may_hold && !sent.deadline.is_over(now)) {
            None
        } else {
            self.remove(now, number)
        }
    }

    /// Takes a message whose deadline and `late_outcome_grace` after it are over. `None`: none.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<OutboundMessage> {
        let at = self.sent.iter().position(|sent| now >= sent.deadline.expires + self.rules.late_outcome_grace);
        if at.is_none() {
            self.give_up_at = self.sent.iter().map(|sent| sent.deadline.expires + self.rules.late_outcome_grace).min();
        }
        self.sent.remove(at?)
    }

    /// Records that the destination holds the messages, or lacks room for them.
    pub(super) fn on_held(&mut self, now: Instant) {
        // Only the first report counts, since a retransmission must show a loss of the messages.
        if !std::mem::replace(&mut self.held, true) {
            self.plan_retransmission(now + self.rules.retransmit_held_after);
        }
    }

    /// Schedules a retransmission of the whole queue, which the destination requested for one
    /// message: now, or at the minimum interval after the last one.
    pub(super) fn on_retransmit_request(&mut self, now: Instant, number: MessageNumber) {
        if let Some(sent) = self.position(number).and_then(|at| self.sent.get_mut(at)) {
            sent.was_elsewhere = true;
        }
        self.retransmit_at = now.max(self.retransmitted_at + self.rules.min_retransmit_interval);
        self.is_requested = true;
    }

    /// Schedules all messages at once for a new destination.
    pub(super) fn redirected(&mut self, now: Instant) {
        self.not_held(now);
        self.retransmit_at = now;
    }

    fn not_held(&mut self, now: Instant) {
        self.held = false;
        self.plan_retransmission(now + self.rules.retransmit_after);
    }

    /// Sets the time of the next retransmission, unless the destination has requested it.
    fn plan_retransmission(&mut self, at: Instant) {
        if !self.is_requested {
            self.retransmit_at = at;
        }
    }

    /// Returns `true` if a retransmission is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.retransmit_at && !self.sent.is_empty()
    }

    /// Returns `true` if [`Self::take_overdue`] may find a message.
    pub(super) fn has_overdue(&self, now: Instant) -> bool {
        self.give_up_at.is_some_and(|from| now >= from)
    }

    /// Postpones retransmission by `min_retransmit_interval`, as the lane is stalled.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.retransmit_at = now + self.rules.min_retransmit_interval;
    }

    /// Returns all messages in order, with their present predecessors. Schedules the next time.
    pub(super) fn retransmit(&mut self, now: Instant) -> Vec<Message> {
        (self.retransmitted_at, self.is_requested) = (now, false);
        let Rules { retransmit_after, retransmit_held_after, .. } = *self.rules;
        self.retransmit_at = now + if self.held { retransmit_held_after } else { retransmit_after };
        let (origin, destination) = (self.origin, self.destination);
        let mut prev_pending = MessageNumber::NONE;
        let mut copies = Vec::with_capacity(self.sent.len());
        for sent in &mut self.sent {
            sent.was_elsewhere |= sent.first_destination != Some(destination);
            copies.push(sent.to_send(origin, prev_pending, true));
            if !sent.deadline.is_over(now) {
                prev_pending = sent.number;
            }
        }
        copies
    }
}

/// Bytes that a queued or held message takes in addition to its payload.
pub(super) const OVERHEAD: usize = 160;

/// A message on its way, at any node.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) origin: Origin,
    /// Number of the previous pending message of the queue. 0: none.
    pub(super) prev_pending: MessageNumber,
    pub(super) deadline: Deadline,
    /// `true` if it may have been sent before.
    pub(super) retransmitted: bool,
    /// JSON text for the recipient.
    pub(super) payload: Rc<[u8]>,
}

impl Message {
    /// Returns its bytes with overhead, as limits count them.
    pub(super) fn cost(&self) -> usize {
        self.payload.len() + OVERHEAD
    }
}

#[cfg(test)]
impl Message {
    /// Creates a message of a session for tests.
    pub(super) fn for_test(number: u64, expires: Instant, payload: &[u8]) -> Self {
        Self {
            origin: Origin { session: SessionId([1; 16]), number: MessageNumber(number) },
            prev_pending: MessageNumber::NONE,
            deadline: Deadline { expires, may_hold: true },
            retransmitted: false,
            payload: Rc::from(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn queue() -> (OutboundQueue, Instant) {
        let now = Instant::now();
        let to = ClientId::new("bob").unwrap();
        let key = KeyHash::of("bob");
        let session = SessionId([1; 16]);
        (OutboundQueue::new(now, Arc::default(), SessionKey::default(), session, to, key, Destination::Here), now)
    }

    fn send(queue: &mut OutboundQueue, now: Instant, number: u64, deadline: Duration) {
        let deadline = Deadline { expires: now + deadline, may_hold: true };
        let (number, seq, payload) = (MessageNumber(number), Seq(number), Rc::from(&b"{}"[..]));
        queue.push(now, OutboundMessage::new(number, seq, None, deadline, payload, true));
    }

    /// Returns the numbers and predecessors of a retransmission.
    fn retransmitted(queue: &mut OutboundQueue, now: Instant) -> Vec<(u64, u64)> {
        queue.retransmit(now).iter().map(|copy| (copy.origin.number.0, copy.prev_pending.0)).collect()
    }

    const LIFE: Duration = Duration::from_secs(20);

    #[test]
    fn prev_pending_is_the_latest_unexpired_pending_number() {
        let (mut queue, now) = queue();
        assert_eq!(queue.prev_pending(now, MessageNumber(4)), MessageNumber(0));
        send(&mut queue, now, 4, LIFE);
        send(&mut queue, now, 7, Duration::from_millis(1));
        assert_eq!(queue.prev_pending(now, MessageNumber(9)), MessageNumber(7));
        assert_eq!(queue.prev_pending(now + Duration::from_secs(1), MessageNumber(9)), MessageNumber(4));
        assert!(queue.remove(now, MessageNumber(4)).is_some());
        assert_eq!(queue.prev_pending(now + Duration::from_secs(1), MessageNumber(9)), MessageNumber(0));
    }

    #[test]
    fn queue_is_bulk_from_a_broadcast_on_until_it_is_empty() {
        let (mut queue, now) = queue();
        let deadline = Deadline { expires: now + LIFE, may_hold: true };
        send(&mut queue, now, 1, LIFE);
        assert!(!queue.is_bulk);
        queue.push(now, OutboundMessage::copy(MessageNumber(2), Seq(2), deadline, Rc::from(&b"{}"[..]), true));
        send(&mut queue, now, 3, LIFE);
        assert!(queue.is_bulk, "message 3 must not pass the broadcast");
        (1..=3).for_each(|number| drop(queue.remove(now, MessageNumber(number))));
        send(&mut queue, now, 4, LIFE);
        assert!(!queue.is_bulk);
    }

    #[test]
    fn repeated_request_keeps_its_route_and_answers_the_last_frame() {
        let (mut queue, now) = queue();
        (1..=3).for_each(|number| send(&mut queue, now, number, LIFE));
        assert_eq!(queue.renew(MessageNumber(2), Seq(12)), Some(Seq(2)));
        assert_eq!(queue.remove(now, MessageNumber(2)).map(|sent| sent.seq), Some(Seq(12)));
        assert_eq!(queue.renew(MessageNumber(2), Seq(13)), None);
        assert_eq!(queue.prev_pending(now, MessageNumber(2)), MessageNumber(1));
        send(&mut queue, now, 2, LIFE);
        assert_eq!(retransmitted(&mut queue, now), [(1, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn retransmission_is_ordered_with_new_prev_pending() {
        let (mut queue, now) = queue();
        (1..=4).for_each(|number| send(&mut queue, now, number, LIFE));
        queue.remove(now, MessageNumber(2));
        assert_eq!(retransmitted(&mut queue, now), [(1, 0), (3, 1), (4, 3)]);
    }

    #[test]
    fn queue_retransmits_after_2_s_or_5_s_or_when_redirected() {
        let (mut queue, now) = queue();
        send(&mut queue, now, 1, LIFE);
        assert!(!queue.is_due(now + Duration::from_millis(1999)));
        assert!(queue.is_due(now + Duration::from_secs(2)));
        queue.on_held(now);
        assert!(!queue.is_due(now + Duration::from_millis(4999)));
        queue.destination = Destination::Peer(PeerKey::default());
        queue.redirected(now);
        assert!(queue.is_due(now));
        queue.retransmit(now);
        queue.on_retransmit_request(now, MessageNumber(1));
        assert!(!queue.is_due(now), "not above ten a second");
        assert!(queue.is_due(now + Duration::from_millis(100)));
    }

    #[test]
    fn later_reports_do_not_postpone_a_requested_retransmission() {
        let (mut queue, now) = queue();
        (1..=3).for_each(|number| send(&mut queue, now, number, LIFE));
        queue.on_retransmit_request(now, MessageNumber(2));
        queue.on_held(now);
        queue.remove(now, MessageNumber(1));
        let due = now + Duration::from_millis(100);
        assert!(queue.is_due(due));
        queue.retransmit(due);
        assert!(!queue.is_due(due + Duration::from_millis(100)), "one request, one retransmission");
    }

    #[test]
    fn message_without_outcome_is_repeated_behind_later_outcomes() {
        let (mut queue, now) = queue();
        (1..=3).for_each(|number| send(&mut queue, now, number, LIFE));
        let later = now + Duration::from_millis(1900);
        queue.remove(later, MessageNumber(2));
        assert!(queue.is_due(now + Duration::from_secs(2)));
        queue.remove(later, MessageNumber(1));
        assert!(!queue.is_due(now + Duration::from_secs(2)));
    }

    #[test]
    fn only_a_single_destination_may_report_expired() {
        let (mut queue, now) = queue();
        let over = now + LIFE;
        send(&mut queue, now, 1, LIFE);
        send(&mut queue, now, 2, LIFE);
        assert!(queue.expired(now, MessageNumber(1)).is_none(), "its time is not over by our clock");
        assert!(queue.expired(over, MessageNumber(1)).is_some());
        queue.destination = Destination::Peer(PeerKey::default());
        queue.redirected(now);
        queue.retransmit(now);
        assert!(queue.expired(over, MessageNumber(2)).is_none(), "another destination may have delivered it");
        assert!(queue.take_overdue(over + Duration::from_millis(2999)).is_none());
        assert!(queue.take_overdue(over + Duration::from_secs(3)).is_some());
    }

    #[test]
    fn node_that_asked_again_cannot_report_a_message_expired() {
        let (mut queue, now) = queue();
        let over = now + LIFE;
        (1..=2).for_each(|number| send(&mut queue, now, number, LIFE));
        queue.retransmit(now);
        queue.on_retransmit_request(now, MessageNumber(1));
        queue.retransmit(now);
        assert!(queue.expired(over, MessageNumber(1)).is_none(), "where it was passed on to may have written it since");
        assert!(queue.expired(over, MessageNumber(2)).is_some());
    }
}
