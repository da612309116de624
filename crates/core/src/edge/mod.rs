//! The core of an edge: sessions of clients, their attachment to nodes, the edge's half of custody.
//!
//! The edge's event loop and the simulation call it. Inputs are methods with the time. Outputs:
//! bytes for links ([`EdgeCore::take_batch`]) and clients ([`EdgeCore::output`]), and [`Effect`]s.
//!
//! Uplink: [`EdgeCore::client_text`] keeps a message in the session's [`RetransmitBuffer`] and
//! writes an `Up`. The outcome ends custody. Downlink: [`EdgeCore::link_frames`] queues the text if
//! the [`Deduplicator`] accepts it. [`EdgeCore::wrote`] or `received` adds a `Confirm`.

mod attachments;
mod confirms;
mod deduplicator;
mod dialects;
mod endings;
mod floods;
mod inputs;
mod kick_list;
mod kicking;
mod latency_histogram;
mod liveness_proof;
mod memory;
mod output;
mod phase;
mod prefetch;
mod rate_buckets;
mod rate_limiter;
mod reassignments;
mod received_tracker;
mod retransmit_buffer;
mod senders;
mod session;
mod sweep;
mod verified_token;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use signaling_dialects::{Dialect, Out};
use signaling_protocol::{ClientId, CloseCode, limits};
use signaling_rendezvous::KeyHash;
use signaling_wire::trunk::ToNode;
use signaling_wire::{Counter, DecodeError, SessionId};
use slotmap::{SlotMap, new_key_type};

use self::attachments::Link;
use self::confirms::Confirms;
use self::memory::Memory;
use self::output::Pool;
use crate::TooLate;
use crate::rate_class::RateClass;

pub use self::deduplicator::{DedupBounds, DedupLimits, Deduplicator, DuplicateCheck};
pub use self::dialects::{DialectClient, DialectCounts};
pub use self::inputs::NodeReport;
pub use self::kick_list::{KickList, KickName};
pub use self::kicking::Kick;
pub use self::latency_histogram::LatencyHistogram;
pub use self::memory::SENDER_BYTES;
pub use self::phase::SessionPhase;
use self::rate_buckets::RateBucketTable;
pub use self::rate_limiter::RateLimits;
pub use self::reassignments::Reassignments;
pub use self::retransmit_buffer::{RetransmitBuffer, RetransmitLimits};
pub use self::session::{Attachment, ConnectRequest, Newcomer, Session};
pub use self::sweep::INTERVAL as SWEEP_INTERVAL;
pub use self::verified_token::{PresentedToken, VerifiedToken};
pub use signaling_wire::rate::{Rate, TokenBucket, whole_ms};

new_key_type! {
    /// Key of a client's session at this edge.
    pub struct ClientKey;
    /// Key of a link: a trunk to a node, or the in-memory path to this process's own node.
    pub struct LinkKey;
}

/// Limits and times for the clients of an edge.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Limits of a session's retransmit buffer.
    pub retransmit: RetransmitLimits,
    /// Limits of a session's deduplicator.
    pub dedup: DedupLimits,
    /// Maximum unwritten bytes of one client. Above it, its socket closes. From half of it on,
    /// messages of other clients wait at their nodes.
    pub max_output_bytes: usize,
    /// Time in which a socket takes none of its pending output, after which it is closed. The
    /// longer of this and the hold time limits two more times: until the output that one write left
    /// pending is written, and from writing a message to a reliable client until its `received`.
    pub write_timeout: Duration,
    /// Silence of a client after which it is pinged.
    pub heartbeat: Duration,
    /// Time after the ping of `heartbeat` without bytes from the client, after which its socket is
    /// closed.
    pub heartbeat_answer: Duration,
    /// Time without a new `received` while a message written to a reliable client lacks one, after
    /// which the socket is closed. Clients send `received` within 200 ms. The default of 5 s is 25
    /// times as long: enough for slow networks, and short for senders that wait for an `ack`.
    pub receipt_timeout: Duration,
    /// Hold time of a session until a node has sent its own: the maximum time that a message of the
    /// client waits for its delivery.
    pub hold_until_told: Duration,
    /// Maximum rates of one token subject, or of a client without one.
    pub rates: RateLimits,
    /// Maximum rates by the rate class of tokens. Clients without a class, or with
    /// another one, have `rates`.
    pub rate_classes: BTreeMap<RateClass, RateLimits>,
    /// Maximum bytes kept for all clients: messages without an outcome, unwritten output, known
    /// senders, seats, state of translators. Above it, sockets with the most unwritten output and
    /// seats close; above half of it, clients may have fewer messages without an outcome.
    /// `usize::MAX`: no limit.
    pub max_memory_bytes: usize,
}

