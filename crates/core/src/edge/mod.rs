//! The edge's decisions: sessions, their places at nodes, and the clients' half of custody.
//!
//! Pure: no socket, clock or task. Whatever happens comes in as a method with the time; what is to be done comes out
//! as bytes for links ([`EdgeCore::take_batch`]), bytes for clients ([`EdgeCore::output`]) and [`Effect`]s. The
//! way of a message up: [`EdgeCore::client_text`] keeps it in the session's [`RetransmitBuffer`] and writes an `Up`; its
//! `Fates` end its custody. Down: [`EdgeCore::link_frames`] asks the session's [`Deduplicator`], queues the text, and
//! once [`EdgeCore::wrote`] says that the socket took it, or a reliable client has said `received`, a `Confirm` rides
//! along with the next batch.

mod attachments;
mod bucket;
mod confirms;
mod delays;
mod endings;
mod filter;
mod floods;
mod inputs;
mod kicking;
mod kicks;
mod link;
mod memory;
mod output;
mod pace;
mod phase;

mod proven;
mod receipts;
mod senders;
mod session;
mod store;
mod sweep;
mod warm;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use signaling_protocol::{ClientId, CloseCode, limits};
use signaling_rendezvous::KeyHash;
use signaling_wire::trunk::ToNode;
use signaling_wire::{DecodeError, SessionId};
use slotmap::{SlotMap, new_key_type};

use self::confirms::Confirms;
use self::link::Link;
use self::memory::Memory;
use self::output::Pool;
use crate::rate_class::RateClass;

pub use self::bucket::{Rate, TokenBucket, whole_ms};
pub use self::delays::LatencyHistogram;
pub use self::filter::{Deduplicator, DuplicateCheck, FilterBounds, FilterLimits};
pub use self::inputs::FromNode;
pub use self::kicking::Kick;
pub use self::kicks::KickList;
pub use self::memory::{MemoryLimits, SENDER_BYTES};
pub use self::pace::PaceLimits;
pub use self::phase::SessionPhase;
pub use self::proven::{PresentedToken, VerifiedToken};
pub use self::session::{Attachment, ConnectRequest, Newcomer, Session};
pub use self::store::{RetransmitBuffer, StoreLimits};
pub use self::sweep::INTERVAL as SWEEP_INTERVAL;

new_key_type! {
    /// A client of this edge.
    pub struct ClientKey;
    /// A way to a node.
    pub struct LinkKey;
}

/// What an edge allows its clients.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is kept of one client's traffic.
    pub store: StoreLimits,
    /// What is remembered of what was written to one client.
    pub filter: FilterLimits,
    /// Maximum unwritten output, in bytes: past it a client is too slow. From half of it on other
    /// clients' messages wait at their nodes, so that only what a client's own requests and rooms
    /// bring can make so much.
    pub max_output_bytes: usize,
    /// How long a socket may take nothing at all though something waits.
    pub write_timeout: Duration,
    /// After this silence of a client it is pinged.
    pub heartbeat: Duration,
    /// How long it has to answer.
    pub heartbeat_answer: Duration,
    /// How long a reliable client may keep silent about what its socket took: 25 times what it is told to take, so that
    /// a slow network is no reason, and short enough for those who wait for an `ack`.
    pub receipt_timeout: Duration,
    /// Until a node has told its own.
    pub hold_until_told: Duration,
    /// How fast one client may send.
    pub pace: PaceLimits,
    /// How fast those of a class may.
    pub rate_classes: BTreeMap<RateClass, PaceLimits>,
    /// How much all clients together may have the edge keep.
    pub memory: MemoryLimits,
}

impl Settings {
    /// The defaults, with room for messages of this size.
    #[must_use]
    pub fn for_messages_of(max_message_bytes: usize) -> Self {
        let defaults = Self::default();
        // What a reliable client may have under way: one that is not read cannot say `received`.
        let bytes = defaults.store.bytes.max(2 * max_message_bytes);
        Self {
            store: StoreLimits { bytes, ..defaults.store },
            max_output_bytes: defaults.max_output_bytes.max(8 * max_message_bytes),
            ..defaults
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: StoreLimits::default(),
            filter: FilterLimits::default(),
            max_output_bytes: 512 * 1024,
            write_timeout: Duration::from_secs(10),
            heartbeat: limits::HEARTBEAT,
            heartbeat_answer: limits::HEARTBEAT_ANSWER,
            receipt_timeout: Duration::from_secs(5),
            hold_until_told: limits::DEFAULT_HOLD,
            pace: PaceLimits::default(),
            rate_classes: BTreeMap::new(),
            memory: MemoryLimits::default(),
        }
    }
}

/// A refusal that a node, or the lack of one, gives a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// Where waiting helps: for how long.
    pub retry_after_ms: Option<u32>,
}

/// What the shell has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// The session is detached: attach it to a node, now or later.
    AssignNode(ClientKey),
    /// Answer the client's upgrade; its output already has the welcome.
    Accept(ClientKey),
    /// Refuse the client, which still waits for its upgrade. The core has forgotten it.
    Refuse(ClientKey, Refusal),
    /// Write this and close the socket. The core has no further use for it.
    Close(ClientKey, CloseCode, Vec<u8>),
    /// Read the socket again.
    Read(ClientKey),
    /// The client shows a new token: [`EdgeCore::renewed`] or [`EdgeCore::not_renewed`] answers.
    Verify(ClientKey, PresentedToken),
    /// A node says that a client is put out: [`EdgeCore::kick`] does so.
    Kick(Kick),
}

