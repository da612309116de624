//! One client's session at this node: in the `directory`, or of a newcomer that waits.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::ClientId;
use signaling_protocol::ids::is_reserved;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::Attachment;
use signaling_wire::grant::Grant;
use signaling_wire::seats::SessionState;
use signaling_wire::trunk::{Attach, DeliveryOutcome, Slot};
use signaling_wire::{Credential, DownSeq, MessageNumber, Rank, RateDebts, Seq, SessionId, SocketId};

use super::delivered_ids::DeliveredIds;
use super::hold::InboundMessage;
use super::linger::Lingering;
use super::{PeerKey, QueueKey, Rules, SessionKey, TrunkKey};

/// [`Session::known_id`] of a session whose earlier ids are unknown.
const UNKNOWN_IDS: MessageNumber = MessageNumber(u64::MAX);

/// Equal outcomes of `count` consecutive uplink frames from `first` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutcomeRun {
    pub(super) first: Seq,
    pub(super) count: u32,
    pub(super) outcome: DeliveryOutcome,
}

impl OutcomeRun {
    /// Returns the run with one more outcome. `None`: the outcome does not continue it.
    pub(super) fn and(self, seq: Seq, outcome: DeliveryOutcome) -> Option<Self> {
        let follows = self.outcome == outcome && self.first.plus(u64::from(self.count)) == seq && self.count < u32::MAX;
        follows.then_some(Self { count: self.count + 1, ..self })
    }
}

/// A newcomer that waits: for an id that another session holds, or for its session.
#[derive(Debug)]
pub(super) struct WaitingNewcomer {
    /// Its session, unless it resumes another one.
    pub(super) arrival: Session,
    /// The session of its resume token or credential. `None`: it has neither.
    pub(super) proven: Option<SessionId>,
    /// `true` if it has a right to the id and waits for its own client's answer. `false`: it waits
    /// for the holder to answer or fail, or for its session.
    pub(super) proves: bool,
    /// End of the wait.
    pub(super) until: Instant,
}

/// A client's presence in the mesh.
#[derive(Debug)]
pub(super) struct Session {
    /// Id of the client, and its hash.
    pub(super) client_id: ClientId,
    pub(super) key: KeyHash,
    pub(super) id: SessionId,
    /// Its socket, with its rank. Rank 0: no node has admitted the socket.
    pub(super) socket: SocketId,
    pub(super) rank: Rank,
    /// Number of its attachments with this socket.
    pub(super) attachment: u32,
    /// Time at which the edge accepted the socket, in milliseconds since 1970, for operators.
    pub(super) since_ms: u64,
    /// Trunk of its edge, and its slot there.
    pub(super) trunk: TrunkKey,
    pub(super) slot: Slot,
    /// Number of the latest uplink frame. Frames up to it have been at a node before.
    pub(super) seq: Seq,
    /// The highest `id` that may have been at a node before. `None`: a plain client.
    pub(super) known_id: Option<MessageNumber>,
    /// `true` if no node has admitted it before.
    pub(super) newcomer: bool,
    /// `true` if its client has answered a Ping on this socket, as a newcomer.
    pub(super) live: bool,
    /// `true` if it continues an older socket's session.
    pub(super) resumed: bool,
    /// Rates that its client had used at the edge of its last lost socket.
    pub(super) debts: RateDebts,
    /// Delivered signals of a reliable client. Empty for a plain client.
    pub(super) delivered: DeliveredIds,
    /// `true` if the end of its socket ends it: it lingers only if its edge or trunk is lost.
    pub(super) ends_with_socket: bool,
    /// The client's credential, by which a newcomer resumes the session. `None`: it has none.
    pub(super) credential: Option<Box<Credential>>,
    /// Rights by its client's latest token. `None`: tokens are not required.
    pub(super) grant: Option<Rc<Grant>>,
    /// Its state, as its former node sent it, until its seats are attached.
    pub(super) state: Box<[u8]>,
    /// `true` without a socket here. Its outbound queues go on.
    pub(super) socket_ended: bool,
    /// `true` if the edge sends no more frames of it. Its slot is freed once it is settled too.
    pub(super) detached: bool,
    /// `true` if the edge reported the end itself. It never writes unconfirmed messages then.
    pub(super) edge_reported_end: bool,
    /// `true` if messages are held for it: its edge has its maximum of unconfirmed ones, or it
    /// waits for a superseded session.
    pub(super) has_backlog: bool,
    /// The superseded session whose edge has to confirm before messages go down. `None`: no wait.
    pub(super) waits_for: Option<SessionKey>,
    /// Peers that received the client's location.
    pub(super) informed_peers: Vec<PeerKey>,
    /// Its outbound queues, by recipient. `custody` has the queues themselves.
    pub(super) recipients: BTreeMap<ClientId, QueueKey>,
    /// Outcomes that are not written to its trunk yet. `None`: none.
    pub(super) outcomes: Option<OutcomeRun>,
    /// A newcomer that waits for its client id. `None`: none.
    pub(super) contender: Option<Box<WaitingNewcomer>>,
    /// Number of its undelivered signals at this node. Copies of broadcasts do not count.
    pub(super) undelivered: u32,
    last_down_seq: DownSeq,
    /// Messages that went down and are not confirmed, by downlink number.
    unconfirmed: VecDeque<(DownSeq, InboundMessage)>,
    unconfirmed_bytes: usize,
}

