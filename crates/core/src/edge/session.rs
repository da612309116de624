//! The session of one client, and its upgrade request, which the shell creates. The other modules
//! of the edge's core change sessions.

use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::trunk::{Request, Slot, ToNode};
use signaling_wire::{Counter, Origin, Rank, RemainingTtl, SessionId, SocketId};
use slotmap::SlotMap;

use super::attachments::Link;
use super::confirms::Confirms;
use super::deduplicator::Deduplicator;
use super::liveness_proof::LivenessProof;
use super::output::{Output, Pool};
use super::phase::SessionPhase;
use super::rate_buckets::RateBuckets;
use super::rate_limiter::Refusals;
use super::received_tracker::ReceivedTracker;
use super::retransmit_buffer::{RetransmitBuffer, RetransmitLimits};
use super::verified_token::{PresentedToken, VerifiedToken};
use super::{DialectClient, KickName, LinkKey, Settings};
use crate::ws::encode;

/// The upgrade request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectRequest {
    /// Path, as requested.
    pub path: String,
    /// Query string without tokens.
    pub query: String,
    /// `Origin` header of a browser. `None`: no such header.
    pub origin: Option<String>,
    /// Claims of its token. `None`: tokens are not required. The token itself is dropped.
    pub token: Option<VerifiedToken>,
    /// Resume token. `None`: the client does not resume.
    pub resume: Option<PresentedToken>,
    /// The client's IP address, as determined by the shell.
    pub address: String,
}

impl ConnectRequest {
    /// Returns the request for an `Attach`, without the token's claims.
    pub(super) fn as_wire(&self) -> Request<'_> {
        Request {
            path: &self.path,
            query: &self.query,
            origin: self.origin.as_deref(),
            resume: self.resume.as_ref().map(|token| &*token.0),
            address: &self.address,
        }
    }
}

/// A client that requests admission.
#[derive(Debug, Clone)]
pub struct Newcomer {
    /// Its `client_id`.
    pub client_id: ClientId,
    /// The random id of its new session.
    pub session: SessionId,
    /// The random id of its socket.
    pub socket: SocketId,
    /// Time at which the edge accepted the socket, in milliseconds since 1970, for operators.
    pub since_ms: u64,
    /// `true` for a reliable client, which takes part in custody.
    pub reliable: bool,
    /// Its upgrade request.
    pub request: ConnectRequest,
}

/// The binding of a session to a node, which was sent `Attach` and may not have answered yet.
///
/// ```text
/// detached ──attach──> attached ──release──> releasing ──Released──> detached
///     ^───rejected or link lost──┴──────link lost──┘
/// ```
#[derive(Debug)]
pub struct Attachment {
    pub(super) link: LinkKey,
    pub(super) slot: Slot,
    /// `true` if the node was sent `Release`. Its downlink frames are accepted until `Released`.
    pub(super) is_releasing: bool,
    /// Confirms of the slot's downlink frames.
    pub(super) confirms: Confirms,
}