/// What happened so far, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Frames taken from clients for a node.
    pub ups: u64,
    /// Messages written to clients.
    pub downs: u64,
    /// Repeats that were not written again.
    pub filtered_repeats: u64,
    /// Messages not written because one before them was missing, or there was no room.
    pub gaps: u64,
    /// Messages refused because the recipient's output was full.
    pub full_outputs: u64,
    /// And because its filter was full.
    pub full_filters: u64,
    /// Frames sent again to another node.
    pub resends: u64,
    /// Sessions moved to another node behind their open socket.
    pub handoffs: u64,
    /// Clients that were stopped because their store was full.
    pub full_stores: u64,
    /// Sockets closed by the edge.
    pub closes: u64,
    /// Messages refused because their sender had sent too many.
    pub over_message_rate: u64,
    /// Messages refused because their sender had sent too many bytes.
    pub over_byte_rate: u64,
    /// Sockets closed because the client went on in spite of that, or pinged too often.
    pub rate_abuses: u64,
    /// Sockets closed because all clients together had too much unread.
    pub evicted: u64,
    /// Of these, because their token had expired.
    pub expired_tokens: u64,
}

/// How things stood at the last sweep, for metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// Sessions that no node serves: on their way between two, or without any to go to.
    pub moving: usize,
    /// Clients that are not read because their store is full.
    pub paused: usize,
}

/// Whether to go on reading a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Go on.
    On,
    /// Not before [`Effect::Read`]; or never, if the client is gone.
    Paused,
}

/// The edge's state.
#[derive(Debug)]
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
    delays: LatencyHistogram,
    kicks: KickList,
}

impl EdgeCore {
    /// An edge without clients and links.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            sessions: SlotMap::with_key(),
            links: SlotMap::with_key(),
            effects: VecDeque::new(),
            clients_with_output: Vec::new(),
            pool: Pool::default(),
            memory: Memory::default(),
            counts: Counts::default(),
            figures: Figures::default(),
            delays: LatencyHistogram::default(),
            kicks: KickList::default(),
        }
    }

    /// What the shell has to do next.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Whether the link has something that must not wait, or at least something to confirm.
    #[must_use]
    pub fn wants(&self, link: LinkKey) -> FlushUrgency {
        match self.links.get(link) {
            Some(link) if !link.out.is_empty() => FlushUrgency::Immediate,
            Some(link) if !link.to_confirm.is_empty() || !link.lazy.is_empty() => FlushUrgency::Delayed,
            _ => FlushUrgency::Idle,
        }
    }

    /// Takes what the link has to carry, confirms last: of each all of it, or a batch.
    pub fn take_batch(&mut self, key: LinkKey) -> Vec<u8> {
        let Some(Link { out, lazy, to_confirm, .. }) = self.links.get_mut(key) else { return Vec::new() };
        for client in to_confirm.drain(..) {
            let Some(session) = self.sessions.get_mut(client) else { continue };
            // It may have moved on since: its confirms go where it is now.
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

    /// Clients that have got output since this was asked last.
    pub fn take_clients_with_output(&mut self) -> Vec<ClientKey> {
        let clients = std::mem::take(&mut self.clients_with_output);
        for &client in &clients {
            if let Some(session) = self.sessions.get_mut(client) {
                session.output_is_listed = false;
            }
        }
        clients
    }

    /// What is to be written to the client's socket; nothing before its upgrade was answered.
    #[must_use]
    pub fn output(&self, client: ClientKey) -> &[u8] {
        match self.sessions.get(client) {
            Some(session) if session.phase.is_open() => session.output.pending(),
            _ => &[],
        }
    }

    /// Returns the attached sessions, each with its hash and its link.
    pub fn attached(&self) -> impl Iterator<Item = (ClientKey, KeyHash, LinkKey)> {
        self.sessions.iter().filter_map(|(key, session)| Some((key, session.key, session.uplink()?.0)))
    }

    /// Sessions that a link carries, those included that are leaving it or wait for their last fates.
    #[must_use]
    pub fn sessions_on(&self, link: LinkKey) -> usize {
        self.links.get(link).map_or(0, |link| link.client_by_slot.len())
    }

    /// Returns the hash of a session and its link, or `None` unless it is attached.
    #[must_use]
    pub fn attachment(&self, client: ClientKey) -> Option<(KeyHash, LinkKey)> {
        let session = self.sessions.get(client)?;
        Some((session.key, session.uplink()?.0))
    }

    /// All sessions.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientKey> {
        self.sessions.keys().collect()
    }

    /// The hash that places the client.
    #[must_use]
    pub fn key_hash(&self, client: ClientKey) -> Option<KeyHash> {
        self.sessions.get(client).map(|session| session.key)
    }

    /// The client and its session, for spans and logs.
    #[must_use]
    pub fn identity(&self, client: ClientKey) -> Option<(&ClientId, SessionId)> {
        self.sessions.get(client).map(|session| (&session.client_id, session.id))
    }

    /// Returns the sessions of a client, for operators.
    pub fn sessions_of(&self, client: &ClientId) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(move |session| session.client_id == *client)
    }

    /// How many sessions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Bytes that are kept for all clients together, never less than there are.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.memory.total()
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How things stood at the last sweep.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// How long it took from reading each message until it was known to be done.
    #[must_use]
    pub fn delays(&self) -> &LatencyHistogram {
        &self.delays
    }
}

/// How urgently a link wants its batch taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushUrgency {
    /// It has nothing.
    Idle,
    /// Confirms alone: they wait for company, 2 ms at most.
    Delayed,
    /// Messages.
    Immediate,
}

/// Bytes on a link that are no frames of the protocol: the link must be closed.
#[derive(Debug, thiserror::Error)]
#[error("the node sent what is no trunk frame: {0}")]
pub struct LinkError(#[from] DecodeError);
