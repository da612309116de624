//! A node's core driven by hand, with its inputs and outputs, and its clients.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use signaling_core::node::{InboundExchange, NodeCore, PeerKey, Rules, Settings, TrunkKey};
use signaling_membership::{NodeEntry, View};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::forward::{self, Item};
use signaling_wire::lane::Acknowledgement;
use signaling_wire::trunk::{Attach, DeliveryOutcome, Slot, ToEdge, ToNode};
use signaling_wire::{
    BatchNumber, ExchangeNumber, Incarnation, Rank, RateDebts, RemainingTtl, Seq, SessionId, SocketId, lane, resume,
};

pub(crate) const HOLD: Duration = Duration::from_secs(20);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Time of day at the start of each node, in seconds since 1970.
pub(crate) const START: u64 = 1_700_000_000;

/// A node with a manual clock.
pub(crate) struct Node {
    pub(crate) core: NodeCore,
    pub(crate) now: Instant,
}

impl Node {
    pub(crate) fn new(id: &str) -> Self {
        Self::with_rules(id, Rules::default())
    }

    /// Creates node "a" with a trunk.
    pub(crate) fn with_trunk() -> (Self, TrunkKey) {
        let mut node = Self::new("a");
        let trunk = node.core.trunk_up(node.now);
        (node, trunk)
    }

    /// Creates node "a" with a trunk and a view of these nodes.
    pub(crate) fn among(nodes: &[&str]) -> (Self, TrunkKey) {
        let (mut node, trunk) = Self::with_trunk();
        node.set_view(nodes);
        (node, trunk)
    }

    /// Creates nodes "a" and "b", each with a trunk and in the view of the other.
    pub(crate) fn two() -> [(Self, TrunkKey); 2] {
        ["a", "b"].map(|id| {
            let mut node = Self::new(id);
            node.set_view(&["a", "b"]);
            let trunk = node.core.trunk_up(node.now);
            (node, trunk)
        })
    }

    /// As [`Self::two`], with alice at "a", and at "b" a client that it owns, each in slot 0.
    /// Returns the id of the latter too.
    pub(crate) fn pair() -> ((Self, TrunkKey), (Self, TrunkKey), String) {
        let [(mut sender, senders), (mut holder, recipients)] = Self::two();
        sender.attach(senders, 0, "alice", 0);
        let bob = client_of("b", &["a", "b"]);
        holder.attach(recipients, 0, &bob, 0);
        ((sender, senders), (holder, recipients), bob)
    }

    /// Creates node "a" with a client in slot 0 of the returned trunk.
    pub(crate) fn with_client(client_id: &str) -> (Self, TrunkKey) {
        let (mut node, trunk) = Self::with_trunk();
        node.attach(trunk, 0, client_id, 0);
        (node, trunk)
    }

    pub(crate) fn with_rules(id: &str, rules: Rules) -> Self {
        let now = Instant::now();
        Self { core: NodeCore::new(Settings { rules: Arc::new(rules), ..settings(id, now) }), now }
    }

    /// Gives the node a view of these nodes.
    pub(crate) fn set_view(&mut self, nodes: &[&str]) {
        self.core.set_view(self.now, view(nodes.iter().map(|id| (*id, false))));
    }

    fn peer(&self) -> PeerKey {
        self.core.peers().addressed().next().unwrap().0
    }

    /// Sends the node a frame from the trunk's edge.
    pub(crate) fn send_frame(&mut self, trunk: TrunkKey, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        self.core.trunk_frames(self.now, trunk, &bytes).unwrap();
    }

    /// Attaches a client that another node has admitted. `seq` is its latest frame.
    pub(crate) fn attach(&mut self, trunk: TrunkKey, slot: Slot, client_id: &str, seq: u64) {
        let attach = Attach { seq: Seq(seq), state: Some(b"admitted"), ..newcomer(slot, client_id, 1) };
        self.send_frame(trunk, &ToNode::Attach(attach));
    }

