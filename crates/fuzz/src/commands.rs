//! Messages between clients and room commands, as a node processes them that owns the rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_core::edge::Rate;
use signaling_core::node::{NodeCore, TrunkKey};
use signaling_rooms::RoomSettings;
use signaling_rooms::{Room, Rules};
use signaling_wire::trunk::{Attach, Slot, ToEdge, ToNode};
use signaling_wire::{RemainingTtl, Seq, SessionId, SocketId};

use crate::batches::node;

const CLIENTS: [&str; 3] = ["alice", "bob", "carol"];
/// Maximum members of a room.
const CAPACITY: u32 = 2;
/// Maximum rooms of a client.
const PER_CLIENT: usize = 3;
const HOLD: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(250);
const LAST_STEPS: Duration = Duration::from_secs(1);
/// Time until all undeliverable messages have expired: the hold time and the grace of the sender's
/// node.
const ALL_OVER: Duration = Duration::from_secs(26);
const MAX_LINES: usize = 200;
/// Types of the servers' messages to clients.
const SERVER_MESSAGES: &str = "welcome signal broadcast ack error joined waiting members_changed left ice_servers pong";

/// Executes the first 200 lines of the bytes; then 26 s pass. The first byte of a line selects one
/// of three clients, which sends the rest; `~` advances the clock by 250 ms. A line that is no
/// UTF-8 has no effect.
///
/// # Panics
/// If a message has no outcome or two, or a client receives an unknown message. If a room has more
/// than two members, or the node sends other output than expected.
pub fn commands(data: &[u8]) {
    let Some(mut stage) = Stage::new() else { return };
    for line in data.split(|byte| *byte == b'\n').take(MAX_LINES) {
        match line.split_first() {
            Some((b'~', _)) => stage.advance(STEP, STEP),
            // The edge rejects anything else.
            Some((client, text)) if std::str::from_utf8(text).is_ok() => stage.send(usize::from(*client), text),
            _ => {}
        }
    }
    stage.advance(ALL_OVER, LAST_STEPS);
    for (slot, pending) in &stage.pending {
        assert!(pending.is_empty(), "{pending:?} of {slot} have no outcome");
    }
}

/// A node with a trunk to an edge.
struct Stage {
    node: NodeCore,
    trunk: TrunkKey,
    now: Instant,
    /// Number of the last message of each client.
    seqs: [u64; CLIENTS.len()],
    /// Messages without an outcome, by the client's slot.
    pending: BTreeMap<Slot, BTreeSet<u64>>,
}

impl Stage {
    fn new() -> Option<Self> {
        let now = Instant::now();
        let (broadcast_rate, new_rooms) = (Some(Rate { per_second: 8, burst: 12 }), Some(1));
        let rules = Rules { capacity: Some(CAPACITY), max_waiting: Some(1), ..Rules::default() };
        let (max_seats_per_client, defaults) = (PER_CLIENT, RoomSettings::default());
        let rooms = RoomSettings { rules, max_seats_per_client, broadcast_rate, new_rooms, ..defaults };
        let mut node = node(&["node-0"], now, rooms)?;
        let trunk = node.trunk_up(now);
        let (seqs, pending) = ([0; CLIENTS.len()], BTreeMap::new());
        let mut stage = Self { node, trunk, now, seqs, pending };
        for (slot, client_id) in (0..).zip(CLIENTS) {
            let session = SessionId([(slot as u8 + 1) * 2; 16]);
            stage.send_frame(&ToNode::Attach(Attach::newcomer(slot, session, client_id, SocketId([slot as u8; 8]))));
        }
        stage.settle();
        Some(stage)
    }

    fn send_frame(&mut self, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        let taken = self.node.trunk_frames(self.now, self.trunk, &bytes);
        assert!(taken.is_ok(), "{taken:?}: {frame:?}");
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        let client = client % CLIENTS.len();
        self.seqs[client] += 1;
        let (slot, seq) = (client as Slot, self.seqs[client]);
        self.pending.entry(slot).or_default().insert(seq);
        self.send_frame(&ToNode::Up { slot, seq: Seq(seq), ttl: RemainingTtl::from_duration(HOLD), payload });
        self.settle();
    }

    fn advance(&mut self, time: Duration, step: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += step;
            self.node.sweep(self.now);
            self.settle();
        }
    }

    /// Runs until no output is left, since an answer of the owner may cause another request.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1_000, "output follows output in 1,000 rounds");
            let (has_tasks, has_output) = (self.run_room_tasks(), self.read_output());
            if !has_tasks && !has_output {
                break;
            }
        }
    }

    /// Passes the node's requests to itself, which owns all rooms. Returns `false` if there is
    /// none.
    fn run_room_tasks(&mut self) -> bool {
        let has_tasks = self.node.rooms().has_unsent_tasks();
        self.node.send_room_tasks(self.now);
        for name in self.node.rooms().names_after(None) {
            let (members, _) = self.node.rooms().owned(name.as_str()).map(Room::counts).unwrap_or_default();
            assert!(members <= u64::from(CAPACITY), "{members} in a room of {CAPACITY}");
        }
        has_tasks
    }

    /// Reads the node's output as an edge that writes and confirms everything. Returns `false` if
    /// there is none.
    fn read_output(&mut self) -> bool {
        let batch = self.node.take_trunk_batch(self.trunk);
        let (mut rest, mut confirms) = (&batch[..], Vec::new());
        while !rest.is_empty() {
            let frame = ToEdge::take(&mut rest);
            assert!(frame.is_ok(), "a node's frame is unreadable");
            match frame.unwrap_or(ToEdge::Draining) {
                ToEdge::Attached { greeting, .. } => check(greeting),
                ToEdge::Down { slot, down_seq: d, payload, .. } => {
                    check(payload);
                    confirms.push((slot, d));
                }
                ToEdge::Outcomes { slot, first, count, reply, .. } => {
                    check(reply);
                    let pending = self.pending.entry(slot).or_default();
                    for seq in first.run(count) {
                        assert!(pending.remove(&seq.0), "{seq} of {slot} has two outcomes, or was not sent");
                    }
                }
                other => {
                    let is_usual = matches!(other, ToEdge::Clock { .. } | ToEdge::SessionState { .. });
                    assert!(is_usual, "{other:?} was not requested");
                }
            }
        }
        for (slot, up_to) in confirms {
            self.send_frame(&ToNode::Confirm { slot, up_to, exceptions: Vec::new() });
        }
        !batch.is_empty()
    }
}

/// Checks that a text begins like one of our messages to clients. No text is valid too.
fn check(text: &[u8]) {
    if text.is_empty() {
        return;
    }
    // A client's message is relayed unchanged, whatever its JSON. Only its front is ours.
    let front = |kind: &str| text.starts_with(format!(r#"{{"type":"{kind}","#).as_bytes());
    assert!(SERVER_MESSAGES.split(' ').any(front), "{}", String::from_utf8_lossy(text));
}
