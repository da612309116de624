//! The sender's node's half of custody: envelopes of one session to one recipient, kept until each has its fate.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::{Origin, SessionId};

use super::deadline::Deadline;
use super::{PeerKey, Rules, SessionKey};

/// Where envelopes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// This node.
    Here,
    /// Another one.
    Peer(PeerKey),
}

/// One envelope in custody.
#[derive(Debug)]
pub(super) struct OutboundMessage {
    pub(super) number: u64,
    pub(super) seq: u64,
    /// The client asked for an `ack` under this id.
    pub(super) id: Option<u64>,
    pub(super) life: Deadline,
    pub(super) payload: Rc<[u8]>,
    /// It is one of several copies, whose fates make up one.
    pub(super) to_many: bool,
    /// None before it was sent anywhere.
    first_destination: Option<Destination>,
    /// Another than its first destination has or had it, or may have: whoever says `again` may have passed it on.
    was_elsewhere: bool,
}

impl OutboundMessage {
    /// One that is to be sent; `fresh` if no other node has had it before.
    pub(super) fn new(number: u64, seq: u64, id: Option<u64>, life: Deadline, payload: Rc<[u8]>, fresh: bool) -> Self {
        let (to_many, was_elsewhere) = (false, !fresh);
        Self { number, seq, id, life, payload, to_many, first_destination: None, was_elsewhere }
    }

    /// One of several copies.
    pub(super) fn copy(number: u64, seq: u64, life: Deadline, payload: Rc<[u8]>, fresh: bool) -> Self {
        Self { to_many: true, ..Self::new(number, seq, None, life, payload, fresh) }
    }
}

/// The envelopes of one session to one recipient.
#[derive(Debug)]
pub(super) struct OutboundQueue {
    pub(super) session: SessionKey,
    pub(super) origin: SessionId,
    pub(super) to: ClientId,
    pub(super) key: KeyHash,
    pub(super) destination: Destination,
    pub(super) held: bool,
    sent: VecDeque<OutboundMessage>,
    /// None of `sent` has been over for so long before.
    give_up_at: Option<Instant>,
    repeat_at: Instant,
    repeated: Instant,
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
        let repeat_at = now + rules.repeat_after;
        Self {
            session,
            origin,
            to,
            key,
            destination,
            held: false,
            sent: VecDeque::new(),
            give_up_at: None,
            repeat_at,
            repeated: now,
            rules,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.sent.binary_search_by_key(&number, |sent| sent.number).ok()
    }

    /// Takes custody. The envelope's predecessor is what [`OutboundQueue::prev`] said just before.
    pub(super) fn push(&mut self, now: Instant, sent: OutboundMessage) {
        if self.sent.is_empty() {
            self.repeat_at = now + self.rules.repeat_after;
        }
        let hopeless = sent.life.expires + self.rules.last_word;
        self.give_up_at = Some(self.give_up_at.map_or(hopeless, |earlier| earlier.min(hopeless)));
        let sent = OutboundMessage { first_destination: Some(self.destination), ..sent };
        if self.sent.back().is_none_or(|latest| latest.number < sent.number) {
            self.sent.push_back(sent);
        } else {
            // A reliable client repeats one whose fate it missed: it goes where it was.
            let at = self.sent.partition_point(|earlier| earlier.number < sent.number);
            self.sent.insert(at, sent);
        }
    }

    /// The latest number below `number` that has no fate and is still alive, or 0.
    pub(super) fn prev(&self, now: Instant, number: u64) -> u64 {
        let before = |sent: &&OutboundMessage| sent.number < number && !sent.life.is_over(now);
        self.sent.iter().rev().find(before).map_or(0, |sent| sent.number)
    }

    /// The client has repeated a message without a fate in the frame `seq`. Gives the frame that said it before, whose
    /// fate nobody waits for any more.
    pub(super) fn renew(&mut self, number: u64, seq: u64) -> Option<u64> {
        let at = self.position(number)?;
        self.sent.get_mut(at).map(|sent| std::mem::replace(&mut sent.seq, seq))
    }

    /// Ends custody of one.
    pub(super) fn remove(&mut self, now: Instant, number: u64) -> Option<OutboundMessage> {
        let at = self.position(number)?;
        // The time of the oldest runs on, however many later ones get their fates.
        if at == 0 {
            self.not_held(now);
        }
        self.sent.remove(at)
    }

