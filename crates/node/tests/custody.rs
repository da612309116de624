//! What simulated faults showed about the node's core, each as the shortest story that shows it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use signaling_discovery::{Member, View};
use signaling_node::core::{HoldLimits, LANES, NodeCore, PeerKey, Settings, TrunkKey};
use signaling_protocol::forward::{self, Item};
use signaling_protocol::trunk::{Attach, Fate, Gone, Request, Slot, ToEdge, ToNode};
use signaling_protocol::{Incarnation, Left, NodeId, SessionId};

const HOLD: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

struct Node {
    core: NodeCore,
    now: Instant,
}

impl Node {
    fn new(id: &str) -> Self {
        let now = Instant::now();
        let settings = Settings {
            id: NodeId::new(id).unwrap(),
            incarnation: Incarnation([id.as_bytes()[0]; 8]),
            hash_seed: 0,
            hold: HOLD,
            resume: Duration::from_secs(30),
            hold_limits: HoldLimits::default(),
            rules: Arc::default(),
            max_message_bytes: 64 * 1024,
            reveal_nodes: false,
            mesh_secret: Arc::from(&b"0123456789abcdef"[..]),
            epoch: (now, SystemTime::now()),
        };
        Self { core: NodeCore::new(settings), now }
    }

    fn sees(&mut self, nodes: &[&str]) {
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

    fn tell(&mut self, trunk: TrunkKey, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        self.core.trunk_frames(self.now, trunk, &bytes).unwrap();
    }

    /// A client that a node has admitted before; `seq` is its latest frame.
    fn attach(&mut self, trunk: TrunkKey, slot: Slot, client_id: &str, seq: u64) {
        self.tell(trunk, &ToNode::Attach(Attach { seq, state: Some(b"admitted"), ..newcomer(slot, client_id, 1) }));
    }

    fn up(&mut self, trunk: TrunkKey, slot: Slot, seq: u64, to: &str, padding: usize) {
        let text = format!(r#"{{"type":"signal","to":"{to}","data":"{}","id":{seq}}}"#, "x".repeat(padding));
        self.tell(trunk, &ToNode::Up { slot, seq, left: Left::from_duration(HOLD), payload: text.as_bytes() });
    }

    fn said(&mut self, trunk: TrunkKey) -> Said {
        let batch = self.core.take_trunk_batch(trunk);
        let mut rest = &batch[..];
        let mut said = Said::default();
        while !rest.is_empty() {
            match ToEdge::take(&mut rest).unwrap() {
                ToEdge::Down { d, payload, .. } => {
                    said.downs.push(d);
                    said.down_bytes += payload.len();
                }
                ToEdge::Fates { first, count, fate, .. } => {
                    said.fates.extend((first..).take(count as usize).map(|seq| (seq, fate)));
                }
                ToEdge::Released { slot, state } => said.released.push((slot, state.to_vec())),
                ToEdge::Rejected { slot, .. } => said.rejected.push(slot),
                _ => {}
            }
        }
        said
    }

    /// Lets time pass, with a look at it every 50 ms.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(50);
            self.core.sweep(self.now);
        }
    }

    fn take_batches(&mut self) -> Vec<Vec<u8>> {
        let peer = self.peer();
        (0..LANES).filter_map(|lane| self.core.take_lane_batch(self.now, peer, lane)).collect()
    }
}

#[derive(Default)]
struct Said {
    downs: Vec<u64>,
    down_bytes: usize,
    fates: Vec<(u64, Fate)>,
    released: Vec<(Slot, Vec<u8>)>,
    rejected: Vec<Slot>,
}

fn newcomer(slot: Slot, client_id: &str, session: u8) -> Attach<'_> {
    let session = SessionId([client_id.as_bytes()[0].wrapping_add(session); 16]);
    let (request, born) = (Request::default(), u64::from(session.0[0]));
    Attach { slot, session, client_id, born, reliable: false, seq: 0, request, state: None, gone: None }
}