impl Settings {
    /// Returns the defaults, with larger buffers of a client if messages of this size, in bytes,
    /// need them.
    pub fn for_messages_of(max_message_bytes: usize) -> Self {
        let defaults = Self::default();
        // A client that is not read cannot send `received`, so two messages must fit.
        let bytes = defaults.retransmit.bytes.max(2 * max_message_bytes);
        Self {
            retransmit: RetransmitLimits { bytes, ..defaults.retransmit },
            max_output_bytes: defaults.max_output_bytes.max(8 * max_message_bytes),
            ..defaults
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            retransmit: RetransmitLimits::default(),
            dedup: DedupLimits::default(),
            max_output_bytes: 512 * 1024,
            write_timeout: Duration::from_secs(10),
            heartbeat: limits::HEARTBEAT,
            heartbeat_answer: limits::HEARTBEAT_ANSWER,
            receipt_timeout: Duration::from_secs(5),
            hold_until_told: limits::DEFAULT_HOLD,
            rates: RateLimits::default(),
            rate_classes: BTreeMap::new(),
            max_memory_bytes: usize::MAX,
        }
    }
}

/// The answer to a refused upgrade request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// Machine-readable error code, such as `forbidden`.
    pub code: String,
    /// Human-readable reason.
    pub message: String,
    /// Time after which a new attempt may succeed, in milliseconds. `None`: no wait is known to
    /// help.
    pub retry_after_ms: Option<u32>,
}

/// Work for the shell.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// The session is detached. Attach it to a node by [`EdgeCore::attach`], now or later. A client
    /// that waits for admission can be refused instead, by [`EdgeCore::refuse`].
    AssignNode(ClientKey),
    /// Answer the client's upgrade request, then call [`EdgeCore::socket_opened`]. Its output holds
    /// the welcome, or a ping if the client has to prove that it lives.
    Accept(ClientKey),
    /// Refuse the client's upgrade request. The core has removed the client.
    Refuse(ClientKey, Refusal),
    /// Write these bytes, which end in a close frame of this code, and close the socket. The client
    /// has no further output.
    Close(ClientKey, CloseCode, Vec<u8>),
    /// Read the socket again, after [`Reading::Paused`].
    Read(ClientKey),
    /// Verify a new token, then call [`EdgeCore::renewed`] or [`EdgeCore::not_renewed`].
    Verify(ClientKey, PresentedToken),
    /// Call [`EdgeCore::kick`]. If the kick's time is after [`KickList::latest_believable`], use
    /// that time if it is `at_once`, else ignore it.
    Kick(Kick),
}

/// Events since the start, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Messages of clients, or of their translators, that were sent to nodes or kept for them.
    pub ups: u64,
    /// Messages of other clients that were queued for clients.
    pub downs: u64,
    /// Messages of other clients that were dropped as duplicates.
    pub duplicates: u64,
    /// Messages of other clients that were not written: an earlier one of the sender is missing, a
    /// later one was handled before, the message has expired, or there is no room. Includes
    /// `full_outputs` and `full_dedups`.
    pub sequence_gaps: u64,
    /// Messages that were not written because the recipient's output was half full, or 4,096
    /// messages to it had no `received`.
    pub full_outputs: u64,
    /// Messages that were not written because the recipient's deduplicator was full, or memory
    /// scarce.
    pub full_dedups: u64,
    /// Messages without an outcome that were sent when their session was attached: again, or for
    /// the first time if they came while it was detached.
    pub retransmissions: u64,
    /// Handoffs started.
    pub handoffs: u64,
    /// Read pauses: a retransmit buffer or a translator was full, a dialect's client was above its
    /// rate, or a native one got too many refusals.
    pub read_pauses: u64,
    /// Messages of native clients refused by the message rate.
    pub over_message_rate: u64,
    /// Messages of native clients refused by the byte rate.
    pub over_byte_rate: u64,
    /// Sockets closed because the client ignored refusals, or sent too many control frames.
    pub rate_abuses: u64,
    /// Sockets closed because memory for all clients was short.
    pub evicted: u64,
    /// Sockets closed because their token had expired.
    pub expired_tokens: u64,
}

/// Gauges of the last sweep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// Sessions that are detached or being released, including clients that wait for admission.
    pub unattached: usize,
    /// Clients that are not read. [`Counts::read_pauses`] names the reasons.
    pub read_paused: usize,
    /// Open sockets of dialects' clients, in the order of [`Dialect::ALL`].
    pub dialect_sockets: [usize; Dialect::ALL.len()],
}

/// Decision about further reads from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Read on.
    On,
    /// Stop until [`Effect::Read`]. A disconnected client gets no such effect.
    Paused,
}

/// The state of an edge: sessions, links, and effects for the shell.
#[derive(Debug, Default)]
pub struct EdgeCore {
    settings: Settings,
    sessions: SlotMap<ClientKey, Session>,
    links: SlotMap<LinkKey, Link>,
    effects: VecDeque<Effect>,
    clients_with_output: Vec<ClientKey>,
    pool: Pool,
    memory: Memory,
    counts: Counts,
    figures: Figures,
    latency: LatencyHistogram,
    kicks: KickList,
    rate_buckets: RateBucketTable,
    /// Highest number of its nodes, which it passes on to the others.
    counter: Counter,
    /// Effects of the present input of a translator.
    translated: Out,
    dialect_counts: [DialectCounts; Dialect::ALL.len()],
}

