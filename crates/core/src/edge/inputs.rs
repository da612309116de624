//! Inputs from clients and from nodes, which the edge's event loop passes in.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use signaling_dialects::Input;
use signaling_protocol::client::{ClientMessage, EdgeMessage, Names, parse, peek};
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{CloseCode, ErrorCode};
use signaling_wire::trunk::{DeliveryOutcome, DetachReason, Slot, ToEdge, ToNode, Unwritten};
use signaling_wire::{Elapsed, Seq};

use super::confirms::Confirms;
use super::deduplicator::{DedupBounds, DuplicateCheck};
use super::floods::add_rate;
use super::phase::SessionPhase;
use super::retransmit_buffer::RetransmitBuffer;
use super::session::Session;
use super::verified_token::PresentedToken;
use super::{ClientKey, EdgeCore, Effect, Kick, KickName, LinkKey, Reading, Refusal, TrunkError};
use crate::TooLate;
use crate::ws::encode;

/// Maximum frames that are prefetched together.
const MAX_RUN_FRAMES: usize = 32;

impl EdgeCore {
    /// Handles the end of the upgrade: its response is sent, so the socket can be read and written.
    pub fn socket_opened(&mut self, now: Instant, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let SessionPhase::Accepted { pending_end } = &mut session.phase else { return };
        let pending_end = pending_end.take();
        session.phase = SessionPhase::OPENED;
        session.heard = now;
        list_output(&mut self.clients_with_output, client, session);
        match pending_end.map(|end| *end) {
            Some((code, text, reason)) => self.end(client, code, &text, reason),
            None => self.ping_newcomer(now, client),
        }
    }

    /// Handles the loss of the client's socket. No effect after its end.
    pub fn socket_closed(&mut self, client: ClientKey, cause: DetachReason) {
        if self.sessions.get(client).is_some_and(|session| session.phase.closed().is_none()) {
            self.end_socket(client, cause);
        }
    }

    /// Handles the client's shutdown of its sending side: while it is not read, it no longer counts
    /// as alive. Earlier bytes may be unread.
    pub fn socket_ends(&mut self, client: ClientKey) {
        if let Some(session) = self.sessions.get_mut(client)
            && let SessionPhase::Open { half_closed, .. } = &mut session.phase
        {
            *half_closed = true;
        }
    }

    /// Records bytes of any kind from the client, which show that it is alive.
    pub fn heard(&mut self, now: Instant, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        session.heard = now;
        session.pinged = None;
        if std::mem::take(&mut session.probed) {
            session.send(&mut self.links, |slot| ToNode::Alive { slot });
        }
    }

    /// Handles a text message of the client, which is valid UTF-8. Returns if reading goes on.
    pub fn client_text(&mut self, now: Instant, client: ClientKey, text: &[u8]) -> Reading {
        if let Some(reading) = self.keep_early(now, client, true, text) {
            return reading;
        }
        if self.sessions.get(client).is_some_and(|session| session.dialect.is_some()) {
            return self.dialect_frame(now, client, Input::Text(text), text.len());
        }
        let message = peek(text);
        if let Some(reading) = self.refuse_flood(now, client, message, text) {
            return reading;
        }
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        if message == EdgeMessage::Token
            && session.token.is_some()
            && let Ok(ClientMessage::Token { token }) = parse(text)
        {
            self.effects.push_back(Effect::Verify(client, PresentedToken(token.into())));
            return Reading::On;
        }
        match message {
            EdgeMessage::Ping => self.write_native(client, &ServerMessage::Pong.to_json()),
            EdgeMessage::Received { n } => self.received(now, client, n),
            // The node answers invalid messages, and tokens that no edge requests.
            EdgeMessage::Token | EdgeMessage::Other => {
                session.send_up(now, &self.counter, text, &mut self.links);
                self.counts.ups += 1;
                self.memory.grow(text.len());
                self.pause_if_full(now, client)
            }
        }
    }