    /// Sends a signal to `to` with `padding` bytes of data, and with `seq` as its `id`.
    pub(crate) fn up(&mut self, trunk: TrunkKey, slot: Slot, seq: u64, to: &str, padding: usize) {
        let text = format!(r#"{{"type":"signal","to":"{to}","data":"{}","id":{seq}}}"#, "x".repeat(padding));
        self.send(trunk, slot, seq, &text);
    }

    /// Sends a message of a client.
    pub(crate) fn send(&mut self, trunk: TrunkKey, slot: Slot, seq: u64, text: &str) {
        let (seq, ttl) = (Seq(seq), RemainingTtl::from_duration(HOLD));
        self.send_frame(trunk, &ToNode::Up { slot, seq, ttl, payload: text.as_bytes() });
    }

    /// Takes the trunk's next batch of frames.
    pub(crate) fn take_output(&mut self, trunk: TrunkKey) -> Output {
        let batch = self.core.take_trunk_batch(trunk);
        let mut rest = &batch[..];
        let mut output = Output::default();
        while !rest.is_empty() {
            match ToEdge::take(&mut rest).unwrap() {
                ToEdge::Down { down_seq: d, origin, prev_pending, payload, .. } => {
                    output.downs.push(d.0);
                    output.down_bytes += payload.len();
                    output.messages.extend(origin.map(|it| (it.session, it.number.0, prev_pending.0)));
                }
                ToEdge::Outcomes { first, count, outcome, .. } => {
                    output.outcomes.extend(first.run(count).map(|seq| (seq.0, outcome)));
                }
                ToEdge::Released { slot, state } => output.released.push((slot, state.to_vec())),
                ToEdge::Attached { slot, session, resumed, seq, debts, greeting, .. } => {
                    output.debts.push(debts);
                    output.attached.push(slot);
                    output.greeting = String::from_utf8_lossy(greeting).into_owned();
                    output.sessions.push((session, resumed));
                    output.seq = seq.0;
                }
                ToEdge::Rejected { slot, status, .. } => output.rejected.push((slot, status)),
                ToEdge::Prove { slot } => output.proves.push(slot),
                ToEdge::Close { slot, code, .. } => output.closed.push((slot, code)),
                ToEdge::Kicked { name, at, at_once } => output.kicked.push((name.to_owned(), at, at_once)),
                _ => {}
            }
        }
        output
    }

    /// Advances the time, with a sweep every 50 ms.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(50);
            self.core.sweep(self.now);
        }
    }

    /// Opens an exchange of the lane to node "b", its only peer.
    pub(crate) fn opens_lane(&mut self) -> (PeerKey, ExchangeNumber) {
        let peer = self.peer();
        let exchange = self.core.peers_mut().open_lane(self.now, peer).unwrap().exchange;
        self.core.lane_opened(self.now, peer, exchange, incarnation_of("b"));
        (peer, exchange)
    }

    /// Opens an exchange of the lane to the other node, its only peer.
    pub(crate) fn opens_lane_to(&mut self, other: &mut Self) -> (ExchangeNumber, InboundExchange) {
        let peer = self.peer();
        let opening = self.core.peers_mut().open_lane(self.now, peer).unwrap();
        let inbound = other.core.accept_lane(other.now, &opening).unwrap().unwrap();
        self.core.lane_opened(self.now, self.peer(), opening.exchange, other.core.settings().incarnation);
        (opening.exchange, inbound)
    }

    /// Sends all queued items to its only peer in a new exchange, and handles the acknowledgement.
    pub(crate) fn sends_to(&mut self, other: &mut Self) {
        let (peer, (exchange, inbound)) = (self.peer(), self.opens_lane_to(other));
        let mut last = BatchNumber::default();
        while let Some(frame) = self.core.peers_mut().take_lane_frame(self.now, peer, exchange) {
            last = forward::open(&mut &frame[lane::HEAD_BYTES..]).unwrap().0;
            other.core.batch(other.now, inbound, &frame[lane::HEAD_BYTES..]).unwrap();
        }
        let of = Acknowledgement { number: last, names_you: true };
        self.core.lane_acknowledged(self.now, peer, exchange, (of, 0)).unwrap();
    }

    /// Sends all queued items in the response to an exchange of the other node, which is its `own`
    /// to this one, and handles the acknowledgement.
    pub(crate) fn returns_to(&mut self, other: &mut Self, at: InboundExchange, own: (PeerKey, ExchangeNumber)) {
        let exchange = self.core.open_return(self.now, at).unwrap();
        let inbound = other.core.accept_return(other.now, own, exchange).unwrap();
        while let Some(frame) = self.core.peers_mut().take_lane_frame(self.now, at.peer, exchange) {
            other.core.batch(other.now, inbound, &frame[lane::HEAD_BYTES..]).unwrap();
        }
        let last = other.core.take_acknowledgement(other.now, own.0).unwrap();
        self.core.return_acknowledged(self.now, at, (last, 0)).unwrap();
    }

    /// Takes the batches that wait for the only peer, in an exchange that never ends.
    pub(crate) fn take_batches(&mut self) -> Vec<Vec<u8>> {
        let (peer, exchange) = self.opens_lane();
        let frames = std::iter::from_fn(|| self.core.peers_mut().take_lane_frame(self.now, peer, exchange));
        frames.map(|frame| frame[lane::HEAD_BYTES..].to_vec()).collect()
    }
}

