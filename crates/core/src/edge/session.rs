//! What an edge knows of one client.

use std::fmt;
use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::trunk::{Request, Slot};
use signaling_wire::{Origin, SessionId};

use super::confirms::Confirms;
use super::filter::Deduplicator;
use super::output::Output;
use super::pace::ClientRateLimiter;
use super::phase::SessionPhase;
use super::proven::VerifiedToken;
use super::receipts::ReceivedTracker;
use super::store::RetransmitBuffer;
use super::{LinkKey, Settings};

/// The request that opened a client's socket.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ConnectRequest {
    /// Path, as requested.
    pub path: String,
    /// Query string without tokens.
    pub query: String,
    /// `Origin` header of a browser.
    pub origin: Option<String>,
    /// What its token has proven, where tokens are asked for. The token itself goes no further.
    pub proven: Option<VerifiedToken>,
    /// Resume token.
    pub resume: Option<String>,
    /// The client's address.
    pub address: String,
}

impl ConnectRequest {
    pub(super) fn as_wire(&self) -> Request<'_> {
        Request {
            path: &self.path,
            query: &self.query,
            origin: self.origin.as_deref(),
            resume: self.resume.as_deref(),
            address: &self.address,
        }
    }
}

impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, query, origin, proven, resume, address } = self;
        f.debug_struct("ConnectRequest")
            .field("path", path)
            .field("query", query)
            .field("origin", origin)
            .field("proven", proven)
            .field("resume", &resume.as_ref().map(|_| "***"))
            .field("address", address)
            .finish()
    }
}

/// A client that asks to be let in.
#[derive(Debug, Clone)]
pub struct Newcomer {
    /// Its id.
    pub client_id: ClientId,
    /// A session id drawn for it.
    pub session: SessionId,
    /// The edge's clock, microseconds since 1970.
    pub accepted_at_us: u64,
    /// Whether it takes part in custody.
    pub reliable: bool,
    /// What it asked with.
    pub request: ConnectRequest,
}

/// Where a session is served.
#[derive(Debug)]
pub(super) enum Place {
    /// Nowhere: frames wait in the store.
    Nowhere,
    /// At a node, which may not have said `Attached` yet.
    At { link: LinkKey, slot: Slot, confirms: Confirms },
    /// Still at a node that was told `Release`: what it sends down counts until it says `Released`.
    Leaving { link: LinkKey, slot: Slot, confirms: Confirms },
}

impl Place {
    pub(super) fn confirms(&self) -> Option<&Confirms> {
        match self {
            Self::Nowhere => None,
            Self::At { confirms, .. } | Self::Leaving { confirms, .. } => Some(confirms),
        }
    }
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) client_id: ClientId,
    pub(super) key: KeyHash,
    pub(super) id: SessionId,
    pub(super) accepted_at_us: u64,
    /// What the client has said `received` for; none for plain clients.
    pub(super) receipts: Option<Box<ReceivedTracker>>,
    /// Dropped once a node has admitted the client: what follows needs only `state`.
    pub(super) request: Option<Box<ConnectRequest>>,
    pub(super) state: Option<Box<[u8]>>,
    /// What the client's latest token has proven; none where tokens are not asked for.
    pub(super) proven: Option<Box<VerifiedToken>>,
    pub(super) hold: Duration,
    pub(super) place: Place,
    /// Where messages of former places end in the output that it has not taken.
    pub(super) queued_elsewhere: Vec<u64>,
    pub(super) phase: SessionPhase,
    pub(super) store: RetransmitBuffer,
    pub(super) filter: Deduplicator,
    pub(super) pace: ClientRateLimiter,
    pub(super) output: Output,
    pub(super) output_is_listed: bool,
    pub(super) confirm_is_listed: bool,
    pub(super) heard: Instant,
    pub(super) pinged: Option<Instant>,
    pub(super) last_pong: Instant,
    /// The node has asked whether the socket still answers.
    pub(super) probed: bool,
}