impl Session {
    /// Creates the session of an `Attach`, with the rights by its client's token.
    pub(super) fn new(trunk: TrunkKey, attach: &Attach<'_>, client_id: ClientId, grant: Option<Rc<Grant>>) -> Self {
        let state = attach.state.and_then(|state| SessionState::read(state).ok());
        let (resumed, delivered) = state.map(|state| (state.resumed, state.delivered)).unwrap_or_default();
        Self {
            key: KeyHash::of(client_id.as_str()),
            client_id,
            id: attach.session,
            socket: attach.socket,
            rank: attach.rank,
            attachment: attach.attachment,
            since_ms: attach.since_ms,
            trunk,
            slot: attach.slot,
            seq: attach.seq,
            known_id: attach.reliable.then_some(if resumed { UNKNOWN_IDS } else { MessageNumber::NONE }),
            newcomer: attach.state.is_none(),
            live: attach.live,
            resumed,
            debts: attach.debts,
            delivered: DeliveredIds::from_runs(&delivered),
            ends_with_socket: attach.ends_with_socket,
            credential: attach.credential.map(Box::new),
            grant,
            state: attach.state.unwrap_or_default().into(),
            socket_ended: attach.cause.is_some(),
            detached: false,
            edge_reported_end: false,
            has_backlog: false,
            waits_for: None,
            informed_peers: Vec::new(),
            recipients: BTreeMap::new(),
            outcomes: None,
            contender: None,
            undelivered: 0,
            last_down_seq: DownSeq(0),
            unconfirmed: VecDeque::new(),
            unconfirmed_bytes: 0,
        }
    }

    /// Returns the session's attachment to this node.
    pub(super) fn attachment(&self) -> Attachment {
        Attachment { session: self.id, socket: self.socket, rank: self.rank, number: self.attachment }
    }

    /// Returns the session as the continuation of an earlier one. The new socket continues above
    /// all used numbers, even if the `earlier` state is old: `counter` rises by one in each
    /// microsecond, and a client sends fewer messages.
    pub(super) fn resuming(self, earlier: Lingering, counter: u64, rules: &Rules) -> Self {
        let seq = earlier.seq.plus(rules.numbers_ahead).max(Seq(counter));
        let known_id = self.known_id.map(|_| UNKNOWN_IDS);
        let Lingering { attachment, delivered, debts, .. } = earlier;
        Self { id: attachment.session, seq, known_id, resumed: true, debts, delivered, ..self }
    }

