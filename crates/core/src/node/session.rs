//! What a node knows of one client.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::SessionId;
use signaling_wire::grant::Grant;
use signaling_wire::seats::SessionState;
use signaling_wire::trunk::{Attach, DeliveryOutcome, Slot};

use super::hold::InboundMessage;
use super::outbound_queues::OutboundQueues;
use super::rooms::{BroadcastBudget, Tally};
use super::{PeerKey, Rules, SessionKey, TrunkKey};

/// Like fates in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct FateRun {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) fate: DeliveryOutcome,
}

impl FateRun {
    /// The run with one more, if that is its next.
    pub(super) fn and(self, seq: u64, fate: DeliveryOutcome) -> Option<Self> {
        let follows = self.fate == fate && self.first + u64::from(self.count) == seq && self.count < u32::MAX;
        follows.then_some(Self { count: self.count + 1, ..self })
    }
}

/// A newcomer that waits until the present holder of its id has had time to show life.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) trunk: TrunkKey,
    pub(super) arrival: AttachInfo,
    pub(super) since: Instant,
}

/// The lasting part of an `Attach`.
#[derive(Debug, Clone)]
pub(super) struct AttachInfo {
    pub(super) slot: Slot,
    pub(super) client_id: ClientId,
    pub(super) key: KeyHash,
    pub(super) session: SessionId,
    pub(super) accepted_at_us: u64,
    pub(super) reliable: bool,
    pub(super) seq: u64,
    /// No node has admitted it before.
    pub(super) newcomer: bool,
    /// It goes on with what another socket began.
    pub(super) resumed: bool,
    /// What its client's token lets it do; none where tokens are not asked for.
    pub(super) grant: Option<Rc<Grant>>,
    /// Its socket is closed: it comes to have its last frames done.
    pub(super) gone: bool,
    /// What the node said of it that had it last.
    pub(super) state: Box<[u8]>,
}

impl AttachInfo {
    pub(super) fn new(attach: &Attach<'_>, client_id: ClientId, grant: Option<Rc<Grant>>) -> Self {
        let state = attach.state.and_then(|state| SessionState::read(state).ok());
        Self {
            slot: attach.slot,
            key: KeyHash::of(client_id.as_str()),
            client_id,
            session: attach.session,
            accepted_at_us: attach.accepted_at_us,
            reliable: attach.reliable,
            seq: attach.seq,
            newcomer: attach.state.is_none(),
            resumed: state.is_some_and(|state| state.resumed),
            grant,
            gone: attach.gone.is_some(),
            state: attach.state.unwrap_or_default().into(),
        }
    }
}

/// One client's presence.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client_id: ClientId,
    pub(super) key: KeyHash,
    pub(super) id: SessionId,
    pub(super) accepted_at_us: u64,
    pub(super) trunk: TrunkKey,
    pub(super) slot: Slot,
    /// Number of the latest uplink frame: those up to it have been at another node, or at this one before.
    pub(super) seq: u64,
    /// The highest `id` that may have been seen before, here or at another node; none for plain clients.
    pub(super) known_id: Option<u64>,
    pub(super) resumed: bool,
    /// What its client's latest token lets it do.
    pub(super) grant: Option<Rc<Grant>>,
    /// Without a socket, or no longer here: its outbox runs on.
    pub(super) gone: bool,
    /// The edge sends no more of it. Until then its slot is known: frames may be on their way.
    pub(super) detached: bool,
    /// It has said so itself: what it did not confirm it has not written and never will.
    pub(super) said_last: bool,
    /// More waits for it in the hold than may be down at once.
    pub(super) has_backlog: bool,
    /// The id's former session, whose edge has not said yet what it wrote of what went down: all else waits for that.
    pub(super) waits_for: Option<SessionKey>,
    /// Peers that were told that the client is here.
    pub(super) told: Vec<PeerKey>,
    pub(super) recipients: OutboundQueues,
    /// Commands of rooms that are not answered.
    pub(super) commands: usize,
    /// Messages to all in a room, by number, whose members have not all got their fates.
    pub(super) broadcasts: BTreeMap<u64, Tally>,
    pub(super) reach: BroadcastBudget,
    pub(super) fates: Option<FateRun>,
    pub(super) contender: Option<Box<Contender>>,
    /// Its messages that did not reach their recipients, at this node.
    pub(super) undelivered: u32,
    last_d: u64,
    /// Sent down and not confirmed, by `d`.
    unconfirmed: VecDeque<(u64, InboundMessage)>,
    unconfirmed_bytes: usize,
}

