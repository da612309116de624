//! The senders that one recipient's deduplicator remembers, in the order of their last message.
//!
//! Each step takes constant time. A table maps sessions to entries of one array, linked in order.
//! Plain and reliable senders have separate orders, since they are forgotten at different ages.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use signaling_wire::{MessageNumber, SessionId};

/// Ratio of capacity to use above which a table is shrunk.
const SPARSE: usize = 4;
const NONE: u32 = u32::MAX;

/// The written messages of one sender.
#[derive(Debug)]
pub(super) struct Sender {
    /// The first and the highest number with a final decision.
    base: MessageNumber,
    last: MessageNumber,
    /// Bit `n % len` is set if number `n` was written, for the latest `len` numbers.
    written: Words,
}

/// A power of two of words. Most senders need one.
#[derive(Debug)]
enum Words {
    One(u64),
    Many(Box<[u64]>),
}

impl Words {
    fn all(&self) -> &[u64] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Many(words) => words,
        }
    }

    fn all_mut(&mut self) -> &mut [u64] {
        match self {
            Self::One(word) => std::slice::from_mut(word),
            Self::Many(words) => words,
        }
    }
}

impl Sender {
    /// Returns a sender whose first number is written or skipped.
    pub(super) fn first(number: MessageNumber, written: bool) -> Self {
        let mut sender = Self { base: number, last: number, written: Words::One(0) };
        sender.mark(number, written);
        sender
    }

    /// Returns the highest number with a final decision, written or skipped.
    pub(super) fn last(&self) -> MessageNumber {
        self.last
    }

    fn window(&self) -> u64 {
        self.written.all().len() as u64 * 64
    }

    /// Returns the bytes of its window without the sender itself.
    fn window_bytes(&self) -> usize {
        match &self.written {
            Words::One(_) => 0,
            Words::Many(words) => size_of_val(&**words),
        }
    }

    fn place(&self, number: MessageNumber) -> (usize, u64) {
        let bit = number.0 & (self.window() - 1);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    /// Returns `true` if `number` was written. Numbers before the window count as unwritten.
    pub(super) fn was_written(&self, number: MessageNumber) -> bool {
        let (word, bit) = self.place(number);
        number >= self.base
            && self.last.0.wrapping_sub(number.0) < self.window()
            && self.written.all().get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn mark(&mut self, number: MessageNumber, written: bool) {
        let (word, bit) = self.place(number);
        if let Some(bits) = self.written.all_mut().get_mut(word) {
            *bits = if written { *bits | bit } else { *bits & !bit };
        }
    }

    /// Makes `number` the latest, and all numbers since the former one unwritten. The window grows
    /// to at most `most` numbers. Returns its growth in bytes.
    pub(super) fn advance(&mut self, number: MessageNumber, written: bool, most: u64) -> usize {
        let before = self.window_bytes();
        while self.window() < most && number.0.saturating_sub(self.base.0) >= self.window() {
            self.grow();
        }
        let unwritten = (number.0 - self.last.0).min(self.window());
        (number.0 - unwritten + 1..number.0).for_each(|between| self.mark(MessageNumber(between), false));
        self.mark(number, written);
        self.last = number;
        self.window_bytes() - before
    }

    fn grow(&mut self) {
        let Self { base, last, .. } = *self;
        let written = Words::Many(vec![0; self.written.all().len() * 2].into());
        let mut larger = Self { base, last, written };
        let oldest = last.0.saturating_sub(self.window() - 1);
        let written = (oldest..=last.0).map(MessageNumber).filter(|&number| self.was_written(number));
        written.for_each(|number| larger.mark(number, true));
        *self = larger;
    }
}

#[derive(Debug)]
struct Slot {
    session: SessionId,
    sender: Sender,
    /// Time of its last message.
    touched: Instant,
    older: u32,
    newer: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    oldest: u32,
    newest: u32,
}

impl Default for Ends {
    fn default() -> Self {
        Self { oldest: NONE, newest: NONE }
    }
}

/// Senders by session, ordered from the idlest.
#[derive(Debug, Default)]
pub(super) struct Senders {
    place_by_session: FxHashMap<SessionId, u32>,
    slots: Vec<Slot>,
    plain: Ends,
    reliable: Ends,
    window_bytes: usize,
}

impl Senders {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the bytes of all windows without the senders themselves.
    pub(super) fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Adds the growth of a sender's window.
    pub(super) fn has_grown(&mut self, bytes: usize) {
        self.window_bytes += bytes;
    }

    /// Returns the sender. `None`: it is unknown or forgotten.
    pub(super) fn get(&self, session: SessionId) -> Option<&Sender> {
        let at = *self.place_by_session.get(&session)?;
        self.slots.get(at as usize).map(|slot| &slot.sender)
    }

    /// Returns the sender, and makes it the one with the latest message. `None`: it is unknown.
    pub(super) fn touched(&mut self, now: Instant, session: SessionId) -> Option<&mut Sender> {
        let at = *self.place_by_session.get(&session)?;
        if self.ends(session).newest != at {
            self.unlink(at);
            self.link(at);
        }
        let slot = self.slots.get_mut(at as usize)?;
        slot.touched = now;
        Some(&mut slot.sender)
    }

    /// Adds a sender that is not stored yet, as the one with the latest message.
    pub(super) fn insert(&mut self, now: Instant, session: SessionId, sender: Sender) {
        let Ok(at) = u32::try_from(self.slots.len()) else { return };
        self.window_bytes += sender.window_bytes();
        self.slots.push(Slot { session, sender, touched: now, older: NONE, newer: NONE });
        self.place_by_session.insert(session, at);
        self.link(at);
    }

    /// Removes senders that were silent for the time limit of their kind.
    pub(super) fn remove_idle(&mut self, now: Instant, plain: Duration, reliable: Duration) {
        while self.remove_if_idle(now, self.plain.oldest, plain) {}
        while self.remove_if_idle(now, self.reliable.oldest, reliable) {}
        // Otherwise the memory of a burst would stay allocated.
        if self.slots.len() * SPARSE < self.slots.capacity() {
            self.slots.shrink_to_fit();
            self.place_by_session.shrink_to_fit();
        }
    }

    /// Removes the idlest sender if it was silent for `least`. Returns `true` if it did.
    pub(super) fn remove_idlest(&mut self, now: Instant, least: Duration) -> bool {
        // A plain sender of this age sends no duplicates. A reliable one may, after a resume.
        self.remove_if_idle(now, self.plain.oldest, least) || self.remove_if_idle(now, self.reliable.oldest, least)
    }

    fn remove_if_idle(&mut self, now: Instant, at: u32, least: Duration) -> bool {
        let slot = self.slots.get(at as usize);
        let is_idle = slot.is_some_and(|slot| now.saturating_duration_since(slot.touched) >= least);
        if is_idle {
            self.remove(at);
        }
        is_idle
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let removed = self.slots.swap_remove(at as usize);
        self.window_bytes -= removed.sender.window_bytes();
        self.place_by_session.remove(&removed.session);
        // The last entry was moved here.
        if let Some(&Slot { session, older, newer, .. }) = self.slots.get(at as usize) {
            self.place_by_session.insert(session, at);
            self.join(session, older, at);
            self.join(session, at, newer);
        }
    }

    fn ends(&mut self, session: SessionId) -> &mut Ends {
        if session.is_reliable() { &mut self.reliable } else { &mut self.plain }
    }

    /// Adds an entry as the newest of its order.
    fn link(&mut self, at: u32) {
        let Some(session) = self.slots.get(at as usize).map(|slot| slot.session) else { return };
        let newest = self.ends(session).newest;
        self.join(session, newest, at);
        self.join(session, at, NONE);
    }

    /// Removes an entry from its order.
    fn unlink(&mut self, at: u32) {
        let Some(&Slot { session, older, newer, .. }) = self.slots.get(at as usize) else { return };
        self.join(session, older, newer);
    }

    /// Links two entries as neighbours in the order of `session`. [`NONE`] is the end of the order.
    fn join(&mut self, session: SessionId, older: u32, newer: u32) {
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.ends(session).oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.ends(session).newest = older,
        }
    }
}

#[cfg(test)]
impl Senders {
    /// Returns the number of senders that the allocated memory holds.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity().max(self.place_by_session.capacity())
    }

