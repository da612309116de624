//! The reference model: what clients were promised, and whether it was kept.

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
    /// When, in microseconds since the world began.
    pub at: u64,
    /// Which promise: one word or two, the same for all of its kind.
    pub rule: &'static str,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {}.{:06})", self.rule, self.what, self.at / SECOND, self.at % SECOND)
    }
}

/// What a sender was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderResult {
    Ack,
    Unavailable,
}

/// What order and once-only hold for: a plain client's socket, a reliable client's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Socket(SocketId),
    Session(ClientIx, u64),
}

/// Where a message stands among its sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: Stream,
    pub(crate) number: u64,
}

#[derive(Debug)]
struct Message {
    from: ClientIx,
    to: ClientIx,
    life: Micros,
    /// The sender's latest socket whose edge took the message, and when.
    taken: Option<(SocketId, Micros)>,
    /// A slow socket took it: if that was closed meanwhile, half of it as its last words.
    to_slow: bool,
    /// Its sender has said it on several sockets.
    repeated: bool,
    /// When an edge took it first: what is over then may be over for good, however often its sender asks.
    first_taken: Option<Micros>,
    place: Option<Place>,
    written: Vec<(SocketId, Micros)>,
    /// When a reliable recipient's application got it.
    got: Option<Micros>,
    told: Option<(SenderResult, Micros)>,
}

/// After a fault has ended, everything is in place again within this time: reconnects back off up to 5 s, and what a
/// node was told is held is repeated after 5 s.
const RECOVERY: Micros = 7 * SECOND;
/// What is said to be held is repeated this seldom, should its fate be lost.
const HELD_PATIENCE: Micros = 12 * SECOND;
/// While two nodes do not reach each other, but others reach both, an `ack` comes in this time.
const LATEST_BY_DETOUR: Micros = 6 * SECOND;
/// That is, if nothing else has been wrong for this long.
pub(crate) const CALM_BEFORE: Micros = 15 * SECOND;
/// With nothing wrong, an `ack` comes without any repeat.
const LATEST_ACK: Micros = SECOND;
/// From about so many messages to one recipient on, it may be taken for absent because a fault hides it.
const MANY_FOR_ONE: usize = 60;
/// A fate comes at the latest so long after the hold time.
const LATEST_FATE: Micros = 5 * SECOND;

#[derive(Debug)]
pub(crate) struct Ledger {
    messages: Vec<Message>,
    /// The last message of a sender that was written to a recipient's socket.
    last_written: BTreeMap<(Stream, SocketId), u64>,
    /// The last message of a sender that a reliable recipient's application got.
    last_got: BTreeMap<(Stream, ClientIx), u64>,
    /// By client.
    reliable: Vec<bool>,
    unfated_by_socket: BTreeMap<SocketId, BTreeSet<MessageId>>,
    /// Twice what an edge keeps: fates make room before their replies are written.
    most_unfated: usize,
    hold: Micros,
    pub(crate) last_taken: Micros,
    violations: Vec<Violation>,
    pub(crate) counters: Counters,
}