impl Session {
    pub(super) fn new(now: Instant, mut newcomer: Newcomer, settings: &Settings) -> Self {
        Self {
            proven: newcomer.request.proven.take().map(Box::new),
            key: KeyHash::of(newcomer.client_id.as_str()),
            client_id: newcomer.client_id,
            id: newcomer.session,
            accepted_at_us: newcomer.accepted_at_us,
            receipts: newcomer.reliable.then(Box::default),
            request: Some(Box::new(newcomer.request)),
            state: None,
            hold: settings.hold_until_told,
            place: Place::Nowhere,
            queued_elsewhere: Vec::new(),
            phase: SessionPhase::Waiting,
            store: RetransmitBuffer::default(),
            filter: Deduplicator::default(),
            pace: ClientRateLimiter::new(now),
            output: Output::default(),
            output_is_listed: false,
            confirm_is_listed: false,
            heard: now,
            pinged: None,
            last_pong: now,
            probed: false,
        }
    }

    /// Returns `true` if the session can be removed: no message of it waits for an outcome, and no
    /// node needs to attach it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, SessionPhase::Closed { must_attach: false, .. }) && self.store.is_empty()
    }

    /// Leaves its place. What its output has of there is remembered: the next node gets it again.
    pub(super) fn leave_place(&mut self) {
        let written = self.output.written();
        self.queued_elsewhere.retain(|end| *end > written);
        let place = std::mem::replace(&mut self.place, Place::Nowhere);
        // A reliable client's marks are no offsets, and it tells a message by its name.
        if self.receipts.is_none() {
            let queued = place.confirms().into_iter().flat_map(Confirms::queued);
            self.queued_elsewhere.extend(queued.filter(|end| *end > written));
        }
    }

    /// The link and slot that frames come from and confirms go to.
    pub(super) fn at(&self) -> Option<(LinkKey, Slot)> {
        match self.place {
            Place::Nowhere => None,
            Place::At { link, slot, .. } | Place::Leaving { link, slot, .. } => Some((link, slot)),
        }
    }

    /// The link and slot that the client's messages go to at once.
    pub(super) fn uplink(&self) -> Option<(LinkKey, Slot)> {
        match self.place {
            Place::At { link, slot, .. } => Some((link, slot)),
            _ => None,
        }
    }

    /// Returns `true` if the server does not read the client, whose connection is there. Its
    /// silence means nothing.
    pub(super) fn is_paused_alive(&self) -> bool {
        self.phase == SessionPhase::Open { paused: true, half_closed: false }
    }

    /// Returns `true` if so much waits for the client that other clients' messages must wait
    /// elsewhere. The rest of the output's room is for what the client's own requests are answered
    /// by.
    pub(super) fn is_full(&self, settings: &Settings) -> bool {
        self.output.pending().len() >= settings.max_output_bytes / 2
            || self.receipts.as_ref().is_some_and(|receipts| receipts.are_many())
    }

    /// What [`Session::delivered`] must reach before a message that is queued, or has been, counts as delivered.
    pub(super) fn mark(&self, origin: Option<Origin>) -> u64 {
        match (&self.receipts, origin) {
            (Some(receipts), Some(origin)) => receipts.needed_for(origin),
            (Some(receipts), None) => receipts.received(),
            (None, _) => self.output.end(),
        }
    }

    /// How far delivery has come: bytes written to a plain client's socket, messages that a reliable client has.
    pub(super) fn delivered(&self) -> u64 {
        self.receipts.as_ref().map_or(self.output.written(), |receipts| receipts.received())
    }

    pub(super) fn confirms(&mut self) -> Option<&mut Confirms> {
        match &mut self.place {
            Place::Nowhere => None,
            Place::At { confirms, .. } | Place::Leaving { confirms, .. } => Some(confirms),
        }
    }
}