    /// The destination says that this one's time was over, or that it may not wait. Gives it up if nobody else ever had it.
    pub(super) fn expired(&mut self, now: Instant, number: u64) -> Option<OutboundMessage> {
        let sent = self.sent.get(self.position(number)?)?;
        if sent.was_elsewhere || (sent.life.waits && !sent.life.is_over(now)) { None } else { self.remove(now, number) }
    }

    /// One whose time is over so long that no fate can come any more.
    pub(super) fn take_hopeless(&mut self, now: Instant) -> Option<OutboundMessage> {
        let at = self.sent.iter().position(|sent| now >= sent.life.expires + self.rules.last_word);
        if at.is_none() {
            self.give_up_at = self.sent.iter().map(|sent| sent.life.expires + self.rules.last_word).min();
        }
        self.sent.remove(at?)
    }

    /// The destination holds them.
    pub(super) fn told_held(&mut self, now: Instant) {
        // However often that is said: it is a repeat that would show that they are lost.
        if !std::mem::replace(&mut self.held, true) {
            self.repeat_at = now + self.rules.repeat_held_after;
        }
    }

    /// A repeat of this one was asked for: at once, or a little later if there was one just now.
    pub(super) fn again(&mut self, now: Instant, number: u64) {
        if let Some(sent) = self.position(number).and_then(|at| self.sent.get_mut(at)) {
            sent.was_elsewhere = true;
        }
        self.repeat_at = now.max(self.repeated + self.rules.repeat_at_most_every);
    }

    /// The destination is another now: all goes there at once.
    pub(super) fn redirected(&mut self, now: Instant) {
        self.not_held(now);
        self.repeat_at = now;
    }

    fn not_held(&mut self, now: Instant) {
        self.held = false;
        self.repeat_at = now + self.rules.repeat_after;
    }

    /// Whether it is time to send everything again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.repeat_at && !self.sent.is_empty()
    }

    /// Whether the time of any is over so long that no fate can come any more.
    pub(super) fn has_hopeless(&self, now: Instant) -> bool {
        self.give_up_at.is_some_and(|from| now >= from)
    }

    /// The way stands: the next look is later.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.repeat_at = now + self.rules.repeat_at_most_every;
    }

    /// All envelopes again, in order, with predecessors reckoned anew.
    pub(super) fn retransmit(&mut self, now: Instant) -> Vec<Retransmission> {
        self.repeated = now;
        let Rules { repeat_after, repeat_held_after, .. } = *self.rules;
        self.repeat_at = now + if self.held { repeat_held_after } else { repeat_after };
        let destination = self.destination;
        let mut prev = 0;
        let origin = self.origin;
        let mut copies = Vec::with_capacity(self.sent.len());
        for sent in &mut self.sent {
            sent.was_elsewhere |= sent.first_destination != Some(destination);
            let origin = Origin { session: origin, number: sent.number };
            copies.push(Retransmission {
                origin,
                prev,
                life: sent.life,
                repeat: true,
                payload: Rc::clone(&sent.payload),
            });
            if !sent.life.is_over(now) {
                prev = sent.number;
            }
        }
        copies
    }
}

/// One envelope to be sent again.
#[derive(Debug)]
pub(super) struct Retransmission {
    pub(super) origin: Origin,
    pub(super) prev: u64,
    pub(super) life: Deadline,
    /// It may have been sent before.
    pub(super) repeat: bool,
    pub(super) payload: Rc<[u8]>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn chain(now: Instant) -> OutboundQueue {
        let to = ClientId::new("bob").unwrap();
        let key = KeyHash::of("bob");
        OutboundQueue::new(now, Arc::default(), SessionKey::default(), SessionId([1; 16]), to, key, Destination::Here)
    }

    fn send(chain: &mut OutboundQueue, now: Instant, number: u64, life: Duration) {
        let life = Deadline { expires: now + life, waits: true };
        chain.push(now, OutboundMessage::new(number, number, None, life, Rc::from(&b"{}"[..]), true));
    }

    const LIFE: Duration = Duration::from_secs(20);

