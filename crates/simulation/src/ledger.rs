//! The reference model. `clients` reports messages and answers to it; it finds broken delivery
//! promises. All modules report other violations by [`Ledger::broken`], which ends the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::agenda::{MS, Micros, SECOND};
use crate::counters::Counters;
use crate::event::{ClientIx, MessageId, SocketId};
use crate::spans::Spans;
use crate::trouble::Trouble;
use crate::trunks::SILENCE;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Time of the violation, in microseconds since the world began.
    pub at: u64,
    /// Short name of the promise, the same for every violation of its kind.
    pub rule: &'static str,
    /// Description of the event.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {}.{:06})", self.rule, self.what, self.at / SECOND, self.at % SECOND)
    }
}

/// Answer to a client's message or room request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderResult {
    Ack,
    /// Delivery is not confirmed and no longer tried.
    Unavailable,
    /// The room's owner did not answer.
    RoomUnavailable,
    /// The client is not a member of the room.
    NotInRoom,
    /// An operator keeps the client out of the room.
    Forbidden,
}

/// Scope of ordering and deduplication: a plain client's socket, a reliable client's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Socket(SocketId),
    Session(ClientIx, u64),
}

/// Position of a message in its sender's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) stream: Stream,
    pub(crate) number: u64,
}

#[derive(Debug, Default)]
struct Message {
    from: ClientIx,
    to: ClientIx,
    /// Maximum time that it is held: the smaller one of its TTL and the mesh's hold time.
    hold: Micros,
    /// The sender's latest socket whose edge accepted the message, and the time.
    taken: Option<(SocketId, Micros)>,
    /// The accepting socket was slow. If it closed meanwhile, the message may be cut off.
    to_slow: bool,
    /// The sender sent the message on several sockets.
    repeated: bool,
    /// Time of the first acceptance by an edge. Retransmissions do not extend the deadline.
    first_taken: Option<Micros>,
    /// Time of the last acceptance by an edge, on any socket. Its TTL counts from there. `None`:
    /// the edge kept it for a session, and counts later.
    last_taken: Option<Micros>,
    position: Option<Position>,
    /// The recipient's sockets to which it was written.
    written: Vec<SocketId>,
    /// A reliable recipient's application got the message.
    got: bool,
    /// The first answer that the sender's socket received, with its time.
    answer: Option<(SenderResult, Micros)>,
}

/// Maximum recovery time after a fault ends. Reconnects back off up to 5 s, and a node retransmits
/// held messages after 5 s.
pub(crate) const RECOVERY: Micros = 7 * SECOND;
/// Maximum time until a held message is retransmitted after its outcome was lost.
const MAX_HELD_DELAY: Micros = 12 * SECOND;
/// Maximum time to an `ack` while two nodes are cut off from each other but not from all others.
const MAX_DETOUR_DELAY: Micros = 6 * SECOND;
/// Time without any other fault after which `MAX_DETOUR_DELAY` applies.
pub(crate) const CALM_BEFORE: Micros = 15 * SECOND;
/// Maximum time to an `ack` without faults, thus without retransmission.
const MAX_ACK_DELAY: Micros = SECOND;
/// Number of messages to one recipient from which a fault can make it appear absent.
const MANY_FOR_ONE: usize = 60;
/// Maximum time from the end of a message's TTL to its write. It is longer by the longest opening
/// if one was slow.
const MAX_LATE_WRITE: Micros = 500 * MS;
/// Maximum time that a TTL loses on its way: servers measure lateness in steps of 10 ms.
const TTL_ROUNDING: Micros = 10 * MS;
/// Maximum time from the end of the hold time to the outcome.
const MAX_OUTCOME_DELAY: Micros = 5 * SECOND;

/// Record of all messages, which finds broken promises.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Present time, which the world sets.
    pub(crate) now: Micros,
    messages: Vec<Message>,
    /// Number of each stream's last message that was written to a recipient's socket.
    last_written: BTreeMap<(Stream, SocketId), u64>,
    /// Number of each stream's last message that a reliable recipient's application got.
    last_got: BTreeMap<(Stream, ClientIx), u64>,
    /// `true` for each reliable client, by client index.
    reliable: Vec<bool>,
    pending_by_socket: BTreeMap<SocketId, BTreeSet<MessageId>>,
    /// Maximum messages of a socket without an answer. It is twice an edge's buffer limit, since
    /// outcomes free space before their replies are written.
    max_pending: usize,
    /// Hold time of the mesh.
    hold: Micros,
    /// Time at which an edge last accepted a message.
    pub(crate) last_taken: Micros,
    /// The first broken promise.
    pub(crate) violation: Option<Violation>,
    pub(crate) counters: Counters,
}