    /// Returns the sessions from the idlest, plain ones before reliable ones.
    fn in_order(&self) -> Vec<SessionId> {
        let mut sessions = Vec::new();
        for ends in [self.plain, self.reliable] {
            let (mut at, mut before) = (ends.oldest, NONE);
            while let Some(slot) = self.slots.get(at as usize) {
                assert_eq!(slot.older, before, "links go both ways");
                sessions.push(slot.session);
                (before, at) = (at, slot.newer);
            }
            assert_eq!(ends.newest, before);
        }
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(n: u64) -> SessionId {
        let mut drawn = [0; 16];
        drawn[..8].copy_from_slice(&n.to_le_bytes());
        SessionId::new(drawn, n.is_multiple_of(3))
    }

    /// A simple model of the same behavior: sessions with the time of their last message.
    type Model = Vec<(SessionId, Instant)>;

    fn ordered(model: &Model) -> Vec<SessionId> {
        let (reliable, plain): (Vec<_>, Vec<_>) =
            model.iter().map(|(session, _)| *session).partition(|session| session.is_reliable());
        [plain, reliable].concat()
    }

    #[test]
    fn senders_keep_the_order_of_their_last_message() {
        let (mut senders, mut model) = (Senders::default(), Model::new());
        let start = Instant::now();
        let mut drawn = 1_u64;
        for step in 0..4_000_u64 {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (now, session) = (start + Duration::from_millis(step), session((drawn >> 33) % 60));
            if drawn >> 60 == 0 {
                let least = Duration::from_millis(40);
                let idlest = [false, true].into_iter().find_map(|reliable| {
                    let idlest = model.iter().position(|(session, _)| session.is_reliable() == reliable)?;
                    (now - model[idlest].1 >= least).then_some(idlest)
                });
                assert_eq!(senders.remove_idlest(now, least), idlest.is_some());
                idlest.map(|idlest| model.remove(idlest));
            } else {
                if senders.touched(now, session).is_none() {
                    senders.insert(now, session, Sender::first(MessageNumber(1), true));
                }
                model.retain(|(other, _)| *other != session);
                model.push((session, now));
            }
            assert_eq!(senders.in_order(), ordered(&model), "step {step}");
        }
        assert!(model.len() > 10);
        senders.remove_idle(start + Duration::from_secs(9), Duration::ZERO, Duration::ZERO);
        assert_eq!((senders.in_order(), senders.len(), senders.capacity()), (vec![], 0, 0));
    }

    #[test]
    fn sender_that_writes_little_takes_no_more_than_is_counted() {
        let in_table = size_of::<(SessionId, u32)>() + 1;
        assert!(size_of::<Slot>() * 3 / 2 + in_table * 16 / 10 <= super::super::memory::SENDER_BYTES);
    }
}
