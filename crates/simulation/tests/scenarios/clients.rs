//! Clients of a scenario: their actions, and the frames that they received.

use std::collections::VecDeque;
use std::time::Duration;

use signaling_core::edge::{ClientKey, ConnectRequest, EdgeCore, Newcomer, PresentedToken, Reading};
use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::DetachReason;
use signaling_wire::{SessionId, SocketId};

use crate::mesh::Mesh;

/// Index of a client's socket.
pub(crate) type Who = usize;

#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) edge: String,
    pub(crate) key: ClientKey,
    /// The node of the next attach.
    pub(crate) home: String,
    pub(crate) waits_for_a_place: bool,
    pub(crate) reads: bool,
    pub(crate) answers_pings: bool,
    /// Frames that the client sent while its edge did not read.
    pub(crate) unread: Option<VecDeque<String>>,
    pub(crate) got: Vec<String>,
    /// Close code of its edge.
    pub(crate) closed: Option<u16>,
    /// Status of its refused upgrade.
    pub(crate) refused: Option<u16>,
    pub(crate) token: Option<String>,
    pub(crate) resumed: bool,
}

impl Mesh {
    /// Opens a client's socket at `edge`, which attaches it to `node`.
    pub(crate) fn connects(&mut self, id: &str, edge: &str, node: &str) -> Who {
        self.opens(id, edge, node, None)
    }

    /// Opens a client's socket with the resume token of `earlier`.
    pub(crate) fn resumes(&mut self, id: &str, earlier: Who, edge: &str, node: &str) -> Who {
        let token = self.clients[earlier].token.clone();
        self.opens(id, edge, node, token)
    }

    /// Opens a client's socket with the token of `earlier`, and asserts that the session is
    /// resumed.
    pub(crate) fn goes_on(&mut self, id: &str, earlier: Who, edge: &str, node: &str) -> Who {
        let who = self.resumes(id, earlier, edge, node);
        assert!(self.is_resumed(who));
        who
    }

    fn opens(&mut self, id: &str, edge: &str, node: &str, resume: Option<String>) -> Who {
        let number = self.clients.len() as u64 + 1;
        let resume = resume.map(|token| PresentedToken(token.into()));
        let newcomer = Newcomer {
            client_id: ClientId::new(id).unwrap(),
            session: SessionId::new((u128::from(number) << 64).to_be_bytes(), false),
            socket: SocketId(number.to_be_bytes()),
            since_ms: number,
            reliable: false,
            request: ConnectRequest { resume, ..ConnectRequest::default() },
        };
        let key = self.edges.get_mut(edge).unwrap().connect(self.now, newcomer, None);
        self.clients.push(Client {
            edge: edge.to_owned(),
            key,
            home: node.to_owned(),
            reads: true,
            answers_pings: true,
            ..Client::default()
        });
        self.flow();
        self.clients.len() - 1
    }

    /// Sends message `number` to a client and requests an `ack`.
    pub(crate) fn sends(&mut self, who: Who, to: &str, number: u64) {
        self.says(who, format!(r#"{{"type":"signal","to":"{to}","data":{number},"id":{number}}}"#));
    }

    pub(crate) fn pings(&mut self, who: Who) {
        self.says(who, r#"{"type":"ping"}"#.to_owned());
    }

    pub(crate) fn says(&mut self, who: Who, text: String) {
        let client = &mut self.clients[who];
        if let Some(unread) = &mut client.unread {
            return unread.push_back(text);
        }
        let edge = self.edges.get_mut(&client.edge).unwrap();
        edge.heard(self.now, client.key);
        if edge.client_text(self.now, client.key, text.as_bytes()) == Reading::Paused {
            client.unread = Some(VecDeque::new());
        }
        self.flow();
    }

    /// Returns the frames received since the last call: `from number`, `ack number`, an error
    /// code, `pong`.
    pub(crate) fn got(&mut self, who: Who) -> Vec<String> {
        std::mem::take(&mut self.clients[who].got)
    }

    pub(crate) fn is_read(&self, who: Who) -> bool {
        self.clients[who].unread.is_none()
    }

    /// Returns `true` if it was admitted and its session resumed.
    pub(crate) fn is_resumed(&self, who: Who) -> bool {
        let client = &self.clients[who];
        assert!(client.token.is_some(), "it was never let in");
        client.resumed
    }

    pub(crate) fn reads_again(&mut self, who: Who) {
        self.clients[who].reads = true;
        self.write_out(who);
        self.flow();
    }

    /// Gives an input of the client to its edge.
    fn at_edge(&mut self, who: Who, input: impl FnOnce(&mut EdgeCore, ClientKey)) {
        let client = &self.clients[who];
        input(self.edges.get_mut(&client.edge).unwrap(), client.key);
        self.flow();
    }

    /// Sends a frame for the keep-alive.
    pub(crate) fn shows_life(&mut self, who: Who) {
        let now = self.now;
        self.at_edge(who, |edge, key| edge.heard(now, key));
    }

    /// Breaks its socket.
    pub(crate) fn is_lost(&mut self, who: Who) {
        self.at_edge(who, |edge, key| edge.socket_closed(key, DetachReason::Lost));
    }

    /// Closes its socket with code 1000.
    pub(crate) fn closes_normally(&mut self, who: Who) {
        self.at_edge(who, |edge, key| edge.client_left(key, Some(CloseCode::NORMAL)));
    }

    /// Sets the node of its next attach.
    pub(crate) fn goes_next_to(&mut self, who: Who, node: &str) {
        self.clients[who].home = node.to_owned();
    }

    /// Starts a handoff to `node` at its edge.
    pub(crate) fn is_handed_to(&mut self, who: Who, node: &str) {
        self.goes_next_to(who, node);
        self.at_edge(who, |edge, key| edge.release(key, node));
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