impl Ledger {
    /// Creates a ledger for a mesh with this hold time and buffer limit of edges, in frames.
    /// `reliable` has an entry for each client.
    pub(crate) fn new(hold: Micros, store_frames: usize, reliable: Vec<bool>) -> Self {
        Self { reliable, max_pending: 2 * store_frames, hold, ..Self::default() }
    }

    /// Registers the next message that a client may send.
    pub(crate) fn expect(&mut self, from: ClientIx, to: ClientIx, ttl_ms: Option<u64>) {
        let hold = ttl_ms.map_or(self.hold, |ttl| self.hold.min(ttl * MS));
        self.messages.push(Message { from, to, hold, ..Message::default() });
    }

    /// Records a broken promise, if it is the first.
    pub(crate) fn broken(&mut self, rule: &'static str, what: String) {
        self.violation.get_or_insert(Violation { at: self.now, rule, what });
    }

    /// Records a violation if `what` describes one.
    pub(crate) fn broken_if(&mut self, rule: &'static str, what: Option<String>) {
        if let Some(what) = what {
            self.broken(rule, what);
        }
    }

    /// Returns `true` if an edge accepted a message of `from` to `to` since then, or up to 1 s
    /// before.
    pub(crate) fn has_said(&self, from: ClientIx, to: ClientIx, since: Micros) -> bool {
        let since = since.saturating_sub(SECOND);
        let is_one = |message: &Message| message.from == from && message.to == to;
        self.messages.iter().any(|message| is_one(message) && message.taken.is_some_and(|(_, at)| at >= since))
    }

    fn name(&self, message: MessageId) -> String {
        let Some(Message { from, to, taken, .. }) = self.messages.get(message) else { return format!("m{message}") };
        let socket = taken.map_or(0, |(socket, _)| socket);
        format!("m{message} (c{from} on socket {socket} to c{to})")
    }

    /// Records that an edge accepted a message, possibly sent before on an earlier socket.
    /// `is_deaf`: its sender reads outcomes late or never, and then any number may lack one.
    /// `is_kept`: the edge keeps it until the client has a session.
    pub(crate) fn taken(
        &mut self,
        message: MessageId,
        (socket, position): (SocketId, Position),
        is_deaf: bool,
        is_kept: bool,
    ) {
        let now = self.now;
        let entry = &mut self.messages[message];
        let before = entry.taken.map(|(before, _)| before);
        entry.repeated |= before.is_some();
        entry.last_taken = (!is_kept).then_some(now);
        // A socket that is read later may carry an earlier message.
        if before.is_some_and(|before| before >= socket) {
            return;
        }
        entry.taken = Some((socket, now));
        entry.first_taken.get_or_insert(now);
        entry.position = Some(position);
        if let Some(before) = before {
            self.pending_by_socket.entry(before).or_default().remove(&message);
        }
        let pending = self.pending_by_socket.entry(socket).or_default();
        pending.insert(message);
        self.last_taken = now;
        if pending.len() > self.max_pending && !is_deaf {
            let what = format!("{} messages of socket {socket} have no outcome", pending.len());
            self.broken("store bound", what);
        }
    }

    /// Records that a socket's client has a session, to which its edge gives the kept messages.
    pub(crate) fn has_session(&mut self, socket: SocketId) {
        for message in self.pending_by_socket.entry(socket).or_default().iter() {
            let entry = &mut self.messages[*message];
            entry.last_taken.get_or_insert(self.now);
            entry.taken = Some((socket, self.now));
        }
    }

