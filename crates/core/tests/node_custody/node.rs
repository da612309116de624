//! A node's core driven by hand, with its inputs and outputs, and its clients.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use signaling_core::node::{HoldLimits, NodeCore, PeerKey, RoomSettings, Rules, Settings, TrunkKey};
use signaling_core::{Member, View};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::forward::{self, Item};
use signaling_wire::trunk::{Attach, DeliveryOutcome, Request, Slot, ToEdge, ToNode};
use signaling_wire::{Incarnation, RemainingTtl, Seq, SessionId};

pub(crate) const HOLD: Duration = Duration::from_secs(20);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Node {
    pub(crate) core: NodeCore,
    pub(crate) now: Instant,
}

impl Node {
    pub(crate) fn new(id: &str) -> Self {
        Self::with_lanes(id, 2)
    }

    pub(crate) fn with_lanes(id: &str, lanes: usize) -> Self {
        Self::with_rules(id, Rules { lanes: NonZeroUsize::new(lanes).unwrap(), ..Rules::default() })
    }

    pub(crate) fn with_rules(id: &str, rules: Rules) -> Self {
        let now = Instant::now();
        let settings = Settings {
            id: NodeId::new(id).unwrap(),
            incarnation: Incarnation([id.as_bytes()[0]; 8]),
            hash_seed: 0,
            hold: HOLD,
            resume: Duration::from_secs(30),
            hold_limits: HoldLimits::default(),
            rules: Arc::new(rules),
            rooms: RoomSettings::default(),
            max_message_bytes: 64 * 1024,
            reveal_nodes: false,
            mesh_secret: Arc::from(&b"0123456789abcdef"[..]),
            epoch: (now, SystemTime::now()),
        };
        Self { core: NodeCore::new(settings), now }
    }

    pub(crate) fn sees(&mut self, nodes: &[&str]) {
        let member = |id: &&str| Member {
            id: NodeId::new(id).unwrap(),
            address: "127.0.0.1:1".parse().unwrap(),
            draining: false,
        };
        self.core.set_view(self.now, Arc::new(View::new(nodes.iter().map(member)).unwrap()));
    }

    fn peer(&self) -> PeerKey {
        self.core.peers().next().unwrap().0
    }

    pub(crate) fn tell(&mut self, trunk: TrunkKey, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        self.core.trunk_frames(self.now, trunk, &bytes).unwrap();
    }

    /// Attaches a client that another node has admitted. `seq` is its latest frame.
    pub(crate) fn attach(&mut self, trunk: TrunkKey, slot: Slot, client_id: &str, seq: u64) {
        self.tell(
            trunk,
            &ToNode::Attach(Attach { seq: Seq(seq), state: Some(b"admitted"), ..newcomer(slot, client_id, 1) }),
        );
    }

    pub(crate) fn up(&mut self, trunk: TrunkKey, slot: Slot, seq: u64, to: &str, padding: usize) {
        let text = format!(r#"{{"type":"signal","to":"{to}","data":"{}","id":{seq}}}"#, "x".repeat(padding));
        self.tell(
            trunk,
            &ToNode::Up { slot, seq: Seq(seq), ttl: RemainingTtl::from_duration(HOLD), payload: text.as_bytes() },
        );
    }

    pub(crate) fn said(&mut self, trunk: TrunkKey) -> Said {
        let batch = self.core.take_trunk_batch(trunk);
        let mut rest = &batch[..];
        let mut said = Said::default();
        while !rest.is_empty() {
            match ToEdge::take(&mut rest).unwrap() {
                ToEdge::Down { down_seq: d, payload, .. } => {
                    said.downs.push(d.0);
                    said.down_bytes += payload.len();
                }
                ToEdge::Outcomes { first, count, outcome, .. } => {
                    said.outcomes.extend(first.run(count).map(|seq| (seq.0, outcome)));
                }
                ToEdge::Released { slot, state } => said.released.push((slot, state.to_vec())),
                ToEdge::Attached { slot, .. } => said.attached.push(slot),
                ToEdge::Rejected { slot, status, .. } => said.rejected.push((slot, status)),
                ToEdge::Close { slot, code, .. } => said.closed.push((slot, code)),
                _ => {}
            }
        }
        said
    }

    /// Advances the time, with a sweep every 50 ms.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(50);
            self.core.sweep(self.now);
        }
    }

    /// Sends the next batch of each lane to the other node, its only peer, and takes in the
    /// answers.
    pub(crate) fn sends_to(&mut self, other: &mut Self) {
        let peer = self.peer();
        for lane in 0..self.core.lanes() {
            if let Some(batch) = self.core.take_lane_batch(self.now, peer, lane) {
                let answer = other.core.batch(other.now, &batch).unwrap();
                self.core.lane_answered(self.now, peer, lane, &answer).unwrap();
            }
        }
    }

    pub(crate) fn take_batches(&mut self) -> Vec<Vec<u8>> {
        let peer = self.peer();
        (0..self.core.lanes()).filter_map(|lane| self.core.take_lane_batch(self.now, peer, lane)).collect()
    }
}

#[derive(Default)]
pub(crate) struct Said {
    pub(crate) downs: Vec<u64>,
    pub(crate) down_bytes: usize,
    pub(crate) outcomes: Vec<(u64, DeliveryOutcome)>,
    pub(crate) released: Vec<(Slot, Vec<u8>)>,
    pub(crate) attached: Vec<Slot>,
    pub(crate) rejected: Vec<(Slot, u16)>,
    pub(crate) closed: Vec<(Slot, u16)>,
}

pub(crate) fn newcomer(slot: Slot, client_id: &str, session: u8) -> Attach<'_> {
    let session = SessionId([client_id.as_bytes()[0].wrapping_add(session); 16]);
    let (request, accepted_at_us) = (Request::default(), u64::from(session.0[0]));
    Attach {
        slot,
        session,
        client_id,
        accepted_at_us,
        reliable: false,
        seq: Seq(0),
        request,
        grant: None,
        state: None,
        cause: None,
    }
}

/// Returns the number of a batch, and the recipients of its envelopes.
pub(crate) fn read(mut batch: &[u8]) -> (u64, Vec<String>) {
    let header = forward::open(&mut batch).unwrap();
    let mut recipients = Vec::new();
    while !batch.is_empty() {
        if let Item::Envelope(envelope) = Item::take(&mut batch).unwrap() {
            recipients.push(envelope.to.to_owned());
        }
    }
    (header.number, recipients)
}

/// Returns a client id that `owner` owns among `nodes`.
pub(crate) fn client_of(owner: &str, nodes: &[&str]) -> String {
    let ranking = Ranking::new(0, nodes);
    let owned = |id: &String| ranking.owner(KeyHash::of(id)).map(|index| ranking.id(index)) == Some(owner);
    (0..).map(|n| format!("client-{n}")).find(owned).unwrap()
}
