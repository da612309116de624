//! A client in rooms. It reads continuously and records what arrives.

mod seen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::task::AbortOnDropHandle;

pub use seen::{Departure, RoomSeen, SeatStatus, Seen};

use crate::Peer;

/// Longer than any answer takes, including waits for an owner that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

type Socket = WebSocketStream<TcpStream>;

/// A connected client. Dropping it drops the socket without a close frame: the session lingers.
pub struct RoomClient {
    /// The `client_id`.
    pub id: String,
    resume: String,
    /// `true` if its socket resumed an earlier session.
    pub resumed: bool,
    seen: Arc<Mutex<Seen>>,
    outbox: SplitSink<Socket, Message>,
    _reading: AbortOnDropHandle<()>,
    last_request: u64,
}

impl RoomClient {
    /// Connects a client to a server, by its address or its URL without a path. Panics if the
    /// server refuses it.
    pub async fn connect(url: &str, id: &str) -> Self {
        Self::of(Peer::connect(url, id).await, 0)
    }

    /// Drops the socket without a close frame, and connects again with the resume token and an
    /// empty record. [`Self::resumed`] is `false` if the session was over. Panics if refused.
    pub async fn resume(self, url: &str) -> Self {
        let (id, resume, last_request) = (self.id.clone(), self.resume.clone(), self.last_request);
        drop(self);
        Self::of(Peer::open(url, &id, &format!("&resume={resume}")).await.unwrap(), last_request)
    }

    fn of(peer: Peer, last_request: u64) -> Self {
        let id = peer.id.clone();
        let seen = Arc::new(Mutex::new(Seen::new(&id)));
        let (resume, resumed) = (peer.resume_token(), peer.welcome["resumed"] == true);
        let (outbox, inbox) = peer.socket.split();
        let reading = AbortOnDropHandle::new(tokio::spawn(read(inbox, Arc::clone(&seen))));
        Self { id, resume, resumed, seen, outbox, _reading: reading, last_request }
    }

    /// Returns the record of all received messages. Nothing is recorded while the guard is held, so
    /// it must not be held across an `await`.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the record of one room so far; an empty one if nothing arrived.
    pub fn room(&self, room: &str) -> RoomSeen {
        self.seen().room(room)
    }

    /// Sends a message. Panics if the socket has ended.
    async fn send(&mut self, message: &Value) {
        self.outbox.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Waits until the record fits. Panics after 10 s, with the text `what`.
    pub async fn until(&self, what: &str, fits: impl Fn(&Seen) -> bool) {
        let start = Instant::now();
        while !fits(&self.seen()) {
            assert!(start.elapsed() < ANSWER_TIMEOUT, "{} waited in vain for {what}: {:#?}", self.id, self.seen());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Asserts that the client received no inconsistent room messages.
    pub fn assert_no_faults(&self) {
        assert_eq!(self.seen().faults().collect::<Vec<_>>(), [""; 0]);
    }

    /// Sends a request with a new `id`, and returns its `ack` or `error`. Panics after 10 s, or if
    /// the socket has ended.
    pub async fn ask(&mut self, mut request: Value) -> Value {
        self.last_request += 1;
        let id = self.last_request;
        request["id"] = id.into();
        self.send(&request).await;
        self.until("an answer", |seen| seen.answer_by_request.contains_key(&id)).await;
        self.seen().answer_by_request[&id].clone()
    }

    /// Joins a room with its id as `data.name`. Returns the seat, as a member or in the waiting
    /// queue. Panics if the server refuses, or after 10 s without an answer or seat.
    pub async fn join(&mut self, room: &str) -> SeatStatus {
        let answer = self.ask(json!({ "type": "join", "room": room, "data": { "name": self.id } })).await;
        assert_eq!(answer["type"], "ack", "{} joins {room}: {answer}", self.id);
        self.until("its seat", |seen| seen.room(room).seat != SeatStatus::Out).await;
        self.room(room).seat
    }

    /// Waits until the client has this seat. Panics after 10 s.
    pub async fn gets(&self, room: &str, seat: SeatStatus) {
        self.until("its seat", |seen| seen.room(room).seat == seat).await;
    }

    /// Leaves a room. Panics if the server refuses.
    pub async fn leave(&mut self, room: &str) {
        let answer = self.ask(json!({ "type": "leave", "room": room })).await;
        assert_eq!(answer["type"], "ack", "{} leaves {room}: {answer}", self.id);
    }

    /// Broadcasts in a room and returns the number of members reached. Panics if refused.
    pub async fn broadcast(&mut self, room: &str, data: Value) -> u64 {
        let answer = self.ask(json!({ "type": "broadcast", "room": room, "data": data })).await;
        answer["delivered"].as_u64().unwrap_or_else(|| panic!("{} broadcasts to {room}: {answer}", self.id))
    }

    /// Requests the page of members after the client `after` (`None`: the first page). Returns the
    /// next `joined` message, of any room. Panics after 10 s without one, as after a refusal.
    pub async fn members(&mut self, room: &str, after: Option<&str>) -> Value {
        let before = self.seen().states.len();
        let mut request = json!({ "type": "members", "room": room });
        if let Some(after) = after {
            request["after"] = after.into();
        }
        self.send(&request).await;
        self.until("members", |seen| seen.states.len() > before).await;
        self.seen().states[before].clone()
    }

    /// Closes with code 1000: the session ends at once. Panics if the socket lasts 10 s longer.
    pub async fn close(mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = self.outbox.send(Message::Close(Some(frame))).await;
        self.until("the end of its socket", |seen| seen.closed.is_some()).await;
    }
}

/// Records all messages until the socket ends.
async fn read(mut inbox: SplitStream<Socket>, seen: Arc<Mutex<Seen>>) {
    let seen = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        match inbox.next().await {
            Some(Ok(Message::Text(text))) => seen().receive(Instant::now(), serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(frame))) => seen().closed = Some(format!("{frame:?}")),
            Some(Ok(_)) => {}
            end => {
                seen().closed.get_or_insert(format!("{end:?}"));
                return;
            }
        }
    }
}