    /// Records a write to the recipient's socket. A slow socket may deliver a message after its
    /// sender received `unavailable`.
    pub(crate) fn written(
        &mut self,
        message: MessageId,
        (to, socket): (ClientIx, SocketId),
        slow: bool,
        trouble: &Trouble,
    ) {
        let (now, name) = (self.now, self.name(message));
        let calm = trouble.any.covers_nothing(now.saturating_sub(30 * SECOND), now);
        let Some(entry) = self.messages.get_mut(message) else {
            return self.broken("invented", format!("{name} was never sent"));
        };
        let Some(Position { stream, number }) = entry.position else {
            return self.broken("invented", format!("{name} was written before its edge took it"));
        };
        if entry.to != to {
            return self.broken("wrong recipient", format!("{name} was written to c{to}"));
        }
        let Message { answer, repeated, first_taken, last_taken, hold, to_slow: half_written, .. } = *entry;
        let (earlier, elsewhere) = (entry.written.contains(&socket), !entry.written.is_empty());
        entry.written.push(socket);
        entry.to_slow |= slow;
        let answer = answer.map(|(answer, _)| answer);
        let since = first_taken.unwrap_or(now).saturating_sub(RECOVERY);
        let troubled = !trouble.any.covers_nothing(since, now);
        let taken = last_taken.unwrap_or(now);
        // Its sender missed the `unavailable`, so it is another message on another socket.
        let is_another = repeated && troubled && first_taken.is_some_and(|first| first + hold < taken);
        if earlier && !is_another {
            return self.broken("doubled", format!("{name} was written twice to socket {socket}"));
        }
        if elsewhere {
            // A reliable client gets unacknowledged messages again and deduplicates them by name.
            // A message that its sender sent again on another socket may be new to the recipient's
            // next socket.
            if !self.reliable[to] && !troubled && !half_written && !repeated {
                self.broken("doubled in calm", format!("{name} came again on socket {socket}"));
            }
        }
        let is_measured = trouble.slow_openings.covers_nothing(taken, now);
        let late = now.saturating_sub(taken + hold);
        if late > MAX_LATE_WRITE + if is_measured { 0 } else { SILENCE } && !slow {
            return self.broken("written late", format!("{name}, {} ms after its TTL", late / MS));
        }
        match answer {
            Some(SenderResult::Unavailable) if slow || repeated && troubled => {}
            Some(SenderResult::Unavailable) => self.broken("written after unavailable", name),
            Some(SenderResult::Ack) if calm => {
                self.broken("doubled after ack", format!("{name}, with no fault on"));
            }
            _ if is_another => {}
            _ => {
                let last = self.last_written.entry((stream, socket)).or_insert(number);
                let before = std::mem::replace(last, (*last).max(number));
                if before > number {
                    let what = format!("{name}, its {number}th, was written to socket {socket} behind the {before}th");
                    self.broken("swapped", what);
                }
            }
        }
    }

    /// Records that a reliable client gave its application a message with a new name.
    pub(crate) fn application_got(&mut self, message: MessageId, client: ClientIx) {
        let name = self.name(message);
        let Some(entry) = self.messages.get_mut(message) else { return };
        let Some(Position { stream, number }) = entry.position else { return };
        let repeated = entry.repeated;
        if std::mem::replace(&mut entry.got, true) {
            return self.broken("doubled to an application", format!("c{client} got {name} twice"));
        }
        let last = self.last_got.entry((stream, client)).or_insert(number);
        let before = std::mem::replace(last, (*last).max(number));
        // A sender that missed an `unavailable` sends the message again on its next socket, at any
        // time.
        if before > number && !repeated {
            let what = format!("c{client} got {name}, its {number}th, behind the {before}th");
            self.broken("swapped to an application", what);
        }
    }

    /// Returns `true` if a later message of its sender, from another socket, was written to its
    /// recipient.
    pub(crate) fn is_overtaken(&self, message: MessageId) -> bool {
        let Some(Message { from, to, taken: Some((socket, _)), .. }) = self.messages.get(message) else { return false };
        let has_overtaken = |later: &Message| {
            let is_of_pair = (later.from, later.to) == (*from, *to);
            is_of_pair && later.taken.is_some_and(|(next, _)| next != *socket) && !later.written.is_empty()
        };
        self.messages.iter().skip(message + 1).any(has_overtaken)
    }

