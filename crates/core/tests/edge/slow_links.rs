//! Clients with slow links, while others send more than the links carry.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use signaling_core::edge::{ClientKey, ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer, SWEEP_INTERVAL, Settings};
use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::{Origin, ToEdge, ToNode, Unwritten};
use signaling_wire::{DownSeq, MessageNumber, RemainingTtl, Seq, SessionId};

const HOLD: Duration = Duration::from_secs(20);
const MESSAGE_BYTES: usize = 4_000;
/// Maximum unconfirmed bytes of nodes at an edge for one client.
const WINDOW_BYTES: usize = 128 * 1024;

/// An edge with one client, and a node that floods it.
struct Flood {
    core: EdgeCore,
    link: LinkKey,
    client: ClientKey,
    now: Instant,
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
        let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
        let newcomer = Newcomer {
            client_id: ClientId::new("anna").unwrap(),
            session: SessionId([1; 16]),
            accepted_at_us: 1,
            reliable,
            request: ConnectRequest::default(),
        };
        let client = core.connect(now, newcomer);
        let link = core.link_up();
        let mut flood = Self {
            core,
            link,
            client,
            now,
            reliable,
            on_the_way: Vec::new(),
            down: 0,
            number: 0,
            unconfirmed: VecDeque::new(),
            refused: 0,
        };
        flood.comes_to(link);
        flood.core.socket_opened(now, client);
        while flood.core.next_effect().is_some() {}
        flood
    }

    /// Attaches the client to a node without unconfirmed messages.
    fn comes_to(&mut self, link: LinkKey) {
        self.link = link;
        self.down = 0;
        self.unconfirmed.clear();
        self.core.attach(self.now, self.client, link);
        let session = SessionId([1; 16]);
        let hold = RemainingTtl::from_duration(HOLD);
        self.hear(&ToEdge::Attached {
            slot: 0,
            session,
            resumed: false,
            seq: Seq(0),
            hold,
            greeting: b"",
            state: b"s",
        });
    }

    fn hear(&mut self, frame: &ToEdge<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        self.core.link_frames(self.now, self.link, &bytes).unwrap();
    }

    fn sends(&mut self) {
        self.down += 1;
        self.number += 1;
        let origin = Some(Origin { session: SessionId([2; 16]), number: MessageNumber(self.number) });
        let payload = format!(r#"{{"data":"{}"}}"#, "x".repeat(MESSAGE_BYTES));
        let (d, ttl) = (self.down, RemainingTtl::from_duration(HOLD));
        self.hear(&ToEdge::Down {
            slot: 0,
            down_seq: DownSeq(d),
            origin,
            prev_pending: MessageNumber::NONE,
            ttl,
            payload: payload.as_bytes(),
        });
        self.unconfirmed.push_back(d);
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
        let batch = self.core.take_batch(self.link);
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
        self.now += SWEEP_INTERVAL;
        let output = self.core.output(self.client);
        let taken = output[..output.len().min(bytes)].to_vec();
        self.core.wrote(self.now, self.client, taken.len());
        self.on_the_way.extend(taken);
        self.core.heard(self.now, self.client);
        if self.reliable {
            self.says_received();
        }
        self.core.sweep(self.now);
        self.confirms();
    }

    /// Sends `received` for each complete message.
    fn says_received(&mut self) {
        let text = String::from_utf8_lossy(&self.on_the_way).into_owned();
        let Some(n) = text.matches(r#""n":"#).count().checked_sub(1) else { return };
        let text = format!(r#"{{"type":"received","n":{n}}}"#);
        self.core.client_text(self.now, self.client, text.as_bytes());
    }

    fn closed(&mut self) -> Option<CloseCode> {
        std::iter::from_fn(|| self.core.next_effect()).find_map(|effect| match effect {
            Effect::Close(_, code, _) => Some(code),
            _ => None,
        })
    }
}

#[test]
fn client_that_reads_8_kib_a_second_stays_under_a_flood() {
    for reliable in [false, true] {
        let mut flood = Flood::new(reliable);
        for half_second in 0..240 {
            flood.fills();
            flood.reads(4 * 1024);
            assert_eq!(flood.closed(), None, "reliable: {reliable}, after {half_second} half seconds");
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
        flood.closed()
    });
    assert_eq!(closed, Some(CloseCode::TOO_SLOW));
}

#[test]
fn client_that_reads_nothing_is_closed_after_ten_seconds() {
    let mut flood = Flood::new(false);
    flood.fills();
    let taken = (0..40).take_while(|_| {
        flood.reads(0);
        flood.closed().is_none()
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
        let (old, new) = (flood.link, flood.core.link_up());
        flood.core.link_down(old);
        flood.comes_to(new);
    }
    assert_eq!(flood.closed(), None);
    assert!(flood.core.output(flood.client).len() < 300 * 1024);
    assert!(flood.refused > 100, "{}", flood.refused);
    assert_eq!(flood.core.counts().full_outputs, flood.core.counts().sequence_gaps);
    let last = flood.number;
    flood.reads(usize::MAX);
    // The last message was refused, so it is sent again.
    flood.number -= 1;
    flood.sends();
    assert_eq!(flood.number, last);
    assert!(flood.core.output(flood.client).len() > MESSAGE_BYTES);
}
