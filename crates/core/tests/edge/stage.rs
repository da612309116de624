//! The edge's core driven by hand, with its links and clients.

use std::time::{Duration, Instant};

use signaling_core::edge::{
    ClientKey, ConnectRequest, DialectClient, EdgeCore, Effect, LinkKey, Newcomer, NodeReport, Reading, Settings,
    VerifiedToken,
};
use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::{Attach, DeliveryOutcome, Origin, Slot, ToEdge, ToNode};
use signaling_wire::{DownSeq, MessageNumber, Rank, RateDebts, RemainingTtl, Seq, SessionId, SocketId};

pub(crate) struct Edge {
    pub(crate) core: EdgeCore,
    pub(crate) now: Instant,
    /// The first link.
    pub(crate) link: LinkKey,
    clients: Slot,
}

impl Edge {
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let (mut core, now) = (EdgeCore::new(settings), Instant::now());
        let link = core.link_up(now, now);
        Self { core, now, link, clients: 0 }
    }

    /// Creates an edge with a client in slot 0 of the returned link.
    pub(crate) fn with_client(reliable: bool) -> (Self, LinkKey, ClientKey) {
        let mut edge = Self::with(|_| {});
        let client = edge.open(reliable);
        let link = edge.link;
        (edge, link, client)
    }

    pub(crate) fn connect(
        &mut self,
        reliable: bool,
        token: Option<VerifiedToken>,
        dialect: Option<DialectClient>,
    ) -> ClientKey {
        let (client_id, session) = (client_id(self.clients), session_of(self.clients));
        let request = ConnectRequest { token, ..ConnectRequest::default() };
        let newcomer = Newcomer { client_id, session, socket: SocketId([1; 8]), since_ms: 1, reliable, request };
        let client = self.core.connect(self.now, newcomer, dialect);
        assert_eq!(self.core.next_effect(), Some(Effect::AssignNode(client)));
        client
    }

    /// Opens a socket of a client in the next slot of the first link.
    pub(crate) fn open(&mut self, reliable: bool) -> ClientKey {
        let client = self.connect(reliable, None, None);
        self.admit(client, "");
        self.core.socket_opened(self.now, client);
        self.said(self.link);
        client
    }

    /// Has the node of the first link admit a client with this greeting, before its socket is open.
    pub(crate) fn admit(&mut self, client: ClientKey, greeting: &str) {
        let slot = self.clients;
        self.clients += 1;
        self.core.attach(self.now, client, self.link);
        self.hear(self.link, &[attached(slot, greeting)]);
        assert_eq!(self.core.next_effect(), Some(Effect::Accept(client)));
    }

    /// Returns `true` if the edge reads a paused client again.
    pub(crate) fn reads_again(&mut self, client: ClientKey) -> bool {
        std::iter::from_fn(|| self.core.next_effect()).any(|effect| effect == Effect::Read(client))
    }

    /// Passes a text message of a client to the edge.
    pub(crate) fn say(&mut self, client: ClientKey, text: &str) -> Reading {
        self.core.client_text(self.now, client, text.as_bytes())
    }

    pub(crate) fn received(&mut self, client: ClientKey, n: u64) {
        self.say(client, &format!(r#"{{"type":"received","n":{n}}}"#));
    }

    /// Returns the unwritten output as text.
    pub(crate) fn output(&self, client: ClientKey) -> String {
        String::from_utf8_lossy(self.core.output(client)).into_owned()
    }

    pub(crate) fn write_all(&mut self, client: ClientKey) {
        let count = self.core.output(client).len();
        self.core.wrote(self.now, client, count);
    }

    /// Returns the code of the next socket that the edge closes. Drops other effects before it.
    pub(crate) fn closed(&mut self) -> Option<CloseCode> {
        std::iter::from_fn(|| self.core.next_effect()).find_map(|effect| match effect {
            Effect::Close(_, code, _) => Some(code),
            _ => None,
        })
    }

    /// Advances the time, with a sweep every half second.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(500);
            self.core.sweep(self.now);
        }
    }

    /// Passes frames of a node to the edge. Returns the node's report in them.
    pub(crate) fn hear(&mut self, link: LinkKey, frames: &[ToEdge<'_>]) -> Vec<NodeReport> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.append(&mut bytes));
        self.core.link_frames(self.now, link, &bytes).unwrap()
    }

    /// Takes the frames of a link's next batch, each as a line of text.
    pub(crate) fn said(&mut self, link: LinkKey) -> Vec<String> {
        let batch = self.core.take_batch(link);
        let mut rest = &batch[..];
        let mut said = Vec::new();
        while !rest.is_empty() {
            said.push(match ToNode::take(&mut rest).unwrap() {
                ToNode::Clock { .. } => continue,
                ToNode::Attach(Attach { slot, live: false, grant: Some(grant), .. }) => {
                    format!("attach {slot} {}", grant.escape_ascii())
                }
                ToNode::Attach(Attach { slot, live: true, .. }) => format!("attach {slot} live"),
                ToNode::Attach(attach) => format!("attach {} known {}", attach.slot, attach.state.is_some()),
                ToNode::Grant { slot, grant } => format!("grant {slot} {}", grant.escape_ascii()),
                ToNode::Up { slot, seq, .. } => format!("up {slot} {seq}"),
                ToNode::Confirm { slot, up_to, .. } => format!("confirm {slot} {up_to}"),
                ToNode::Detach { slot, cause, .. } => format!("detach {slot} {cause:?}"),
                ToNode::Release { slot, .. } => format!("release {slot}"),
                ToNode::Alive { slot } => format!("alive {slot}"),
                ToNode::Proved { slot, client_id } => format!("proved {slot} {client_id}"),
                ToNode::Kicked { name, at } => format!("kicked {name} {at}"),
                ToNode::Status { report } => format!("status {}", report.escape_ascii()),
            });
        }
        said
    }
}

/// Returns the id of the client with this number, which is its first slot too.
pub(crate) fn client_id(number: Slot) -> ClientId {
    ClientId::new(&format!("client-{number}")).unwrap()
}

fn session_of(slot: Slot) -> SessionId {
    let mut session = [7; 16];
    session[..4].copy_from_slice(&slot.to_be_bytes());
    SessionId(session)
}

pub(crate) fn attached(slot: Slot, greeting: &str) -> ToEdge<'_> {
    let (session, hold) = (session_of(slot), RemainingTtl::from_duration(Duration::from_secs(20)));
    let (seq, greeting) = (Seq(0), greeting.as_bytes());
    let debts = RateDebts::default();
    ToEdge::Attached { slot, session, rank: Rank(1), resumed: false, seq, debts, hold, greeting, state: b"admitted" }
}

pub(crate) fn down(slot: Slot, down_seq: u64, number: u64, payload: &[u8]) -> ToEdge<'_> {
    let origin = Some(Origin { session: SessionId([2; 16]), number: MessageNumber(number) });
    let (down_seq, prev_pending) = (DownSeq(down_seq), MessageNumber::NONE);
    let ttl = RemainingTtl::from_duration(Duration::from_secs(1));
    ToEdge::Down { slot, down_seq, origin, prev_pending, ttl, payload }
}

/// Returns a message in slot 0.
pub(crate) fn message(down_seq: u64, number: u64) -> ToEdge<'static> {
    down(0, down_seq, number, b"{}")
}

/// Returns outcomes of the client's own requests, with a reply.
pub(crate) fn done(slot: Slot, first: u64, count: u32, reply: &str) -> ToEdge<'_> {
    ToEdge::Outcomes { slot, first: Seq(first), count, outcome: DeliveryOutcome::Done, reply: reply.as_bytes() }
}
