//! Newcomers that a node asks to prove that they live, since an open socket has their id. The edge
//! upgrades and pings such a client. It has its session once it has answered and a node attaches
//! it. `inputs`, `attachments` and `sweep` call this module.

use std::time::{Duration, Instant};

use signaling_protocol::{CloseCode, limits};
use signaling_wire::trunk::{DetachReason, ToNode};

use super::inputs::list_output;
use super::memory::ENTRY_BYTES;
use super::phase::SessionPhase;
use super::{ClientKey, EdgeCore, Effect, Reading};

/// Time in which a node must attach a client after its answer. Then the client comes back.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(8);

/// State of a newcomer that proves that it lives.
#[derive(Debug, Default)]
pub(super) struct LivenessProof {
    /// Time of the ping, or of the client's answer. `None`: the socket is not open yet.
    since: Option<Instant>,
    /// `true` once the client has answered.
    pub(super) is_given: bool,
    /// `true` if the socket is not read.
    is_paused: bool,
    /// Messages that came before the session, with `true` for text.
    early: Vec<(bool, Box<[u8]>)>,
    early_bytes: usize,
}

impl LivenessProof {
    /// Returns the bytes of early messages, with their overhead.
    pub(super) fn bytes(&self) -> usize {
        self.early_bytes + self.early.len() * ENTRY_BYTES
    }

    /// Restarts the time limits after a pause of this process.
    pub(super) fn on_process_pause(&mut self, now: Instant) {
        self.since = self.since.map(|_| now);
    }

    /// Returns the close code and reason of a socket past its time limit. `None`: it may go on.
    pub(super) fn overdue(&self, now: Instant) -> Option<(CloseCode, &'static str)> {
        let age = now.saturating_duration_since(self.since?);
        match self.is_given {
            false if age >= limits::TAKEOVER_ANSWER => Some((CloseCode::HEARTBEAT_MISSED, "no answer to a ping")),
            true if age >= ATTACH_TIMEOUT => Some((CloseCode::TRY_AGAIN, "no node answered in time; try again")),
            _ => None,
        }
    }
}

impl EdgeCore {
    /// Handles a node's request for a newcomer's proof: upgrades it, or repeats the proof.
    pub(super) fn prove(&mut self, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        match &session.proof {
            None if session.phase == SessionPhase::Waiting => {
                session.proof = Some(Box::default());
                session.phase = SessionPhase::Accepted { pending_end: None };
                self.effects.push_back(Effect::Accept(client));
            }
            Some(proof) if proof.is_given => self.send_proof(client),
            _ => {}
        }
    }

    /// Pings a newcomer whose socket has opened.
    pub(super) fn ping_newcomer(&mut self, now: Instant, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let Some(proof) = &mut session.proof else { return };
        proof.since = Some(now);
        session.ping(&mut self.pool);
        list_output(&mut self.clients_with_output, client, session);
    }

    /// Handles a newcomer's Pong, or that its socket is not read any more, which counts as well.
    pub(super) fn newcomer_lives(&mut self, now: Instant, client: ClientKey) {
        let Some(session) = self.sessions.get_mut(client) else { return };
        let Some(proof) = session.proof.as_mut().filter(|it| !it.is_given && it.since.is_some()) else { return };
        (proof.is_given, proof.since) = (true, Some(now));
        self.send_proof(client);
    }

    fn send_proof(&mut self, client: ClientKey) {
        let Some(session) = self.sessions.get(client) else { return };
        session.send(&mut self.links, |slot| ToNode::Proved { slot, client_id: session.client_id.as_str() });
    }

    /// Keeps a message of a newcomer without a session. `None`: the client has its session. At the
    /// limits of messages without an outcome the socket is not read.
    pub(super) fn keep_early(
        &mut self,
        now: Instant,
        client: ClientKey,
        is_text: bool,
        message: &[u8],
    ) -> Option<Reading> {
        let limits = self.memory.retransmit_limits(&self.settings);
        let Some(session) = self.sessions.get_mut(client) else { return Some(Reading::Paused) };
        let proof = session.proof.as_mut()?;
        proof.early.push((is_text, message.into()));
        proof.early_bytes += message.len();
        self.memory.grow(message.len());
        proof.is_paused = proof.is_given || proof.early.len() >= limits.frames || proof.early_bytes >= limits.bytes;
        if !proof.is_paused {
            return Some(Reading::On);
        }
        // Its Pong would stay unread.
        self.newcomer_lives(now, client);
        Some(Reading::Paused)
    }

    /// Ends the proof of a client that has its session now, and handles its early messages.
    pub(super) fn end_proof(&mut self, now: Instant, client: ClientKey, proof: LivenessProof) {
        for (is_text, message) in proof.early {
            match is_text {
                true => self.client_text(now, client, &message),
                false => self.client_binary(now, client, &message),
            };
        }
        let Some(session) = self.sessions.get_mut(client).filter(|session| session.phase.is_open()) else { return };
        if !proof.is_paused {
            // The shell reads the socket: the next message pauses it.
            session.phase.set_paused(false);
        } else if !session.phase.is_paused() {
            self.effects.push_back(Effect::Read(client));
        }
    }

    /// Closes the socket of a newcomer that a node refuses, or no node takes, after its upgrade.
    pub(super) fn refuse_upgraded(&mut self, client: ClientKey, status: u16, message: &str) {
        let code = CloseCode::of_status(status).unwrap_or(CloseCode::TRY_AGAIN);
        self.end(client, code, message, DetachReason::Lost);
    }
}