    /// Stops reading a client that must wait, and decides about further reads.
    pub(super) fn pause_if_full(&mut self, now: Instant, client: ClientKey) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        if session.must_wait(now, &self.memory.retransmit_limits(&self.settings)) && session.phase.set_paused(true) {
            (session.last_pong, session.pinged) = (now, None);
            self.counts.read_pauses += 1;
            return Reading::Paused;
        }
        Reading::On
    }

    /// Queues a message of the mesh for the client, in its dialect.
    fn write_text(&mut self, now: Instant, client: ClientKey, text: &[u8]) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        if session.dialect.is_some() {
            return self.translate(now, client, Input::Mesh(text));
        }
        session.output.append(&mut self.pool, |out| encode::text(out, text));
        self.check_output(client)
    }

    fn write_native(&mut self, client: ClientKey, text: &[u8]) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        session.output.append(&mut self.pool, |out| encode::text(out, text));
        self.check_output(client)
    }

    /// Queues an `error` of the edge for a native client, with these fields of its message.
    pub(super) fn write_error(
        &mut self,
        client: ClientKey,
        (code, message): (ErrorCode, &str),
        Names { id, to, room }: Names<'_>,
        retry_after_ms: Option<u64>,
    ) -> Reading {
        let to = to.as_deref();
        let room = room.as_deref();
        let error = ServerMessage::Error { code, message, id, to, room, retry_after_ms };
        self.write_native(client, &error.to_json())
    }

    /// Answers a WebSocket ping of the client, or closes its socket if there are too many.
    pub fn client_ping(&mut self, now: Instant, client: ClientKey, payload: &[u8]) -> Reading {
        if self.take_control(now, client) == Reading::Paused {
            return Reading::Paused;
        }
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        session.output.append(&mut self.pool, |out| encode::pong(out, payload));
        self.check_output(client)
    }

    /// Records that the socket took `count` bytes of [`EdgeCore::output`]. 0: it took none.
    pub fn wrote(&mut self, now: Instant, client: ClientKey, count: usize) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        session.output.wrote(now, count, &mut self.pool);
        if let Some(tracker) = &mut session.received {
            tracker.wrote(now, session.output.written());
        }
        self.confirm(client);
    }

    /// Handles `received` up to `n`. A number that was not sent gets an `error`. A plain client's
    /// `received` has no effect.
    fn received(&mut self, now: Instant, client: ClientKey, n: u64) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        let Some(tracker) = &mut session.received else { return Reading::On };
        if !tracker.acknowledge(now, n) {
            let message = format!("`received` names {n}, and you were sent {} so far", tracker.sent());
            return self.write_error(client, (ErrorCode::BadMessage, &message), Names::default(), None);
        }
        self.confirm(client);
        Reading::On
    }

    /// Handles a run of frames from a node. Returns the reports and requests in it, repeated ones
    /// once. Frames of a lost link or for a free slot have no effect.
    ///
    /// # Errors
    /// If the bytes are no frames, or more than 5 s late. Frames before the fault are handled. The
    /// link must be closed.
    pub fn link_frames(
        &mut self,
        now: Instant,
        link: LinkKey,
        mut frames: &[u8],
    ) -> Result<Vec<NodeReport>, TrunkError> {
        let (mut reports, mut late) = (Vec::new(), Duration::ZERO);
        let mut run = Vec::with_capacity(MAX_RUN_FRAMES);
        while !frames.is_empty() {
            run.clear();
            let mut fault = None;
            while run.len() < MAX_RUN_FRAMES && !frames.is_empty() && fault.is_none() {
                match ToEdge::take(&mut frames) {
                    Ok(frame) => run.push(frame),
                    Err(error) => fault = Some(error),
                }
            }
            self.prefetch_for(link, &run);
            for frame in &mut run {
                match frame {
                    ToEdge::Clock { elapsed, counter } => {
                        self.counter.receive(now, *counter)?;
                        late = self.measure(now, link, *elapsed)?;
                    }
                    ToEdge::Attached { rank, .. } | ToEdge::Ranked { rank, .. } => self.counter.receive(now, rank.0)?,
                    ToEdge::Down { ttl, .. } => *ttl = ttl.less(late),
                    _ => {}
                }
                self.link_frame(now, link, frame, &mut reports);
            }
            if let Some(fault) = fault {
                return Err(fault.into());
            }
        }
        Ok(reports)
    }

    fn measure(&mut self, now: Instant, link: LinkKey, elapsed: Elapsed) -> Result<Duration, TooLate> {
        self.links.get_mut(link).map_or(Ok(Duration::ZERO), |link| link.lateness.measure(now, elapsed))
    }

    fn client_at(&self, link: LinkKey, slot: Slot) -> Option<ClientKey> {
        self.links.get(link)?.client_by_slot.get(&slot).copied()
    }

    fn link_frame(&mut self, now: Instant, link: LinkKey, frame: &ToEdge<'_>, reports: &mut Vec<NodeReport>) {
        let mut add = |report| {
            if reports.last() != Some(&report) {
                reports.push(report);
            }
        };
        match *frame {
            ToEdge::Draining => add(NodeReport::Draining),
            ToEdge::Serving => add(NodeReport::Serving),
            ToEdge::StatusRequest => add(NodeReport::StatusRequest),
            ToEdge::SetDrained { drained } => add(NodeReport::DrainRequest { drained }),
            ToEdge::Kicked { name, at, at_once } => {
                self.effects.push_back(Effect::Kick(Kick { name: KickName::new(name), at, at_once }));
            }
            _ => {}
        }
        let Some(slot) = frame.slot() else { return };
        let Some(client) = self.client_at(link, slot) else { return };
        let Some(session) = self.sessions.get_mut(client) else { return };
        match *frame {
            ToEdge::Attached { session: id, rank, resumed, seq, debts, hold, greeting, state, .. } => {
                session.rate_buckets.raise_debts(now, debts);
                (session.id, session.rank) = (id, rank);
                session.hold = hold.as_duration();
                session.state = Some(state.into());
                session.request = None;
                if session.buffer.is_empty() && seq > session.buffer.last() {
                    session.buffer = RetransmitBuffer::starting_after(seq);
                }
                let mut greeting = Cow::Borrowed(greeting);
                if session.phase == SessionPhase::Waiting || session.proof.is_some() {
                    add_rate(&mut greeting, session, &self.settings, now);
                }
                if session.phase == SessionPhase::Waiting {
                    session.phase = SessionPhase::Accepted { pending_end: None };
                    self.effects.push_back(Effect::Accept(client));
                    self.count_claim(client, Some(resumed));
                }
                let Some(session) = self.sessions.get_mut(client) else { return };
                let proof = session.proof.take();
                if let SessionPhase::Closed { reason, must_attach } = &mut session.phase {
                    *must_attach = false;
                    let reason = *reason;
                    self.done_if_all_have_outcomes(client, reason);
                } else if !greeting.is_empty() {
                    self.write_text(now, client, &greeting);
                }
                if let Some(proof) = proof {
                    self.count_claim(client, Some(resumed));
                    self.end_proof(now, client, *proof);
                }
            }
            ToEdge::Rejected { status, code, message, retry_after_ms, .. } => {
                self.rejected(client, status, code, message, retry_after_ms);
            }
            ToEdge::Outcomes { first, count, outcome, reply, .. } => {
                self.outcomes(now, client, (first, count), outcome, reply);
            }
            ToEdge::Down { .. } => self.down(now, client, frame),
            ToEdge::Close { code, reason, .. } => self.close(client, CloseCode(code), reason),
            ToEdge::Released { state, .. } => {
                // A node that had not admitted the client sends an empty state.
                if !state.is_empty() {
                    session.state = Some(state.into());
                }
                if let Some(link) = self.links.get_mut(link) {
                    link.client_by_slot.remove(&slot);
                }
                self.reassign(client);
            }
            ToEdge::Ranked { rank, .. } => session.rank = rank,
            ToEdge::SessionState { state, .. } => session.state = Some(state.into()),
            // The client's answer would stay unread. Its open connection is the proof of life.
            ToEdge::Probe { .. } if session.is_paused_alive() => {
                session.send(&mut self.links, |slot| ToNode::Alive { slot });
            }
            ToEdge::Probe { .. } if session.probed => {}
            ToEdge::Probe { .. } => {
                session.probed = true;
                session.ping(&mut self.pool);
                list_output(&mut self.clients_with_output, client, session);
            }
            ToEdge::Prove { .. } => self.prove(client),
            ToEdge::Clock { .. }
            | ToEdge::Draining
            | ToEdge::Serving
            | ToEdge::Kicked { .. }
            | ToEdge::StatusRequest
            | ToEdge::SetDrained { .. } => {}
        }
    }

    /// Removes a session with a closed socket once all its messages have outcomes.
    fn done_if_all_have_outcomes(&mut self, client: ClientKey, cause: DetachReason) {
        let Some(session) = self.sessions.get_mut(client).filter(|session| session.buffer.is_empty()) else { return };
        let debts = self.rate_buckets.debts(&session.rate_buckets);
        session.send(&mut self.links, |slot| ToNode::Detach { slot, cause, debts });
        self.remove(client);
    }

    fn rejected(&mut self, client: ClientKey, status: u16, code: &str, message: &str, retry_after_ms: Option<u32>) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        if session.phase == SessionPhase::Waiting {
            if status == 409 {
                self.count_claim(client, None);
            }
            let (code, message) = (code.to_owned(), message.to_owned());
            return self.refuse(client, Refusal { status, code, message, retry_after_ms });
        }
        if let Some((link, slot)) = session.attached_to()
            && let Some(link) = self.links.get_mut(link)
        {
            link.client_by_slot.remove(&slot);
        }
        session.detach();
        if session.proof.is_some() {
            if status == 409 {
                self.count_claim(client, None);
            }
            return self.refuse_upgraded(client, status, message);
        }
        if status == 409 {
            self.close(client, CloseCode::REPLACED, message);
        }
        // Its messages without an outcome still need a node.
        if let Some(session) = self.sessions.get_mut(client) {
            if let SessionPhase::Closed { must_attach, .. } = &mut session.phase {
                *must_attach = false;
            }
            self.reassign(client);
        }
    }

    fn outcomes(
        &mut self,
        now: Instant,
        client: ClientKey,
        (first, count): (Seq, u32),
        outcome: DeliveryOutcome,
        reply: &[u8],
    ) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let mut news = false;
        for seq in first.run(count) {
            let Some(seen) = session.buffer.remove(seq) else { continue };
            news = true;
            if outcome == DeliveryOutcome::Done {
                self.latency.record(now.saturating_duration_since(seen));
            }
        }
        if !news {
            return;
        }
        if let Some(reason) = session.phase.closed() {
            return self.done_if_all_have_outcomes(client, reason);
        }
        let was_paused = session.phase.is_paused();
        if !reply.is_empty() {
            self.write_text(now, client, reply);
        }
        if was_paused
            && let Some(session) = self.sessions.get_mut(client)
            && !session.must_wait(now, &self.memory.retransmit_limits(&self.settings))
            && session.phase.set_paused(false)
        {
            self.effects.push_back(Effect::Read(client));
        }
    }

    fn down(&mut self, now: Instant, client: ClientKey, frame: &ToEdge<'_>) {
        let &ToEdge::Down { down_seq, origin, prev_pending, ttl, payload, .. } = frame else { return };
        let Some(session) = self.sessions.get_mut(client) else { return };
        if session.phase.closed().is_some() {
            return;
        }
        let output_is_full = session.is_full(&self.settings);
        let before = session.deduplicator.bytes();
        let verdict = match origin {
            Some(origin) => {
                let bounds = DedupBounds {
                    limits: self.settings.dedup,
                    hold: session.hold,
                    memory_is_scarce: self.memory.is_scarce(self.settings.max_memory_bytes),
                    output_is_full,
                };
                session.deduplicator.judge(&bounds, now, origin, prev_pending, ttl)
            }
            None => DuplicateCheck::Write,
        };
        self.memory.grow_by(session.deduplicator.bytes().saturating_sub(before));
        let mut is_translated = false;
        if verdict == DuplicateCheck::Write {
            match (&mut session.received, origin) {
                (Some(tracker), Some(origin)) => {
                    tracker.write(&mut session.output, &mut self.pool, origin, payload);
                }
                _ if session.dialect.is_none() => {
                    session.output.append(&mut self.pool, |out| encode::text(out, payload));
                }
                _ => is_translated = true,
            }
            self.counts.downs += u64::from(origin.is_some());
            self.memory.grow(payload.len());
        }
        let session = if is_translated {
            if self.translate(now, client, Input::Mesh(payload)) == Reading::Paused {
                return;
            }
            let Some(session) = self.sessions.get_mut(client) else { return };
            session
        } else {
            session
        };
        let mark = session.mark(origin);
        let Some(confirms) = session.confirms() else { return };
        confirms.add(down_seq, mark, verdict);
        match verdict {
            DuplicateCheck::Write => {
                self.check_output(client);
                // A confirm follows the last byte on the socket. A translator may write no byte.
                if !is_translated {
                    return;
                }
            }
            DuplicateCheck::Duplicate => self.counts.duplicates += 1,
            DuplicateCheck::Not(why) => {
                self.counts.sequence_gaps += 1;
                if why == Unwritten::NoRoom {
                    let full = &mut self.counts;
                    *(if output_is_full { &mut full.full_outputs } else { &mut full.full_dedups }) += 1;
                }
            }
        }
        self.confirm(client);
    }

    /// Lists the client for writing, or closes it if its output is too long.
    pub(super) fn check_output(&mut self, client: ClientKey) -> Reading {
        let Some(session) = self.sessions.get_mut(client) else { return Reading::Paused };
        if session.output.pending().len() > self.settings.max_output_bytes {
            self.close(client, CloseCode::TOO_SLOW, "you have too much unread output");
            Reading::Paused
        } else {
            list_output(&mut self.clients_with_output, client, session);
            Reading::On
        }
    }

    /// Lists the session on its link if there is something to confirm.
    fn confirm(&mut self, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let delivered = session.delivered();
        if session.confirms().is_some_and(|confirms: &mut Confirms| confirms.delivered(delivered))
            && !session.confirm_is_listed
            && let Some((link, _)) = session.attached_to()
            && let Some(link) = self.links.get_mut(link)
        {
            session.confirm_is_listed = true;
            link.to_confirm.push(client);
        }
    }
}

/// A node's report about itself, or its request to the edge's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeReport {
    /// The node drains: its sessions must be handed off.
    Draining,
    /// The node serves again.
    Serving,
    /// The node asks for a report about the edge's server ([`EdgeCore::send_status`]).
    StatusRequest,
    /// An operator takes the edge's server out of service, or returns it.
    DrainRequest {
        /// `true` to take it out of service.
        drained: bool,
    },
}

/// Adds a client with an open socket to the clients with output, once.
pub(super) fn list_output(listed: &mut Vec<ClientKey>, client: ClientKey, session: &mut Session) {
    if !session.output_is_listed && session.phase.is_open() {
        session.output_is_listed = true;
        listed.push(client);
    }
}