    /// Records a message. Returns its number, and `true` if certainly no node has had it before.
    /// The number of a reliable client's message is its `id`, which stays the same in a
    /// retransmission. Without an `id`, and for a plain client, it is its frame's number.
    pub(super) fn number(&mut self, seq: Seq, id: Option<u64>) -> (MessageNumber, bool) {
        let fresh = seq > self.seq;
        self.seq = self.seq.max(seq);
        match self.known_id.as_mut().zip(id.map(MessageNumber)) {
            Some((known, id)) => {
                let news = id > *known;
                *known = id.max(*known);
                (id, fresh && news)
            }
            None => (MessageNumber(seq.0), fresh),
        }
    }

    /// Returns `true` if its client speaks a dialect. Such a client knows no refusals. Edges admit
    /// native clients only without a reserved id.
    pub(super) fn is_of_dialect(&self) -> bool {
        is_reserved(self.client_id.as_str())
    }

    /// Returns the next downlink number.
    pub(super) fn next_down_seq(&mut self) -> DownSeq {
        self.last_down_seq = self.last_down_seq.plus(1);
        self.last_down_seq
    }

    /// Returns `true` if each of its frames but those about rooms has its outcome, in its trunk's
    /// queue or sent.
    pub(super) fn is_settled(&self) -> bool {
        self.recipients.is_empty() && self.outcomes.is_none()
    }

    /// Returns `true` if the edge has its maximum of unconfirmed messages.
    pub(super) fn is_crowded(&self, rules: &Rules) -> bool {
        self.unconfirmed.len() >= rules.max_unconfirmed || self.unconfirmed_bytes >= rules.max_unconfirmed_bytes
    }

    /// Returns `true` if the same message of the same queue went down and is unconfirmed. Its
    /// confirm then answers for this copy too, and the outcome uses this copy's return path.
    /// A copy with another predecessor counts only while [`Self::is_crowded`].
    pub(super) fn awaits(&mut self, message: &InboundMessage, rules: &Rules) -> bool {
        let crowded = self.is_crowded(rules);
        // An earlier queue of the session may have sent it too, and needs its own outcome.
        let same = |down: &InboundMessage| {
            down.sent.origin == message.sent.origin
                && down.queue_id == message.queue_id
                && (down.sent.prev_pending == message.sent.prev_pending || crowded)
        };
        match self.unconfirmed.iter_mut().find(|(_, down)| same(down)) {
            Some((_, down)) => {
                down.back = message.back.clone();
                true
            }
            None => false,
        }
    }

    /// Returns the number of unconfirmed messages, and the bytes of their payloads.
    pub(super) fn unconfirmed(&self) -> (usize, usize) {
        (self.unconfirmed.len(), self.unconfirmed_bytes)
    }

    /// Returns `true` if a message went down and is not confirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Returns `true` if a message may go down now: no superseded session has to confirm, and
    /// [`Self::is_crowded`] is `false`.
    pub(super) fn takes(&self, rules: &Rules) -> bool {
        self.waits_for.is_none() && !self.is_crowded(rules)
    }

    /// Stores a message that went down, until its confirm.
    pub(super) fn went_down(&mut self, down_seq: DownSeq, message: InboundMessage) {
        self.unconfirmed_bytes += message.sent.payload.len();
        self.unconfirmed.push_back((down_seq, message));
    }

    /// Takes the next message that a confirm up to `up_to` covers. `None`: there is none.
    pub(super) fn confirmed(&mut self, up_to: DownSeq) -> Option<(DownSeq, InboundMessage)> {
        let (down_seq, message) = self.unconfirmed.pop_front_if(|(down_seq, _)| *down_seq <= up_to)?;
        self.unconfirmed_bytes -= message.sent.payload.len();
        Some((down_seq, message))
    }

    /// Takes all unconfirmed messages, in order.
    pub(super) fn take_unconfirmed(&mut self) -> impl Iterator<Item = InboundMessage> + use<> {
        self.unconfirmed_bytes = 0;
        std::mem::take(&mut self.unconfirmed).into_iter().map(|(_, message)| message)
    }
}
