//! Clients with slow links, while others send more than the links carry.

use std::collections::VecDeque;

use signaling_core::edge::{ClientKey, LinkKey, SWEEP_INTERVAL};
use signaling_protocol::CloseCode;
use signaling_wire::trunk::{ToNode, Unwritten};

use crate::stage::{Edge, attached, down};

const MESSAGE_BYTES: usize = 4_000;
/// Maximum unconfirmed bytes of nodes at an edge for one client.
const WINDOW_BYTES: usize = 128 * 1024;

/// An edge with one client, and a node that floods it.
struct Flood {
    edge: Edge,
    link: LinkKey,
    client: ClientKey,
    reliable: bool,
    /// Bytes taken by the kernel or the link, but not by the client.
    on_the_way: Vec<u8>,
    down: u64,
    number: u64,
    unconfirmed: VecDeque<u64>,
    refused: u64,
}

impl Flood {
    fn new(reliable: bool) -> Self {
        let (edge, link, client) = Edge::with_client(reliable);
        let (on_the_way, unconfirmed) = (Vec::new(), VecDeque::new());
        Self { edge, link, client, reliable, on_the_way, down: 0, number: 0, unconfirmed, refused: 0 }
    }

    /// Attaches the client to a node without unconfirmed messages.
    fn comes_to(&mut self, link: LinkKey) {
        self.link = link;
        self.down = 0;
        self.unconfirmed.clear();
        self.edge.core.attach(self.edge.now, self.client, link);
        self.edge.hear(link, &[attached(0, "")]);
    }

    fn sends(&mut self) {
        self.down += 1;
        self.number += 1;
        let payload = format!(r#"{{"data":"{}"}}"#, "x".repeat(MESSAGE_BYTES));
        self.edge.hear(self.link, &[down(0, self.down, self.number, payload.as_bytes())]);
        self.unconfirmed.push_back(self.down);
    }

    /// Sends messages up to the node's maximum.
    fn fills(&mut self) {
        while self.unconfirmed.len() * MESSAGE_BYTES < WINDOW_BYTES {
            self.sends();
            self.confirms();
        }
    }

    /// Takes in the confirms of the edge.
    fn confirms(&mut self) {
        let batch = self.edge.core.take_batch(self.link);
        let mut rest = &batch[..];
        while !rest.is_empty() {
            if let ToNode::Confirm { up_to, exceptions, .. } = ToNode::take(&mut rest).unwrap() {
                self.unconfirmed.retain(|d| *d > up_to.0);
                let no_room = exceptions.iter().filter(|(_, why)| *why == Unwritten::NoRoom);
                self.refused += no_room.count() as u64;
            }
        }
    }

    /// Transfers half a second's bytes over the link. The kernel's buffer holds another `bytes`.
    fn reads(&mut self, bytes: usize) {
        self.edge.now += SWEEP_INTERVAL;
        let output = self.edge.core.output(self.client);
        let taken = output[..output.len().min(bytes)].to_vec();
        self.edge.core.wrote(self.edge.now, self.client, taken.len());
        self.on_the_way.extend(taken);
        self.edge.core.heard(self.edge.now, self.client);
        // The last message may be incomplete.
        let begun = String::from_utf8_lossy(&self.on_the_way).matches(r#""n":"#).count();
        if self.reliable && begun > 0 {
            self.edge.received(self.client, begun as u64 - 1);
        }
        self.edge.core.sweep(self.edge.now);
        self.confirms();
    }
}

#[test]
fn client_that_reads_8_kib_a_second_stays_under_a_flood() {
    for reliable in [false, true] {
        let mut flood = Flood::new(reliable);
        for half_second in 0..240 {
            flood.fills();
            flood.reads(4 * 1024);
            assert_eq!(flood.edge.closed(), None, "reliable: {reliable}, after {half_second} half seconds");
        }
        assert!(flood.number > 200);
    }
}

#[test]
fn client_that_reads_too_little_of_a_flood_is_closed() {
    let mut flood = Flood::new(false);
    let closed = (0..100).find_map(|_| {
        flood.fills();
        flood.reads(1024);
        flood.edge.closed()
    });
    assert_eq!(closed, Some(CloseCode::TOO_SLOW));
}

#[test]
fn client_that_reads_nothing_is_closed_after_ten_seconds() {
    let mut flood = Flood::new(false);
    flood.fills();
    let taken = (0..40).take_while(|_| {
        flood.reads(0);
        flood.edge.closed().is_none()
    });
    assert_eq!(taken.count(), 20);
}

#[test]
fn messages_past_a_full_output_wait_at_their_nodes() {
    let mut flood = Flood::new(false);
    for _ in 0..10 {
        // Each node fills its window.
        (0..=WINDOW_BYTES / MESSAGE_BYTES).for_each(|_| flood.sends());
        flood.confirms();
        let (old, new) = (flood.link, flood.edge.core.link_up(flood.edge.now, flood.edge.now));
        flood.edge.core.link_down(old);
        flood.comes_to(new);
    }
    assert_eq!(flood.edge.closed(), None);
    assert!(flood.edge.core.output(flood.client).len() < 300 * 1024);
    assert!(flood.refused > 100, "{}", flood.refused);
    assert_eq!(flood.edge.core.counts().full_outputs, flood.edge.core.counts().sequence_gaps);
    let last = flood.number;
    flood.reads(usize::MAX);
    // The last message was refused, so it is sent again.
    flood.number -= 1;
    flood.sends();
    assert_eq!(flood.number, last);
    assert!(flood.edge.core.output(flood.client).len() > MESSAGE_BYTES);
}
