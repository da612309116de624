//! Ends of sockets and sessions, by the shell and by this core. [`SessionPhase`] has the states.

use signaling_protocol::CloseCode;
use signaling_protocol::server::ServerMessage;
use signaling_wire::trunk::{DetachReason, ToNode};

use super::deduplicator::Deduplicator;
use super::output::Output;
use super::phase::SessionPhase;
use super::received_tracker::ReceivedTracker;
use super::session::Session;
use super::{ClientKey, EdgeCore, Effect, Refusal};
use crate::ws::encode;

impl EdgeCore {
    /// Refuses a client that waits for admission, by a close frame after its upgrade. Other clients
    /// are ignored.
    pub fn refuse(&mut self, client: ClientKey, refusal: Refusal) {
        let Some(session) = self.sessions.get(client) else { return };
        if session.proof.is_some() {
            self.refuse_upgraded(client, refusal.status, &refusal.message);
        } else if session.phase == SessionPhase::Waiting {
            self.effects.push_back(Effect::Refuse(client, refusal));
            self.remove(client);
        }
    }

    /// Closes a client's socket with a close frame. A client that waits for admission is refused:
    /// with 403 for [`CloseCode::KICKED`], else with 503. A socket that is not open yet closes once
    /// it is.
    pub fn close(&mut self, client: ClientKey, code: CloseCode, reason: &str) {
        self.end(client, code, reason, DetachReason::Closed);
    }

    /// Handles a client's close frame and answers with its code. `None`: the frame has no code.
    ///
    /// Only 1000 ends the session; of a dialect's client, any code does. A browser closes with 1001
    /// when a page goes away, and without a code when a script states none.
    pub fn client_left(&mut self, client: ClientKey, code: Option<CloseCode>) {
        let code = code.unwrap_or(CloseCode::NO_CODE);
        let is_dialect = self.sessions.get(client).is_some_and(|session| session.dialect.is_some());
        let cause = if code.is_goodbye() || is_dialect { DetachReason::Left } else { DetachReason::Lost };
        self.end(client, code, "", cause);
    }

    /// Ends a socket as [`Self::close`] does, and its session for `cause`.
    pub(super) fn end(&mut self, client: ClientKey, code: CloseCode, reason: &str, cause: DetachReason) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        match &mut session.phase {
            SessionPhase::Waiting => {
                let debts = self.rate_buckets.debts(&session.rate_buckets);
                session.send(&mut self.links, |slot| ToNode::Detach { slot, cause, debts });
                let (status, code, retry_after_ms) = match code {
                    CloseCode::KICKED => (403, "forbidden", None),
                    _ => (503, "unavailable", Some(1_000)),
                };
                let message = reason.to_owned();
                self.refuse(client, Refusal { status, code: code.to_owned(), message, retry_after_ms });
            }
            // A close frame must not overtake the answer to the upgrade.
            SessionPhase::Accepted { pending_end } => {
                pending_end.get_or_insert_with(|| Box::new((code, reason.into(), cause)));
            }
            SessionPhase::Open { .. } => {
                // Unwritten messages go to the next socket. Plain clients cannot drop duplicates.
                let Session { output, attachment, queued_before, received, .. } = session;
                let is_message = |end| {
                    queued_before.contains(&end)
                        || attachment.as_ref().is_some_and(|it| it.confirms.queued().any(|queued| queued == end))
                };
                let mut last_words = output.take(|end| received.is_none() && is_message(end));
                encode::close(&mut last_words, code.0, reason);
                self.effects.push_back(Effect::Close(client, code, last_words));
                self.end_socket(client, cause);
            }
            SessionPhase::Closed { .. } => {}
        }
    }

    /// Sends `goodbye` and closes the socket, so that the client connects to another server. A
    /// dialect's client, and one without a session or an open socket, gets no `goodbye`.
    pub fn send_away(&mut self, client: ClientKey, code: CloseCode, reason: &str, retry_after_ms: u64) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        if session.phase.is_open() && session.dialect.is_none() && session.proof.is_none() {
            let goodbye = ServerMessage::Goodbye { reason, retry_after_ms: Some(retry_after_ms) }.to_json();
            session.output.append(&mut self.pool, |out| encode::text(out, &goodbye));
        }
        let code = match &session.dialect {
            Some(dialect) if code == CloseCode::GOING_AWAY => dialect.dialect.going_away(),
            _ => code,
        };
        self.close(client, code, reason);
    }

    /// Ends the socket. The session stays while its messages have no outcomes.
    pub(super) fn end_socket(&mut self, client: ClientKey, cause: DetachReason) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let must_attach = cause != DetachReason::Left && session.state.is_some() && session.uplink().is_none();
        session.phase = SessionPhase::Closed { reason: cause, must_attach };
        session.deduplicator = Deduplicator::default();
        session.queued_before = Vec::new();
        if let Some(tracker) = &mut session.received {
            **tracker = ReceivedTracker::default();
        }
        session.output = Output::default();
        // Messages delivered before the end keep their outcome.
        let delivered = session.confirms().and_then(|confirms| std::mem::take(confirms).take());
        if let Some((up_to, exceptions)) = delivered {
            session.send(&mut self.links, |slot| ToNode::Confirm { slot, up_to, exceptions });
        }
        let debts = self.rate_buckets.debts(&session.rate_buckets);
        session.send(&mut self.links, |slot| ToNode::Detach { slot, cause, debts });
        if session.is_over() {
            self.remove(client);
        }
    }

    /// Forgets a session and frees its slot on its link.
    pub(super) fn remove(&mut self, client: ClientKey) {
        let Some(session) = self.sessions.remove(client) else { return };
        if let Some((link, slot)) = session.attached_to()
            && let Some(link) = self.links.get_mut(link)
        {
            link.client_by_slot.remove(&slot);
        }
        self.rate_buckets.release(session.rate_buckets);
    }
}