/// The number of a batch, and whom its envelopes are for.
fn read(mut batch: &[u8]) -> (u64, Vec<String>) {
    let header = forward::open(&mut batch).unwrap();
    let mut recipients = Vec::new();
    while !batch.is_empty() {
        if let Item::Envelope(envelope) = Item::take(&mut batch).unwrap() {
            recipients.push(envelope.to.to_owned());
        }
    }
    (header.number, recipients)
}

/// A client id that `owner` owns among `nodes`.
fn client_of(owner: &str, nodes: &[&str]) -> String {
    let ranking = signaling_rendezvous::Ranking::new(0, nodes);
    let owned = |id: &String| {
        ranking.owner(signaling_rendezvous::KeyHash::of(id)).map(|index| ranking.id(index)) == Some(owner)
    };
    (0..).map(|n| format!("client-{n}")).find(owned).unwrap()
}

#[test]
fn messages_given_up_at_the_same_moment_get_a_fate_each() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "anna", 0);
    (1..=3).for_each(|seq| node.up(trunk, 0, seq, "nobody", 0));
    // Had they been elsewhere before, nobody's word but the clock's would do.
    node.tell(trunk, &ToNode::Release { slot: 0, to: "a" });
    node.attach(trunk, 1, "anna", 3);
    (1..=3).for_each(|seq| node.up(trunk, 1, seq, "nobody", 0));
    node.said(trunk);
    node.pass(HOLD + 4 * SECOND);
    assert_eq!(node.said(trunk).fates, [1, 2, 3].map(|seq| (seq, Fate::Unavailable)));
}

#[test]
fn the_fate_of_an_expired_message_does_not_wait_for_the_next_repeat() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "anna", 1);
    node.up(trunk, 0, 1, "nobody", 0);
    node.pass(HOLD + 3 * SECOND + Duration::from_millis(100));
    assert_eq!(node.said(trunk).fates, [(1, Fate::Unavailable)]);
}

#[test]
fn what_was_held_for_a_latecomer_comes_as_fast_as_it_reads_and_no_faster() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "anna", 0);
    (1..=40).for_each(|seq| node.up(trunk, 0, seq, "bob", 10_000));
    node.attach(trunk, 1, "bob", 0);
    let mut fates = 0;
    loop {
        let said = node.said(trunk);
        fates += said.fates.len();
        assert!(said.down_bytes < 200 * 1024, "{} bytes at once", said.down_bytes);
        let Some(up_to) = said.downs.into_iter().max() else { break };
        node.tell(trunk, &ToNode::Confirm { slot: 1, up_to, exceptions: vec![] });
    }
    assert_eq!(fates, 40);
    assert_eq!(node.core.held_bytes(), 0);
}

#[test]
fn a_copy_of_what_is_down_already_does_not_go_down_again() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "anna", 0);
    node.attach(trunk, 1, "bob", 0);
    node.up(trunk, 0, 1, "bob", 0);
    assert_eq!(node.said(trunk).downs, [1]);
    node.pass(5 * SECOND);
    assert!(node.said(trunk).downs.is_empty());
    node.tell(trunk, &ToNode::Confirm { slot: 1, up_to: 1, exceptions: vec![] });
    assert_eq!(node.said(trunk).fates, [(1, Fate::Done)]);
}

#[test]
fn a_peer_that_was_out_of_the_view_for_a_while_sees_no_batch_number_again() {
    let (mut node, there) = (Node::new("a"), client_of("b", &["a", "b"]));
    let trunk = node.core.trunk_up();
    node.sees(&["a", "b"]);
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &there, 0);
    let (before, _) = read(&node.take_batches()[0]);
    node.sees(&["a"]);
    node.sees(&["a", "b"]);
    node.up(trunk, 0, 2, &there, 0);
    let (after, recipients) = read(&node.take_batches()[0]);
    assert!(after > before, "{after} after {before}");
    assert!(recipients.contains(&there));
}