    /// Records an answer that the sender's socket received. `trouble` covers faults in the mesh,
    /// `away` the time without a recipient socket, and `busy` the time in which that socket was
    /// full. `slow` is `true` if the sender reads answers late.
    pub(crate) fn answered(
        &mut self,
        message: MessageId,
        socket: SocketId,
        answer: SenderResult,
        (trouble, away, busy): (&Trouble, &Spans, &Spans),
        slow: bool,
    ) {
        let (now, name) = (self.now, self.name(message));
        let entry = &mut self.messages[message];
        let Some((sender, at)) = entry.taken.filter(|(sender, _)| *sender == socket) else {
            return self.broken("wrong sender", format!("{name} has an outcome on socket {socket}"));
        };
        if let Some((before, _)) = entry.answer.replace((answer, now)) {
            return self.broken("two outcomes", format!("{name} was answered {before:?} and then {answer:?}"));
        }
        let Message { from, to, hold, first_taken, repeated, got, .. } = *entry;
        let written = !entry.written.is_empty();
        let pending = self.pending_by_socket.entry(sender).or_default();
        let crowded = pending.iter().filter(|other| self.messages[**other].to == to).count() >= MANY_FOR_ONE;
        pending.remove(&message);
        let (since, either) = (at.saturating_sub(RECOVERY), trouble.any.with(away));
        let impassable = trouble.impassable.with(away);
        match answer {
            SenderResult::Ack => {
                if !written {
                    return self.broken("ack without writing", name);
                }
                if self.reliable[to] && !got {
                    return self.broken("ack without the application", name);
                }
                let (waited, calm) = (now - at, either.longest_gap(at, now));
                let passable = impassable.covers_nothing(at.saturating_sub(CALM_BEFORE), now);
                if slow {
                } else if waited > MAX_ACK_DELAY && either.covers_nothing(since, now) {
                    self.broken("late ack", format!("{name} after {} ms", waited / MS));
                } else if waited > MAX_DETOUR_DELAY && passable {
                    self.broken("late detour", format!("{name} after {} ms", waited / MS));
                } else if calm > MAX_HELD_DELAY {
                    self.broken("late recovery", format!("{name}, after {} ms without trouble", calm / MS));
                }
            }
            _ => {
                self.counters.add("messages unavailable", 1);
                let at = first_taken.unwrap_or(at);
                self.counters.add("unavailable though written", u64::from(written));
                self.counters.add("messages given up early", u64::from(now < at + hold));
                let over = now.min(at + hold);
                let is_early = now + TTL_ROUNDING < at + hold;
                let since = at.saturating_sub(RECOVERY);
                let passable = impassable.covers_nothing(at.saturating_sub(CALM_BEFORE), over);
                let untroubled = either.covers_nothing(since, over);
                // A full recipient socket delays delivery.
                let free = either.with(busy).longest_gap(at, over);
                let untaken = untroubled && (busy.covers_nothing(at, over) || free > MAX_ACK_DELAY);
                // The sender's node remembers delivered messages, so a crashed edge is no excuse.
                if is_early && got && self.reliable[from] && trouble.lossy.covers_nothing(since, now) {
                    self.broken("given up though delivered", format!("{name}, before its deadline"));
                }
                if is_early && !crowded && away.covers_nothing(since, now) {
                    let what = format!("{name}, before its deadline, to a connected recipient");
                    return self.broken("given up early", what);
                }
                // A message that expires before the cut is detected is lost.
                let outlives_a_cut = hold > 2 * SILENCE;
                if passable && !untroubled && !crowded && outlives_a_cut {
                    self.broken("unavailable", format!("{name}, though other nodes could relay it"));
                // An absent sender asks again after the delivery, when the recipient may be gone.
                } else if (untaken || free >= RECOVERY) && !(repeated && written) {
                    let what = format!("{name}, though all was well for {} ms of its hold time", free / MS);
                    self.broken("unavailable", what);
                }
                if written && untroubled {
                    self.broken("unavailable though written", name);
                }
            }
        }
    }

    /// Reports messages without an outcome, and outcomes later than 5 s after the hold time since
    /// the accept, or `quiet_from` if later. `answerable` returns `true` if a socket can receive
    /// one.
    pub(crate) fn settle(&mut self, quiet_from: Micros, answerable: impl Fn(SocketId) -> bool) {
        for id in 0..self.messages.len() {
            let Message { taken: Some((socket, at)), answer, .. } = self.messages[id] else { continue };
            let due = at.max(quiet_from) + self.hold + MAX_OUTCOME_DELAY;
            let what = match answer {
                None if answerable(socket) => format!("{} has no outcome", self.name(id)),
                Some((_, at)) if at > due => format!("{} got its outcome {} ms late", self.name(id), (at - due) / MS),
                _ => continue,
            };
            self.broken("no outcome", what);
        }
    }
}