/// A client's session at its edge, with or without a socket.
#[derive(Debug)]
pub struct Session {
    pub(super) client_id: ClientId,
    /// The hash that determines its node.
    pub key: KeyHash,
    /// Its id. A node that resumes an older session replaces it.
    pub id: SessionId,
    pub(super) socket: SocketId,
    /// Rank of the socket, from the last node that has sent one.
    pub(super) rank: Rank,
    pub(super) since_ms: u64,
    /// Number of its attachments so far.
    pub(super) attachments: u32,
    /// Messages sent to a reliable client. `None`: a plain client.
    pub(super) received: Option<Box<ReceivedTracker>>,
    /// Upgrade request, until a node admits the client. Later attaches need only `state`.
    pub(super) request: Option<Box<ConnectRequest>>,
    /// State for the next node, as the last node sent it. `None`: no node has admitted the client.
    pub(super) state: Option<Box<[u8]>>,
    /// Claims of the client's latest token. `None`: tokens are not required.
    pub(super) token: Option<Box<VerifiedToken>>,
    /// Hold time of its messages, as its node sent it; before that, the edge's setting.
    pub(super) hold: Duration,
    /// Its binding to a node. `None`: detached. Uplink frames then wait in the retransmit buffer,
    /// as they do while a node releases it.
    pub attachment: Option<Attachment>,
    /// Offsets in the unwritten output at which messages of former attachments end.
    pub(super) queued_before: Vec<u64>,
    /// The state of its socket.
    pub phase: SessionPhase,
    /// Its messages without an outcome.
    pub buffer: RetransmitBuffer,
    pub(super) deduplicator: Deduplicator,
    /// The rates that its token's subject, or its client, has used.
    pub(super) rate_buckets: Rc<RateBuckets>,
    pub(super) refusals: Refusals,
    /// Time before which the client is not read: it exceeds its rate, or a native one got too many
    /// refusals. `None`: neither.
    pub(super) read_at: Option<Instant>,
    pub(super) output: Output,
    /// `true` if it is in the edge's list of clients with output.
    pub(super) output_is_listed: bool,
    /// `true` if it is in its link's list of clients to confirm.
    pub(super) confirm_is_listed: bool,
    /// Time of the last bytes from the client.
    pub(super) heard: Instant,
    /// Time of a heartbeat ping without an answer. `None`: no such ping.
    pub(super) pinged: Option<Instant>,
    /// Its translator. `None`: a client of the native protocol.
    pub(super) dialect: Option<Box<DialectClient>>,
    /// Time of the last [`Self::paused_frame`], or of the pause. Unused while the client is read.
    pub(super) last_pong: Instant,
    /// `true` if the node waits for `Alive`.
    pub(super) probed: bool,
    /// Pings of this edge without a Pong. Their Pongs cost the client nothing.
    pub(super) pongs_due: u32,
    /// The proof of an upgraded newcomer without a session. `None`: none is needed, or it has one.
    pub(super) proof: Option<Box<LivenessProof>>,
}

impl Session {
    pub(super) fn new(
        now: Instant,
        mut newcomer: Newcomer,
        dialect: Option<DialectClient>,
        rate_buckets: Rc<RateBuckets>,
        settings: &Settings,
    ) -> Self {
        Self {
            token: newcomer.request.token.take().map(Box::new),
            key: KeyHash::of(newcomer.client_id.as_str()),
            client_id: newcomer.client_id,
            id: newcomer.session,
            socket: newcomer.socket,
            rank: Rank::NONE,
            since_ms: newcomer.since_ms,
            attachments: 0,
            received: newcomer.reliable.then(Box::default),
            request: Some(Box::new(newcomer.request)),
            state: None,
            hold: settings.hold_until_told,
            attachment: None,
            queued_before: Vec::new(),
            phase: SessionPhase::Waiting,
            buffer: RetransmitBuffer::default(),
            deduplicator: Deduplicator::default(),
            rate_buckets,
            refusals: Refusals::default(),
            read_at: None,
            output: Output::default(),
            output_is_listed: false,
            confirm_is_listed: false,
            heard: now,
            pinged: None,
            dialect: dialect.map(Box::new),
            last_pong: now,
            probed: false,
            pongs_due: 0,
            proof: None,
        }
    }

