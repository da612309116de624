//! The reliable client. It numbers requests across resumes, retransmits unanswered ones, sends
//! `received`, and gives its application each message once.

use std::collections::{BTreeSet, VecDeque};

use crate::agenda::MS;
use crate::event::{ClientFrame, ClientIx, ClientRequest, SocketId};
use crate::ledger::{Position, Stream};
use crate::world::World;

/// Maximum bytes of unanswered requests: half of the edge's buffer.
const MAX_UNANSWERED_BYTES: usize = 128 * 1024;
/// Approximate size of a request without its padding, in bytes.
const REQUEST_BYTES: usize = 80;
/// Number of unacknowledged messages from which the client sends `received` at once.
const MAX_UNACKNOWLEDGED: u64 = 64;
/// Maximum delay of `received` otherwise.
const MAX_RECEIVED_DELAY: u64 = 200 * MS;

/// State of a reliable client.
#[derive(Debug, Default)]
pub(crate) struct Reliable {
    /// Number of sessions so far.
    session: u64,
    /// Id of the latest request in this session.
    id: u64,
    unanswered: VecDeque<(u64, ClientRequest)>,
    /// Maximum number of unanswered requests, so that the edge never has to stop reading.
    window: usize,
    /// Names of the messages that the application got.
    names: BTreeSet<String>,
    /// `true` once the socket was welcomed.
    pub(super) ready: bool,
    /// Number of the latest message on the socket.
    n: u64,
    /// Number of the last `received` on the socket.
    acknowledged: u64,
    /// `true` while a `received` is scheduled.
    will_acknowledge: bool,
}

/// Classification of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    /// It is the first with its name.
    New,
    /// A duplicate by its name.
    Duplicate,
    /// Its number is not the next one on the socket, but a higher or lower one.
    OutOfTurn,
}

impl Reliable {
    /// Creates the state of a client with at most `window` unanswered requests.
    pub(super) fn new(window: usize) -> Self {
        Self { window, ..Self::default() }
    }

    /// Resets the numbers of received messages: the next socket counts from 1. Requests keep ids.
    pub(super) fn disconnected(&mut self) {
        (self.ready, self.n, self.acknowledged, self.will_acknowledge) = (false, 0, 0, false);
    }

    /// Resumes the session. Returns the requests to retransmit.
    fn resumed(&mut self) -> Vec<(u64, ClientRequest)> {
        self.ready = true;
        self.unanswered.iter().copied().collect()
    }

    /// Starts a new session. Returns the requests to send under new ids.
    fn starts_again(&mut self) -> Vec<ClientRequest> {
        self.ready = true;
        self.session += 1;
        self.id = 0;
        std::mem::take(&mut self.unanswered).into_iter().map(|(_, request)| request).collect()
    }

    /// Removes and returns the request of the id; `None` if it has its answer, or never existed.
    pub(super) fn answered(&mut self, id: u64) -> Option<ClientRequest> {
        let at = self.unanswered.iter().position(|(unanswered, _)| *unanswered == id)?;
        self.unanswered.remove(at).map(|(_, request)| request)
    }

    /// Records a message with number `n` on the socket, and its name, unless it is out of turn.
    pub(super) fn gets(&mut self, n: u64, name: &str) -> Got {
        if n != self.n + 1 {
            return Got::OutOfTurn;
        }
        self.n = n;
        if self.names.insert(name.to_owned()) { Got::New } else { Got::Duplicate }
    }

    /// Returns the number for the next `received`; `None` if no message is unacknowledged.
    fn take_received(&mut self) -> Option<u64> {
        let news = self.n > self.acknowledged;
        self.acknowledged = self.n;
        news.then_some(self.n)
    }
}

impl World {
    fn reliable(&mut self, index: ClientIx) -> Option<&mut Reliable> {
        self.clients[index].reliable.as_mut()
    }

    /// Retransmits the unanswered requests in a resumed session. In a new session they become new
    /// requests, before all pending ones.
    pub(super) fn reliable_is_welcomed(&mut self, index: ClientIx, socket: SocketId, resumed: bool) {
        let Some(reliable) = self.reliable(index) else { return };
        if resumed {
            let session = reliable.session;
            for (id, request) in reliable.resumed() {
                self.counters.add("clients: requests repeated in a resumed session", 1);
                self.send_frame(socket, ClientFrame::Request(request, position(index, session, id)));
            }
        } else {
            // A message that may have been delivered under its old name counts as a new message.
            for request in reliable.starts_again().into_iter().rev() {
                let Some(anew) = self.anew(request) else { continue };
                self.counters.add("clients: requests sent anew in another session", 1);
                self.clients[index].pending.push_front(anew);
            }
        }
        self.reliable_sends(index);
    }

    /// Registers the same request as a new one.
    fn anew(&mut self, request: ClientRequest) -> Option<ClientRequest> {
        match request {
            ClientRequest::Message(message) => {
                let sending = self.sendings[message];
                self.sendings.push(sending);
                self.ledger.expect(sending.from, sending.to, sending.ttl_ms);
                Some(ClientRequest::Message(self.sendings.len() - 1))
            }
            ClientRequest::Room(ask) => self.rooms.anew(ask).map(ClientRequest::Room),
        }
    }

    fn bytes(&self, request: ClientRequest) -> usize {
        match request {
            ClientRequest::Message(message) => self.sendings[message].padding + REQUEST_BYTES,
            ClientRequest::Room(_) => REQUEST_BYTES,
        }
    }

    /// Sends the requests that fit in the window.
    pub(super) fn reliable_sends(&mut self, index: ClientIx) {
        while let Some(reliable) = &self.clients[index].reliable
            && reliable.ready
            && reliable.unanswered.len() < reliable.window
            && reliable.unanswered.iter().map(|(_, request)| self.bytes(*request)).sum::<usize>() < MAX_UNANSWERED_BYTES
            && let client = &mut self.clients[index]
            && let (Some(socket), Some(reliable)) = (client.socket, &mut client.reliable)
            && let Some(request) = client.pending.pop_front()
        {
            reliable.id += 1;
            reliable.unanswered.push_back((reliable.id, request));
            let position = position(index, reliable.session, reliable.id);
            self.send_frame(socket, ClientFrame::Request(request, position));
        }
    }

    /// Schedules `received`, or sends it at once if much is unacknowledged.
    pub(super) fn reliable_has_received(&mut self, index: ClientIx, socket: SocketId) {
        let delay = self.rng.within(0, MAX_RECEIVED_DELAY);
        let Some(reliable) = self.reliable(index) else { return };
        if reliable.n - reliable.acknowledged >= MAX_UNACKNOWLEDGED {
            self.reliable_acknowledges(index, socket);
        } else if !std::mem::replace(&mut reliable.will_acknowledge, true) {
            self.agenda.after(delay, move |world: &mut Self| world.reliable_acknowledges_late(index, socket));
        }
    }

    fn reliable_acknowledges_late(&mut self, index: ClientIx, socket: SocketId) {
        if self.clients[index].socket == Some(socket) {
            if let Some(reliable) = self.reliable(index) {
                reliable.will_acknowledge = false;
            }
            self.reliable_acknowledges(index, socket);
        }
    }

    fn reliable_acknowledges(&mut self, index: ClientIx, socket: SocketId) {
        if let Some(n) = self.reliable(index).and_then(Reliable::take_received) {
            self.send_frame(socket, ClientFrame::Received(n));
        }
    }
}

fn position(client: ClientIx, session: u64, number: u64) -> Position {
    Position { stream: Stream::Session(client, session), number }
}