impl Session {
    pub(super) fn new(trunk: TrunkKey, arrival: &AttachInfo) -> Self {
        Self {
            client_id: arrival.client_id.clone(),
            key: arrival.key,
            id: arrival.session,
            accepted_at_us: arrival.accepted_at_us,
            trunk,
            slot: arrival.slot,
            seq: arrival.seq,
            // Which ids it used on its earlier socket nobody can say.
            known_id: arrival.reliable.then_some(if arrival.resumed { u64::MAX } else { 0 }),
            resumed: arrival.resumed,
            grant: arrival.grant.clone(),
            gone: arrival.gone,
            detached: false,
            said_last: false,
            has_backlog: false,
            waits_for: None,
            told: Vec::new(),
            recipients: OutboundQueues::default(),
            commands: 0,
            broadcasts: BTreeMap::new(),
            reach: BroadcastBudget::default(),
            fates: None,
            contender: None,
            undelivered: 0,
            last_d: 0,
            unconfirmed: VecDeque::new(),
            unconfirmed_bytes: 0,
        }
    }

    /// The number that makes up a message's name, and whether the message is news: nobody has had it before. A plain client's
    /// messages go by the numbers of their frames, a reliable client's by the `id`s that it gives them in all repeats.
    pub(super) fn number(&mut self, seq: u64, id: Option<u64>) -> (u64, bool) {
        let fresh = seq > self.seq;
        self.seq = self.seq.max(seq);
        match self.known_id.as_mut().zip(id) {
            Some((known, id)) => {
                let news = id > *known;
                *known = id.max(*known);
                (id, fresh && news)
            }
            None => (seq, fresh),
        }
    }

    /// The number of the next thing sent down.
    pub(super) fn next_d(&mut self) -> u64 {
        self.last_d += 1;
        self.last_d
    }

    /// Whether each of its frames has its fate.
    pub(super) fn is_settled(&self) -> bool {
        self.recipients.is_empty() && self.commands == 0 && self.broadcasts.is_empty() && self.fates.is_none()
    }

    /// Whether the edge has as much unconfirmed as it may.
    pub(super) fn is_crowded(&self, rules: &Rules) -> bool {
        self.unconfirmed.len() >= rules.max_unconfirmed || self.unconfirmed_bytes >= rules.max_unconfirmed_bytes
    }

    /// Whether the same message is down already, so that its confirm answers for this copy too: the fate then goes back
    /// the way that this one came.
    pub(super) fn awaits(&mut self, parcel: &InboundMessage, rules: &Rules) -> bool {
        let crowded = self.is_crowded(rules);
        // An earlier queue of the same session may have it too, and waits for its own fate.
        let same = |down: &InboundMessage| {
            down.origin == parcel.origin && down.queue_id == parcel.queue_id && (down.prev == parcel.prev || crowded)
        };
        match self.unconfirmed.iter_mut().find(|(_, down)| same(down)) {
            Some((_, down)) => {
                down.back = parcel.back.clone();
                true
            }
            None => false,
        }
    }

    /// How many parcels are down and not confirmed, and the bytes of their payloads.
    pub(super) fn unconfirmed(&self) -> (usize, usize) {
        (self.unconfirmed.len(), self.unconfirmed_bytes)
    }

    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Whether a parcel may go down now.
    pub(super) fn takes(&self, rules: &Rules) -> bool {
        self.waits_for.is_none() && !self.is_crowded(rules)
    }

    /// The parcel went down as `d`.
    pub(super) fn went_down(&mut self, d: u64, parcel: InboundMessage) {
        self.unconfirmed_bytes += parcel.payload.len();
        self.unconfirmed.push_back((d, parcel));
    }

    /// The next parcel that a confirm up to `up_to` answers for.
    pub(super) fn confirmed(&mut self, up_to: u64) -> Option<(u64, InboundMessage)> {
        if self.unconfirmed.front()?.0 > up_to {
            return None;
        }
        let (d, parcel) = self.unconfirmed.pop_front()?;
        self.unconfirmed_bytes -= parcel.payload.len();
        Some((d, parcel))
    }

    /// Takes all that is unconfirmed, in order.
    pub(super) fn take_unconfirmed(&mut self) -> impl Iterator<Item = InboundMessage> + use<> {
        self.unconfirmed_bytes = 0;
        std::mem::take(&mut self.unconfirmed).into_iter().map(|(_, parcel)| parcel)
    }
}