/// The frames of one batch, by kind.
#[derive(Default)]
pub(crate) struct Output {
    /// Numbers of `Down`s, and the bytes of their payloads.
    pub(crate) downs: Vec<u64>,
    pub(crate) down_bytes: usize,
    /// Sessions, numbers and predecessors of clients' messages in `Down`s.
    pub(crate) messages: Vec<(SessionId, u64, u64)>,
    /// Numbers of uplink frames with their outcomes.
    pub(crate) outcomes: Vec<(u64, DeliveryOutcome)>,
    /// Slots with their session states.
    pub(crate) released: Vec<(Slot, Vec<u8>)>,
    pub(crate) attached: Vec<Slot>,
    /// Attached sessions, with `true` for resumed ones.
    pub(crate) sessions: Vec<(SessionId, bool)>,
    /// Rates that the clients of attached sessions have used elsewhere.
    pub(crate) debts: Vec<RateDebts>,
    /// Text for the client of the last attached session.
    pub(crate) greeting: String,
    /// Latest uplink number of the last attached session.
    pub(crate) seq: u64,
    /// Slots of newcomers that must prove that they live.
    pub(crate) proves: Vec<Slot>,
    /// Slots with HTTP statuses, and with close codes.
    pub(crate) rejected: Vec<(Slot, u16)>,
    pub(crate) closed: Vec<(Slot, u16)>,
    /// Ids, times in seconds, and `true` for kicks that are carried out at once.
    pub(crate) kicked: Vec<(String, u64, bool)>,
}

/// Returns the `Attach` of a plain client's session number `session`, later ones with later times.
pub(crate) fn newcomer(slot: Slot, client_id: &str, session: u8) -> Attach<'_> {
    let session = SessionId([client_id.as_bytes()[0].wrapping_add(session); 16]);
    let (socket, rank) = (SocketId([session.0[0]; 8]), Rank(session.0[0].into()));
    Attach { rank, ..Attach::newcomer(slot, session, client_id, socket) }
}

/// Returns the settings of a node that starts at `now`.
pub(crate) fn settings(id: &str, now: Instant) -> Settings {
    let epoch = (now, UNIX_EPOCH + Duration::from_secs(START));
    Settings::new(NodeId::new(id).unwrap(), incarnation_of(id), resume::Key::new([1; 32]), epoch)
}

fn incarnation_of(id: &str) -> Incarnation {
    Incarnation([id.as_bytes()[id.len() - 1]; 8])
}

/// Returns the address of a node in views.
pub(crate) fn address_of(id: &str) -> String {
    format!("{id}:1")
}

/// Returns a view of these nodes. `true` marks a draining node.
pub(crate) fn view<'a>(nodes: impl Iterator<Item = (&'a str, bool)>) -> Arc<View> {
    let member = |(id, draining): (&str, bool)| NodeEntry {
        id: NodeId::new(id).unwrap(),
        address: address_of(id).parse().unwrap(),
        draining,
        zone: None,
    };
    Arc::new(View::new(nodes.map(member)).unwrap())
}

/// Returns the number of a batch, and the recipients of its envelopes.
pub(crate) fn read(mut batch: &[u8]) -> (u64, Vec<String>) {
    let (number, _) = forward::open(&mut batch).unwrap();
    let mut recipients = Vec::new();
    while !batch.is_empty() {
        if let Item::Envelope(envelope) = Item::take(&mut batch).unwrap() {
            recipients.push(envelope.to.to_owned());
        }
    }
    (number.0, recipients)
}

/// Returns a client id that `owner` owns among `nodes`.
pub(crate) fn client_of(owner: &str, nodes: &[&str]) -> String {
    clients_of(owner, nodes, 1, 1).remove(0)
}

/// Returns ids of clients that `owner` owns among `nodes`. `padding` is their minimum length.
pub(crate) fn clients_of(owner: &str, nodes: &[&str], count: usize, padding: usize) -> Vec<String> {
    let ranking = Ranking::new(0, nodes);
    let owned = |id: &String| ranking.owner(KeyHash::of(id)).map(|index| ranking.id(index)) == Some(owner);
    (0..).map(|n| format!("{n:0>padding$}")).filter(owned).take(count).collect()
}