    #[test]
    fn a_predecessor_is_the_latest_without_fate_that_is_still_alive() {
        let now = Instant::now();
        let mut chain = chain(now);
        assert_eq!(chain.prev(now, 4), 0);
        send(&mut chain, now, 4, LIFE);
        send(&mut chain, now, 7, Duration::from_millis(1));
        assert_eq!(chain.prev(now, 9), 7);
        assert_eq!(chain.prev(now + Duration::from_secs(1), 9), 4);
        assert!(chain.remove(now, 4).is_some());
        assert_eq!(chain.prev(now + Duration::from_secs(1), 9), 0);
    }

    #[test]
    fn one_that_the_client_repeats_goes_where_it_was_and_its_fate_to_the_latest_frame() {
        let now = Instant::now();
        let mut chain = chain(now);
        (1..=3).for_each(|number| send(&mut chain, now, number, LIFE));
        assert_eq!(chain.renew(2, 12), Some(2));
        assert_eq!(chain.remove(now, 2).map(|sent| sent.seq), Some(12));
        assert_eq!(chain.renew(2, 13), None);
        assert_eq!(chain.prev(now, 2), 1);
        send(&mut chain, now, 2, LIFE);
        let copies: Vec<_> = chain.retransmit(now).iter().map(|copy| (copy.origin.number, copy.prev)).collect();
        assert_eq!(copies, [(1, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn a_repeat_has_all_in_order_with_predecessors_reckoned_anew() {
        let now = Instant::now();
        let mut chain = chain(now);
        (1..=4).for_each(|number| send(&mut chain, now, number, LIFE));
        chain.remove(now, 2);
        let copies: Vec<_> = chain.retransmit(now).iter().map(|copy| (copy.origin.number, copy.prev)).collect();
        assert_eq!(copies, [(1, 0), (3, 1), (4, 3)]);
    }

    #[test]
    fn it_repeats_after_two_seconds_or_five_when_held_or_at_once_when_redirected() {
        let now = Instant::now();
        let mut chain = chain(now);
        send(&mut chain, now, 1, LIFE);
        assert!(!chain.is_due(now + Duration::from_millis(1999)));
        assert!(chain.is_due(now + Duration::from_secs(2)));
        chain.told_held(now);
        assert!(!chain.is_due(now + Duration::from_millis(4999)));
        chain.destination = Destination::Peer(PeerKey::default());
        chain.redirected(now);
        assert!(chain.is_due(now));
        chain.retransmit(now);
        chain.again(now, 1);
        assert!(!chain.is_due(now), "not above ten a second");
        assert!(chain.is_due(now + Duration::from_millis(100)));
    }

    #[test]
    fn one_whose_fate_was_lost_is_repeated_however_many_later_ones_have_theirs() {
        let now = Instant::now();
        let mut chain = chain(now);
        (1..=3).for_each(|number| send(&mut chain, now, number, LIFE));
        let later = now + Duration::from_millis(1900);
        chain.remove(later, 2);
        assert!(chain.is_due(now + Duration::from_secs(2)));
        chain.remove(later, 1);
        assert!(!chain.is_due(now + Duration::from_secs(2)));
    }

    #[test]
    fn only_the_only_destination_may_say_expired() {
        let now = Instant::now();
        let over = now + LIFE;
        let mut chain = chain(now);
        send(&mut chain, now, 1, LIFE);
        send(&mut chain, now, 2, LIFE);
        assert!(chain.expired(now, 1).is_none(), "its time is not over by our clock");
        assert!(chain.expired(over, 1).is_some());
        chain.destination = Destination::Peer(PeerKey::default());
        chain.redirected(now);
        chain.retransmit(now);
        assert!(chain.expired(over, 2).is_none(), "another destination may have delivered it");
        assert!(chain.take_hopeless(over + Duration::from_millis(2999)).is_none());
        assert!(chain.take_hopeless(over + Duration::from_secs(3)).is_some());
    }

    #[test]
    fn who_asked_for_it_again_may_have_passed_it_on_and_so_not_say_expired() {
        let now = Instant::now();
        let over = now + LIFE;
        let mut chain = chain(now);
        (1..=2).for_each(|number| send(&mut chain, now, number, LIFE));
        chain.retransmit(now);
        chain.again(now, 1);
        chain.retransmit(now);
        assert!(chain.expired(over, 1).is_none(), "where it was passed on to may have written it since");
        assert!(chain.expired(over, 2).is_some());
    }
}