#[test]
fn a_newcomer_that_waits_for_a_contended_id_can_be_moved() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.tell(trunk, &ToNode::Attach(newcomer(0, "anna", 1)));
    node.tell(trunk, &ToNode::Attach(newcomer(1, "anna", 2)));
    node.said(trunk);
    node.tell(trunk, &ToNode::Release { slot: 1, to: "b" });
    assert_eq!(node.said(trunk).released, [(1, vec![])]);
    node.pass(3 * SECOND);
    assert_eq!(node.core.sessions(), 1, "the holder of the id stays");
}

#[test]
fn messages_on_their_way_elsewhere_find_a_client_that_has_come_here() {
    let (mut node, there) = (Node::new("a"), client_of("b", &["a", "b"]));
    let trunk = node.core.trunk_up();
    node.sees(&["a", "b"]);
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &there, 0);
    assert_eq!(node.take_batches().len(), 1);
    node.attach(trunk, 1, &there, 0);
    node.pass(Duration::from_millis(100));
    assert_eq!(node.said(trunk).downs, [1]);
}

#[test]
fn a_node_that_messages_no_longer_go_to_is_told_to_forget_them() {
    let (mut node, there) = (Node::new("a"), client_of("b", &["a", "b"]));
    let mut other = Node::new("b");
    let trunk = node.core.trunk_up();
    [&mut node, &mut other].into_iter().for_each(|node| node.sees(&["a", "b"]));
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &there, 0);
    let peer = node.peer();
    for lane in 0..LANES {
        if let Some(batch) = node.core.take_lane_batch(node.now, peer, lane) {
            let answer = other.core.batch(other.now, &batch).unwrap();
            node.core.lane_answered(node.now, peer, lane, &answer).unwrap();
        }
    }
    node.attach(trunk, 1, &there, 0);
    node.pass(Duration::from_millis(100));
    let forgotten = |mut batch: &[u8]| {
        forward::open(&mut batch).unwrap();
        let mut items = std::iter::from_fn(|| Item::take(&mut batch).ok());
        items.any(|item| matches!(item, Item::Forget { to, .. } if to == there))
    };
    assert!(node.take_batches().iter().any(|batch| forgotten(batch)));
}

#[test]
fn only_what_has_been_nowhere_before_is_unavailable_at_once() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "anna", 70);
    (1..=72).for_each(|seq| node.up(trunk, 0, seq, "nobody", 0));
    assert_eq!(node.said(trunk).fates, [71, 72].map(|seq| (seq, Fate::Unavailable)));
}

#[test]
fn frames_that_cross_a_close_on_the_way_still_get_their_fates() {
    let mut node = Node::new("a");
    let (trunk, other) = (node.core.trunk_up(), node.core.trunk_up());
    node.attach(trunk, 0, "bob", 0);
    node.attach(trunk, 1, "anna", 0);
    let newer = Attach { state: Some(b"admitted"), ..newcomer(0, "anna", 2) };
    node.tell(other, &ToNode::Attach(newer));
    node.up(trunk, 1, 1, "bob", 0);
    node.tell(trunk, &ToNode::Confirm { slot: 0, up_to: 1, exceptions: vec![] });
    assert_eq!(node.said(trunk).fates, [(1, Fate::Done)]);
}

#[test]
fn nothing_is_left_of_a_session_once_its_last_fate_is_told() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "bob", 0);
    let settling = Attach { gone: Some(Gone::Lost), ..newcomer(1, "anna", 1) };
    node.tell(trunk, &ToNode::Attach(settling));
    node.up(trunk, 1, 1, "bob", 0);
    node.tell(trunk, &ToNode::Confirm { slot: 0, up_to: 1, exceptions: vec![] });
    node.tell(trunk, &ToNode::Detach { slot: 0, gone: Gone::Left });
    assert_eq!(node.said(trunk).fates, [(1, Fate::Done)]);
    node.tell(trunk, &ToNode::Detach { slot: 1, gone: Gone::Lost });
    assert!(node.core.is_quiet());
}