    /// Returns `true` if the session can be removed: it has all outcomes, and need not attach.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, SessionPhase::Closed { must_attach: false, .. }) && self.buffer.is_empty()
    }

    /// Returns the subject of its token. `None`: it has no token, or its id is the subject.
    pub(super) fn subject(&self) -> Option<&KickName> {
        self.token.as_ref()?.subject.as_ref()
    }

    /// Pings the client.
    pub(super) fn ping(&mut self, pool: &mut Pool) {
        self.output.append(pool, encode::ping);
        self.pongs_due = self.pongs_due.saturating_add(1);
    }

    /// Returns `true` for a reliable client.
    pub fn is_reliable(&self) -> bool {
        self.received.is_some()
    }

    /// Detaches the session and records its queued messages, since the next node retransmits them.
    pub(super) fn detach(&mut self) {
        let written = self.output.written();
        self.queued_before.retain(|end| *end > written);
        let former = self.attachment.take();
        // The marks of a reliable client are no offsets, and it recognises messages by their names.
        if self.received.is_none() {
            let queued = former.iter().flat_map(|former| former.confirms.queued());
            self.queued_before.extend(queued.filter(|end| *end > written));
        }
    }

    /// Sends a frame to the session's node, if it has one.
    pub(super) fn send<'a>(&self, links: &mut SlotMap<LinkKey, Link>, frame: impl FnOnce(Slot) -> ToNode<'a>) {
        if let Some((link, slot)) = self.attached_to()
            && let Some(link) = links.get_mut(link)
        {
            link.send(&frame(slot));
        }
    }

    /// Returns the link and slot of downlink frames and confirms, also while its node releases it.
    /// `None`: it is detached.
    pub fn attached_to(&self) -> Option<(LinkKey, Slot)> {
        self.attachment.as_ref().map(|attachment| (attachment.link, attachment.slot))
    }

    /// Returns the link and slot of uplink frames. `None`: it is detached or being released.
    pub(super) fn uplink(&self) -> Option<(LinkKey, Slot)> {
        let attachment = self.attachment.as_ref().filter(|attachment| !attachment.is_releasing)?;
        Some((attachment.link, attachment.slot))
    }

    /// Returns `true` if a client with a working connection is not read: its silence means nothing.
    pub(super) fn is_paused_alive(&self) -> bool {
        self.phase == SessionPhase::Open { paused: true, half_closed: false }
    }

    /// Keeps a message until its outcome is known, and sends it if the session is attached.
    pub(super) fn send_up(&mut self, now: Instant, counter: &Counter, text: &[u8], links: &mut SlotMap<LinkKey, Link>) {
        let seq = self.buffer.push(text, now);
        let ttl = RemainingTtl::from_duration(self.hold);
        if let Some((link, slot)) = self.uplink()
            && let Some(link) = links.get_mut(link)
        {
            link.send_timed(now, counter, &ToNode::Up { slot, seq, ttl, payload: text });
        }
    }

    /// Returns `true` if the client must not be read now: too many of its messages have no outcome,
    /// or its translator or rate allows no further ones.
    pub(super) fn must_wait(&self, now: Instant, limits: &RetransmitLimits) -> bool {
        self.buffer.is_full(limits)
            || self.read_at.is_some_and(|at| now < at)
            || self.dialect.as_ref().is_some_and(|dialect| dialect.translator.is_full())
    }

    /// Returns `true` if messages of other clients must wait at their nodes: the output is half
    /// full (the rest is for answers to the client), or too many messages have no `received`.
    pub(super) fn is_full(&self, settings: &Settings) -> bool {
        self.output.pending().len() >= settings.max_output_bytes / 2
            || self.received.as_ref().is_some_and(|tracker| tracker.is_full())
    }

    /// Returns the value of [`Session::delivered`] at which a queued message counts as delivered.
    pub(super) fn mark(&self, origin: Option<Origin>) -> u64 {
        match (&self.received, origin) {
            (Some(tracker), Some(origin)) => tracker.needed_for(origin),
            (Some(tracker), None) => tracker.received(),
            (None, _) => self.output.end(),
        }
    }

    /// Returns the delivered bytes of a plain client, or the received messages of a reliable one.
    pub(super) fn delivered(&self) -> u64 {
        self.received.as_ref().map_or(self.output.written(), |tracker| tracker.received())
    }

    /// Returns the confirms for its link. `None`: it is detached.
    pub(super) fn confirms(&mut self) -> Option<&mut Confirms> {
        self.attachment.as_mut().map(|attachment| &mut attachment.confirms)
    }
}