impl Ledger {
    pub(crate) fn new(hold: Micros, store_frames: usize, reliable: Vec<bool>) -> Self {
        Self {
            messages: Vec::new(),
            last_written: BTreeMap::new(),
            last_got: BTreeMap::new(),
            reliable,
            unfated_by_socket: BTreeMap::new(),
            most_unfated: 2 * store_frames,
            hold,
            last_taken: 0,
            violations: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// A message that a client may send, the next in all that the ledger knows.
    pub(crate) fn expect(&mut self, from: ClientIx, to: ClientIx, ttl_ms: Option<u64>) {
        let life = ttl_ms.map_or(self.hold, |ttl| self.hold.min(ttl * MS));
        self.messages.push(Message {
            from,
            to,
            life,
            taken: None,
            to_slow: false,
            repeated: false,
            first_taken: None,
            place: None,
            written: Vec::new(),
            got: None,
            told: None,
        });
    }

    pub(crate) fn broken(&mut self, at: Micros, rule: &'static str, what: String) {
        self.violations.push(Violation { at, rule, what });
    }

    pub(crate) fn first_violation(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// Whether one has said anything to another since then.
    pub(crate) fn has_said(&self, from: ClientIx, to: ClientIx, since: Micros) -> bool {
        let since = since.saturating_sub(SECOND);
        let is_one = |message: &Message| message.from == from && message.to == to;
        self.messages.iter().any(|message| is_one(message) && message.taken.is_some_and(|(_, at)| at >= since))
    }

    /// Whether its sender was told that it was delivered.
    pub(crate) fn is_acked(&self, message: MessageId) -> bool {
        self.messages.get(message).is_some_and(|message| matches!(message.told, Some((SenderResult::Ack, _))))
    }

    fn name(&self, message: MessageId) -> String {
        self.messages.get(message).map_or_else(
            || format!("m{message}"),
            |Message { from, to, taken, .. }| {
                let socket = taken.map_or(0, |(socket, _)| socket);
                format!("m{message} (c{from} on socket {socket} to c{to})")
            },
        )
    }

    /// An edge has taken the message from its sender, who may have said it before on an earlier socket. A slow sender is
    /// told its fates late: that bounds nothing.
    pub(crate) fn taken(&mut self, now: Micros, message: MessageId, (socket, place): (SocketId, Place), slow: bool) {
        if let Some(entry) = self.messages.get_mut(message) {
            let before = entry.taken;
            entry.repeated |= before.is_some();
            // What is read last may have been said first.
            if before.is_some_and(|(before, _)| before >= socket) {
                return;
            }
            entry.taken = Some((socket, now));
            entry.first_taken.get_or_insert(now);
            entry.place = Some(place);
            if let Some(unfated) = before.and_then(|(before, _)| self.unfated_by_socket.get_mut(&before)) {
                unfated.remove(&message);
            }
            let unfated = self.unfated_by_socket.entry(socket).or_default();
            unfated.insert(message);
            self.last_taken = now;
            if unfated.len() > self.most_unfated && !slow {
                let what = format!("{} messages of socket {socket} have no fate", unfated.len());
                self.broken(now, "store bound", what);
            }
        }
    }

    /// The recipient's socket took the message. A slow one takes what it was sent before the sender was told that it
    /// is not known to have been delivered.
    pub(crate) fn written(
        &mut self,
        now: Micros,
        message: MessageId,
        (to, socket): (ClientIx, SocketId),
        slow: bool,
        trouble: &Trouble,
    ) {
        let name = self.name(message);
        let calm = trouble.any.covers_nothing(now.saturating_sub(30 * SECOND), now);
        let Some(entry) = self.messages.get_mut(message) else {
            return self.broken(now, "invented", format!("{name} was never sent"));
        };
        let Some(Place { stream, number }) = entry.place else {
            return self.broken(now, "invented", format!("{name} was written before its edge took it"));
        };
        if entry.to != to {
            return self.broken(now, "wrong recipient", format!("{name} was written to c{to}"));
        }
        let earlier = entry.written.iter().any(|(other, _)| *other == socket);
        let told = entry.told.map(|(told, _)| told);
        let elsewhere = !entry.written.is_empty();
        let since = entry.first_taken.unwrap_or(now).saturating_sub(RECOVERY);
        let repeated = entry.repeated;
        let troubled = !trouble.any.covers_nothing(since, now);
        let plain = !self.reliable.get(to).copied().unwrap_or_default();
        entry.written.push((socket, now));
        let half_written = entry.to_slow;
        entry.to_slow |= slow;
        if earlier {
            return self.broken(now, "doubled", format!("{name} was written twice to socket {socket}"));
        }
        if elsewhere {
            self.counters.add("doubled on the recipient's next socket", 1);
            if told == Some(SenderResult::Ack) {
                self.counters.add("doubled there after an ack", 1);
            }
            // What a reliable client has not said `received` for, it gets again: it knows it by its name.
            // And what its sender said again on another socket of its own may be news to the recipient's next one.
            if plain && !troubled && !half_written && !repeated {
                self.broken(now, "doubled in calm", format!("{name} came again on socket {socket}"));
            }
        }
        match told {
            Some(SenderResult::Unavailable) if slow => {
                self.counters.add("written to a slow socket after unavailable", 1);
            }
            Some(SenderResult::Unavailable) if repeated && troubled => {
                self.counters.add("written after unavailable, said on several sockets", 1);
            }
            Some(SenderResult::Unavailable) => self.broken(now, "written after unavailable", name),
            Some(SenderResult::Ack) if calm => {
                self.broken(now, "doubled after ack", format!("{name}, with no fault on"));
            }
            _ => {
                let last = self.last_written.entry((stream, socket)).or_insert(number);
                let before = std::mem::replace(last, (*last).max(number));
                if before > number {
                    let what = format!("{name}, its {number}th, was written to socket {socket} behind the {before}th");
                    self.broken(now, "swapped", what);
                }
            }
        }
    }

    /// A reliable client has given its application a message whose name it had not seen.
    pub(crate) fn application_got(&mut self, now: Micros, message: MessageId, client: ClientIx) {
        let name = self.name(message);
        let Some(entry) = self.messages.get_mut(message) else { return };
        let Some(Place { stream, number }) = entry.place else { return };
        let repeated = entry.repeated;
        self.counters.add("messages that applications of reliable clients got", 1);
        if entry.got.replace(now).is_some() {
            return self.broken(now, "doubled to an application", format!("c{client} got {name} twice"));
        }
        let last = self.last_got.entry((stream, client)).or_insert(number);
        let before = std::mem::replace(last, (*last).max(number));
        // What was given up, and its sender did not hear of that, it says again on its next socket, however late.
        if before > number && !repeated {
            let what = format!("c{client} got {name}, its {number}th, behind the {before}th");
            self.broken(now, "swapped to an application", what);
        }
    }

    /// The sender's socket took an answer to the message. `trouble` is when something was wrong in the mesh, `away` when
    /// the recipient had no socket that takes output, `busy` when that was full of what came before, `slow` whether the
    /// sender takes its answers late.
    pub(crate) fn told(
        &mut self,
        now: Micros,
        message: MessageId,
        socket: SocketId,
        told: SenderResult,
        (trouble, away, busy): (&Trouble, &Spans, &Spans),
        slow: bool,
    ) {
        let name = self.name(message);
        let Some(entry) = self.messages.get_mut(message) else {
            return self.broken(now, "invented", format!("{name} has a fate and was never sent"));
        };
        let Some((sender, at)) = entry.taken.filter(|(sender, _)| *sender == socket) else {
            return self.broken(now, "wrong sender", format!("{name} has a fate on socket {socket}"));
        };
        if let Some((before, _)) = entry.told.replace((told, now)) {
            return self.broken(now, "two fates", format!("{name} was told {before:?} and then {told:?}"));
        }
        let to = entry.to;
        let crowded = self.unfated_to(sender, to) >= MANY_FOR_ONE;
        if let Some(unfated) = self.unfated_by_socket.get_mut(&sender) {
            unfated.remove(&message);
        }
        let Some(entry) = self.messages.get(message) else { return };
        let (life, written, first_taken) = (entry.life, !entry.written.is_empty(), entry.first_taken);
        let repeated = entry.repeated;
        let got = entry.got.is_some() || !self.reliable.get(to).copied().unwrap_or_default();
        match told {
            SenderResult::Ack => {
                self.counters.add("messages taken and acked", 1);
                if !written {
                    return self.broken(now, "ack without writing", name);
                }
                if !got {
                    return self.broken(now, "ack without the application", name);
                }
                let (since, waited) = (at.saturating_sub(RECOVERY), now - at);
                let either = trouble.any.with(away);
                let passable = trouble.impassable.with(away).covers_nothing(at.saturating_sub(CALM_BEFORE), now);
                let calm = either.longest_gap(at, now);
                self.counters.add("messages acked after more than a second", u64::from(waited > LATEST_ACK));
                if slow {
                } else if waited > LATEST_ACK && either.covers_nothing(since, now) {
                    self.broken(now, "late ack", format!("{name} after {} ms", waited / MS));
                } else if waited > LATEST_BY_DETOUR && passable {
                    self.broken(now, "late detour", format!("{name} after {} ms", waited / MS));
                } else if calm > HELD_PATIENCE {
                    self.broken(now, "late recovery", format!("{name}, after {} ms without trouble", calm / MS));
                }
            }
            SenderResult::Unavailable => {
                self.counters.add("messages unavailable", 1);
                let at = first_taken.unwrap_or(at);
                self.counters.add("unavailable though written", u64::from(written));
                self.counters.add("messages given up early", u64::from(now < at + life));
                let over = now.min(at + life);
                let (since, either) = (at.saturating_sub(RECOVERY), trouble.any.with(away));
                let passable = trouble.impassable.with(away).covers_nothing(at.saturating_sub(CALM_BEFORE), over);
                let untroubled = either.covers_nothing(since, over);
                // While it takes what came before as slowly as it can, nothing can be brought to it any sooner.
                let free = either.with(busy).longest_gap(at, over);
                let untaken = untroubled && (busy.covers_nothing(at, over) || free > LATEST_ACK);
                if now < at + life && !crowded && away.covers_nothing(since, now) {
                    let what = format!("{name}, whose time was not over, to a recipient who was there");
                    return self.broken(now, "given up early", what);
                }
                // Until a way is known to be cut, what lives no longer is lost on it.
                let outlives_a_cut = life > 2 * SILENCE;
                if passable && !untroubled && !crowded && outlives_a_cut {
                    self.broken(now, "unavailable", format!("{name}, though there was a way by other nodes"));
                // A sender who was away when it was delivered asks again, and its recipient may be gone by then.
                } else if (untaken || free >= RECOVERY) && !(repeated && written) {
                    let what = format!("{name}, though all was well for {} ms of its life", free / MS);
                    self.broken(now, "unavailable", what);
                }
                if written && untroubled {
                    self.broken(now, "unavailable though written", name);
                }
            }
        }
    }

    fn unfated_to(&self, sender: SocketId, to: ClientIx) -> usize {
        let unfated = self.unfated_by_socket.get(&sender).into_iter().flatten();
        unfated.filter(|message| self.messages.get(**message).is_some_and(|message| message.to == to)).count()
    }

    /// Looks for messages without a fate. `answerable` says whether a sender's socket is still there to be told.
    pub(crate) fn settle(&mut self, now: Micros, quiet_from: Micros, answerable: impl Fn(SocketId) -> bool) {
        let mut late = Vec::new();
        for (id, message) in self.messages.iter().enumerate() {
            let Some((socket, at)) = message.taken else { continue };
            let due = at.max(quiet_from) + self.hold + LATEST_FATE;
            match message.told {
                None if answerable(socket) => late.push((id, "has no fate".to_owned())),
                Some((_, told)) if told > due => {
                    late.push((id, format!("got its fate {} ms late", (told - due) / MS)));
                }
                _ => {}
            }
        }
        for (id, what) in late {
            let what = format!("{} {what}", self.name(id));
            self.broken(now, "no fate", what);
        }
    }
}