#[test]
fn a_message_that_may_not_wait_reaches_who_is_there_and_is_answered_at_once_for_who_is_not() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "alice", 0);
    node.attach(trunk, 1, "bob", 0);
    node.said(trunk);
    let no_wait = |to| format!(r#"{{"type":"signal","to":"{to}","data":1,"id":1,"ttl_ms":0}}"#);
    for (seq, to) in [(1, "bob"), (2, "nobody")] {
        let text = no_wait(to);
        node.tell(trunk, &ToNode::Up { slot: 0, seq, left: Left::from_duration(HOLD), payload: text.as_bytes() });
    }
    let said = node.said(trunk);
    assert_eq!((said.downs, said.fates), (vec![1], vec![(2, Fate::Unavailable)]));
    node.tell(trunk, &ToNode::Confirm { slot: 1, up_to: 1, exceptions: vec![] });
    assert_eq!(node.said(trunk).fates, [(1, Fate::Done)]);
}

#[test]
fn what_may_have_been_written_is_not_called_unavailable_because_it_may_not_wait() {
    let mut node = Node::new("a");
    let (senders, recipients) = (node.core.trunk_up(), node.core.trunk_up());
    node.attach(senders, 0, "alice", 0);
    node.attach(recipients, 0, "bob", 0);
    let text = br#"{"type":"signal","to":"bob","data":1,"id":1,"ttl_ms":0}"#;
    node.tell(senders, &ToNode::Up { slot: 0, seq: 1, left: Left::from_duration(HOLD), payload: text });
    node.core.trunk_down(node.now, recipients);
    assert_eq!(node.said(senders).fates, [], "its edge may have written it");
}

#[test]
fn a_fate_for_a_node_that_the_view_does_not_name_yet_goes_with_the_answer_to_its_next_batch() {
    let (mut sender, mut holder) = (Node::new("a"), Node::new("b"));
    sender.sees(&["a", "b"]);
    holder.sees(&["b"]);
    let (senders, recipients) = (sender.core.trunk_up(), holder.core.trunk_up());
    sender.attach(senders, 0, "alice", 0);
    let bob = (0..).map(|n| format!("bob-{n}")).find(|id| owned_by_b(id)).unwrap();
    holder.attach(recipients, 0, &bob, 0);
    for seq in 1..=2 {
        sender.up(senders, 0, seq, &bob, 0);
        for (lane, batch) in sender.take_batches().into_iter().enumerate() {
            let answer = holder.core.batch(holder.now, &batch).unwrap();
            (0..LANES).for_each(|lane| {
                sender.core.lane_answered(sender.now, sender.peer(), lane, &answer).unwrap();
            });
            assert!(lane < LANES);
        }
        holder.tell(recipients, &ToNode::Confirm { slot: 0, up_to: seq, exceptions: vec![] });
    }
    assert_eq!(sender.said(senders).fates, [(1, Fate::Done)]);
}

fn owned_by_b(client_id: &str) -> bool {
    let ranking = signaling_rendezvous::Ranking::new(0, ["a", "b"]);
    ranking.owner(signaling_rendezvous::KeyHash::of(client_id)) == Some(1)
}

/// Signals of the client in slot 0, each with the number of its frame and the client's own.
fn say(node: &mut Node, trunk: TrunkKey, to: &str, messages: &[(u64, u64)]) {
    for (seq, id) in messages {
        let text = format!(r#"{{"type":"signal","to":"{to}","data":1,"id":{id}}}"#);
        node.tell(trunk, &ToNode::Up { slot: 0, seq: *seq, left: Left::from_duration(HOLD), payload: text.as_bytes() });
    }
}

/// The numbers and predecessors of what goes down.
fn named(node: &mut Node, trunk: TrunkKey) -> Vec<(u64, u64)> {
    let batch = node.core.take_trunk_batch(trunk);
    let mut rest = &batch[..];
    let mut names = Vec::new();
    while !rest.is_empty() {
        if let ToEdge::Down { origin: Some(origin), prev, .. } = ToEdge::take(&mut rest).unwrap() {
            names.push((origin.number, prev));
        }
    }
    names
}

fn reliable(client_id: &str) -> Attach<'_> {
    Attach { reliable: true, state: Some(b"admitted"), ..newcomer(0, client_id, 1) }
}