impl EdgeCore {
    /// Returns an edge without clients and links.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Takes the next effect. `None`: there is none now.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the urgency of a link's next batch. [`FlushUrgency::Idle`] for a lost link.
    pub fn wants(&self, link: LinkKey) -> FlushUrgency {
        match self.links.get(link) {
            Some(link) if !link.out.is_empty() => FlushUrgency::Immediate,
            Some(link) if !link.to_confirm.is_empty() || !link.lazy.is_empty() => FlushUrgency::Delayed,
            _ => FlushUrgency::Idle,
        }
    }

    /// Takes the next batch of a link: other frames first, then confirms. Further frames may wait.
    /// Empty: none wait, or the link is lost.
    pub fn take_batch(&mut self, key: LinkKey) -> Vec<u8> {
        let Some(Link { out, lazy, to_confirm, .. }) = self.links.get_mut(key) else { return Vec::new() };
        for client in to_confirm.drain(..) {
            let Some(session) = self.sessions.get_mut(client) else { continue };
            // After a handoff, confirms go to the new link.
            let Some((_, slot)) = session.attached_to().filter(|(at, _)| *at == key) else { continue };
            session.confirm_is_listed = false;
            if let Some((up_to, exceptions)) = session.confirms().and_then(Confirms::take) {
                let confirm = ToNode::Confirm { slot, up_to, exceptions };
                lazy.add(|out| confirm.append(out));
            }
        }
        let mut batch = out.take();
        batch.append(&mut lazy.take());
        batch
    }

    /// Takes the clients with new output since the last call, each once. A client that is gone
    /// since then has no output.
    pub fn take_clients_with_output(&mut self) -> Vec<ClientKey> {
        let clients = std::mem::take(&mut self.clients_with_output);
        for &client in &clients {
            if let Some(session) = self.sessions.get_mut(client) {
                session.output_is_listed = false;
            }
        }
        clients
    }

    /// Returns the unwritten bytes of an open socket; empty for other clients. The shell reports
    /// the bytes that the socket takes by [`EdgeCore::wrote`].
    pub fn output(&self, client: ClientKey) -> &[u8] {
        match self.sessions.get(client) {
            Some(session) if session.phase.is_open() => session.output.pending(),
            _ => &[],
        }
    }

    /// Returns the attached sessions, each with the hash that determines its node, and its link.
    /// Sessions that are being released are not attached.
    pub fn attached(&self) -> impl Iterator<Item = (ClientKey, KeyHash, LinkKey)> {
        self.sessions.iter().filter_map(|(key, session)| Some((key, session.key, session.uplink()?.0)))
    }

    /// Returns the number of a link's slots in use, including sessions that are leaving it. 0 for a
    /// lost link.
    pub fn sessions_on(&self, link: LinkKey) -> usize {
        self.links.get(link).map_or(0, |link| link.client_by_slot.len())
    }

    /// Returns the hash that determines the node of an attached session, and its link. `None`: it
    /// is detached, being released or gone.
    pub fn attachment(&self, client: ClientKey) -> Option<(KeyHash, LinkKey)> {
        let session = self.sessions.get(client)?;
        Some((session.key, session.uplink()?.0))
    }

    /// Returns all sessions, also those without an open socket.
    pub fn clients(&self) -> Vec<ClientKey> {
        self.sessions.keys().collect()
    }

    /// Returns `true` for a client of a dialect. `false`: it is native or gone.
    pub fn has_dialect(&self, client: ClientKey) -> bool {
        self.sessions.get(client).is_some_and(|session| session.dialect.is_some())
    }

    /// Returns the hash that determines the client's node. `None`: the client is gone.
    pub fn key_hash(&self, client: ClientKey) -> Option<KeyHash> {
        self.sessions.get(client).map(|session| session.key)
    }

    /// Returns the client's id and its session, for logs. `None`: the client is gone.
    pub fn identity(&self, client: ClientKey) -> Option<(&ClientId, SessionId)> {
        self.sessions.get(client).map(|session| (&session.client_id, session.id))
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns `true` if there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the bytes kept for all clients: those of the last sweep, and messages since then.
    pub fn kept(&self) -> usize {
        self.memory.total()
    }

    /// Returns the events since the start.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the gauges of the last sweep.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Returns the latencies of messages that were delivered, and of room requests that were
    /// carried out: the time from their receipt by this edge to their outcome.
    pub fn delays(&self) -> &LatencyHistogram {
        &self.latency
    }
}

/// Urgency of the next batch of a trunk, local link or lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushUrgency {
    /// There is nothing to send, or nothing can be sent now.
    Idle,
    /// Only frames that can wait for the flush delay are queued: confirms, outcomes, and notes
    /// between nodes.
    Delayed,
    /// Other frames are queued, or the connection needs the shell for another reason.
    Immediate,
}

/// Reason why a trunk must be closed at the end that reads it.
#[derive(Debug, thiserror::Error)]
pub enum TrunkError {
    /// The bytes are no frames.
    #[error("invalid trunk frame: {0}")]
    Damaged(#[from] DecodeError),
    /// A network or a pause held the frames back.
    #[error(transparent)]
    TooLate(#[from] TooLate),
}
