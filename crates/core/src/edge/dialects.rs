//! Clients of dialects, the protocols other than the mesh's native one. A translator stands between
//! the socket and the session: the shell, `inputs` and `sweep` pass it frames of the client,
//! messages of the mesh and the time.

use std::borrow::Cow;
use std::time::Instant;

use signaling_dialects::event::Event;
use signaling_dialects::request::Lifetime;
use signaling_dialects::{Close, Dialect, Input, Out, Translator};
use signaling_protocol::CloseCode;
use signaling_protocol::server::ServerMessage;
use signaling_wire::Credential;
use signaling_wire::trunk::DetachReason;

use super::floods::limits_of;
use super::session::Session;
use super::{ClientKey, EdgeCore, Reading};
use crate::ws::{Violation, encode};

/// A client's dialect, and the rules of its session.
#[derive(Debug)]
pub struct DialectClient {
    /// Its dialect.
    pub dialect: Dialect,
    /// Translates between its frames and messages of the mesh.
    pub translator: Translator,
    /// Credential of its claim of an id. `None`: its id is random and not claimed.
    pub credential: Option<Credential>,
    /// Event that ends its session.
    pub lifetime: Lifetime,
}

impl DialectClient {
    /// Returns `true` if the translator has to handle the time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.translator.deadline().is_some_and(|deadline| deadline <= now)
    }
}

/// Events of one dialect since the start, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct DialectCounts {
    /// Text and binary messages read from clients.
    pub frames_in: u64,
    /// Text messages of translators that were queued for clients.
    pub frames_out: u64,
    /// Inputs without effect, in the order of [`signaling_dialects::event::IgnoredReason`].
    pub ignored: [u64; 7],
    /// Failures reported to clients, in the order of [`signaling_dialects::event::AnswerKind`].
    pub answers: [u64; 3],
    /// Claims of ids: admitted with a new session, with a session of an equal credential, and
    /// refused with 409.
    pub claims: [u64; 3],
    /// Requests that waited because no node could carry them out.
    pub room_waits: u64,
    /// Read pauses because a client exceeded its rate.
    pub rate_waits: u64,
}

impl DialectCounts {
    fn add(&mut self, event: Event, count: u64) {
        match event {
            Event::Ignored(reason) => {
                self.ignored.get_mut(reason as usize).into_iter().for_each(|total| *total += count);
            }
            Event::Answered(kind) => {
                self.answers.get_mut(kind as usize).into_iter().for_each(|total| *total += count);
            }
            Event::RoomWait => self.room_waits += count,
        }
    }
}

impl EdgeCore {
    /// Returns the events of a dialect's clients since the start.
    pub fn dialect_counts(&self, dialect: Dialect) -> DialectCounts {
        self.dialect_counts[dialect as usize]
    }

    /// Handles a binary message of the client. Returns if reading goes on. No effect for a client
    /// of the native protocol.
    pub fn client_binary(&mut self, now: Instant, client: ClientKey, bytes: &[u8]) -> Reading {
        if let Some(reading) = self.keep_early(now, client, false, bytes) {
            return reading;
        }
        match self.sessions.get(client).is_some_and(|session| session.dialect.is_some()) {
            true => self.dialect_frame(now, client, Input::Binary(bytes), bytes.len()),
            false => Reading::On,
        }
    }