#[test]
fn a_plain_clients_messages_go_by_their_frames_whatever_ids_it_gives_them() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.attach(trunk, 0, "alice", 0);
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, "bob", &[(1, 7), (2, 7), (3, 2)]);
    assert_eq!(named(&mut node, trunk), [(1, 0), (2, 1), (3, 2)]);
}

#[test]
fn a_reliable_clients_messages_go_by_its_own_ids() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.tell(trunk, &ToNode::Attach(reliable("alice")));
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, "bob", &[(1, 41), (2, 42)]);
    assert_eq!(named(&mut node, trunk), [(41, 0), (42, 41)]);
}

#[test]
fn what_a_reliable_client_repeats_before_its_fate_is_one_message_whose_fate_goes_to_the_latest_frame() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.tell(trunk, &ToNode::Attach(reliable("alice")));
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, "bob", &[(1, 1), (2, 2), (3, 1)]);
    let said = node.said(trunk);
    assert_eq!((said.downs, said.fates), (vec![1, 2], vec![(1, Fate::Done)]), "its first frame is done with");
    node.tell(trunk, &ToNode::Confirm { slot: 1, up_to: 2, exceptions: vec![] });
    assert_eq!(node.said(trunk).fates, [(3, Fate::Done), (2, Fate::Done)]);
}

#[test]
fn what_a_reliable_client_repeats_after_its_fate_is_asked_for_again_under_its_name() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.tell(trunk, &ToNode::Attach(reliable("alice")));
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, "bob", &[(1, 1), (2, 2)]);
    node.tell(trunk, &ToNode::Confirm { slot: 1, up_to: 1, exceptions: vec![] });
    node.said(trunk);
    say(&mut node, trunk, "bob", &[(3, 1)]);
    assert_eq!(named(&mut node, trunk), [(1, 0)]);
    node.tell(trunk, &ToNode::Confirm { slot: 1, up_to: 3, exceptions: vec![] });
    assert_eq!(node.said(trunk).fates, [(2, Fate::Done), (3, Fate::Done)]);
}

#[test]
fn a_request_of_a_reliable_client_without_an_id_is_refused() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.tell(trunk, &ToNode::Attach(reliable("alice")));
    let requests = [
        r#"{"type":"signal","to":"bob","data":1}"#,
        r#"{"type":"join","room":"r"}"#,
        r#"{"type":"leave","room":"r"}"#,
        r#"{"type":"broadcast","room":"r","data":1}"#,
    ];
    for (seq, text) in (1..).zip(requests) {
        node.tell(trunk, &ToNode::Up { slot: 0, seq, left: Left::from_duration(HOLD), payload: text.as_bytes() });
        let batch = node.core.take_trunk_batch(trunk);
        assert!(String::from_utf8_lossy(&batch).contains("bad_message"), "{text}");
    }
    let text = br#"{"type":"ice_servers"}"#;
    node.tell(trunk, &ToNode::Up { slot: 0, seq: 5, left: Left::from_duration(HOLD), payload: text });
    assert_eq!(node.said(trunk).fates, [(5, Fate::Done)], "what has no id needs none");
}

#[test]
fn only_what_nobody_has_had_before_is_given_up_with_its_time() {
    let mut node = Node::new("a");
    let trunk = node.core.trunk_up();
    node.tell(trunk, &ToNode::Attach(reliable("alice")));
    say(&mut node, trunk, "bob", &[(1, 1)]);
    node.pass(HOLD);
    assert_eq!(node.said(trunk).fates, [(1, Fate::Unavailable)]);
    say(&mut node, trunk, "bob", &[(2, 1)]);
    node.pass(HOLD + 2 * SECOND);
    assert_eq!(node.said(trunk).fates, [], "a copy of the first may still be delivered");
    node.pass(2 * SECOND);
    assert_eq!(node.said(trunk).fates, [(2, Fate::Unavailable)]);
}