    /// Handles a Pong of the client, or closes its socket if there are too many. Returns if reading
    /// goes on. It may be the proof of a newcomer that it lives.
    pub fn client_pong(&mut self, now: Instant, client: ClientKey) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        let is_proof = session.proof.is_some();
        match session.pongs_due.checked_sub(1) {
            Some(others) => session.pongs_due = others,
            None if self.take_control(now, client) == Reading::Paused => return Reading::Paused,
            None => {}
        }
        if is_proof {
            self.newcomer_lives(now, client);
            return Reading::On;
        }
        self.translate(now, client, Input::Pong)
    }

    /// Closes a client that broke the protocol. If its message was too large, and its dialect has
    /// an error message, it gets that first.
    pub fn client_violates(&mut self, client: ClientKey, violation: Violation) {
        let Violation { code, reason } = violation;
        let error =
            self.sessions.get_mut(client).filter(|session| code == CloseCode::TOO_BIG.0 && session.phase.is_open());
        if let Some(session) = error
            && let Some(frame) = session.dialect.as_ref().and_then(|it| it.translator.error_frame(reason))
        {
            session.output.append(&mut self.pool, |out| encode::text(out, frame.as_bytes()));
        }
        self.close(client, CloseCode(code), reason);
    }

    /// Handles a frame of a dialect's client. A flood is not refused: the client is not read until
    /// its rate allows the next frame.
    pub(super) fn dialect_frame(&mut self, now: Instant, client: ClientKey, frame: Input<'_>, bytes: usize) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        let Some(dialect) = &session.dialect else { return Reading::On };
        let limits = limits_of(&self.settings, session.token.as_deref());
        session.rate_buckets.pay(limits, now, bytes);
        session.read_at = session.rate_buckets.wait(limits, now, 0).map(|(_, wait)| now + wait);
        let counts = &mut self.dialect_counts[dialect.dialect as usize];
        counts.frames_in += 1;
        counts.rate_waits += u64::from(session.read_at.is_some());
        if self.translate(now, client, frame) == Reading::Paused {
            return Reading::Paused;
        }
        self.pause_if_full(now, client)
    }

    /// Counts the outcome of a claim. `resumed`: `true` if the session continues an earlier one;
    /// `None` if the claim is refused.
    pub(super) fn count_claim(&mut self, client: ClientKey, resumed: Option<bool>) {
        let Some(dialect) = self.sessions.get(client).and_then(|session| session.dialect.as_ref()) else { return };
        if dialect.credential.is_some() {
            let [new, taken_over, refused] = &mut self.dialect_counts[dialect.dialect as usize].claims;
            *match resumed {
                Some(false) => new,
                Some(true) => taken_over,
                None => refused,
            } += 1;
        }
    }

    /// Passes an input to the client's translator, and carries out its effects in their order.
    pub(super) fn translate(&mut self, now: Instant, client: ClientKey, input: Input<'_>) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        let Some(DialectClient { dialect, translator, .. }) = session.dialect.as_deref_mut() else {
            return Reading::On;
        };
        let mut out = std::mem::take(&mut self.translated);
        translator.input(now, input, &mut out);
        let counts = &mut self.dialect_counts[*dialect as usize];
        counts.frames_out += out.frames.len() as u64;
        out.events.iter().for_each(|(event, count)| counts.add(*event, u64::from(*count)));
        let reading = self.carry_out(now, client, &out);
        // The answer of a client that is not read would stay unread. Its open socket is the proof.
        let is_alive = out.ping && self.sessions.get(client).is_some_and(|session| session.phase.is_paused());
        out.clear();
        self.translated = out;
        if is_alive { self.translate(now, client, Input::Pong) } else { reading }
    }

    fn carry_out(&mut self, now: Instant, client: ClientKey, out: &Out) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        for request in &out.requests {
            session.send_up(now, &self.counter, request.as_bytes(), &mut self.links);
            self.counts.ups += 1;
            self.memory.grow(request.len());
        }
        for frame in &out.frames {
            session.output.append(&mut self.pool, |out| encode::text(out, frame.as_bytes()));
            self.memory.grow(frame.len());
        }
        if out.ping {
            session.ping(&mut self.pool);
        }
        match &out.close {
            Some(Close { code, reason }) => {
                self.end(client, code.unwrap_or(CloseCode::NO_CODE), reason, DetachReason::Left);
                Reading::Paused
            }
            None => self.check_output(client),
        }
    }
}

impl Session {
    /// Returns the message that the client gets every 5 s while it is not read. `None`: its dialect
    /// needs none.
    pub(super) fn paused_frame(&self) -> Option<Cow<'static, [u8]>> {
        match &self.dialect {
            None => Some(Cow::Owned(ServerMessage::Pong.to_json())),
            Some(dialect) => dialect.translator.paused_frame().map(|frame| Cow::Borrowed(frame.as_bytes())),
        }
    }
}
