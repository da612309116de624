//! A client in rooms. It reads continuously and records what arrives.

mod seen;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

pub use seen::{Departure, RoomSeen, Seen, Standing};

use crate::{Peer, eventually};

/// Longer than any answer takes, including waits for a store that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
const OUTBOX: usize = 1_000;

/// A connected client. Dropping it loses the socket without a close frame.
pub struct Guest {
    pub id: String,
    pub resume: String,
    pub resumed: bool,
    seen: Arc<Mutex<Seen>>,
    outbox: mpsc::Sender<Message>,
    reading: JoinHandle<()>,
    last_request: u64,
}

impl Guest {
    pub async fn connect(url: &str, id: &str) -> Self {
        Self::of(Peer::connect(url, id).await, id, 0)
    }

    pub async fn come_back(url: &str, former: &Former) -> Self {
        let peer = Peer::resume(url, &former.id, &former.resume).await;
        Self::of(peer, &former.id, former.last_request)
    }

    fn of(peer: Peer, id: &str, last_request: u64) -> Self {
        let (seen, (outbox, inbox)) = (Arc::new(Mutex::new(Seen::new(id))), mpsc::channel(OUTBOX));
        let (resume, resumed) = (peer.welcome["resume"].as_str().unwrap().to_owned(), peer.welcome["resumed"] == true);
        let reading = tokio::spawn(live(peer, inbox, Arc::clone(&seen)));
        Self { id: id.to_owned(), resume, resumed, seen, outbox, reading, last_request }
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn room(&self, room: &str) -> RoomSeen {
        self.seen().room(room)
    }

    pub async fn send(&self, message: &Value) {
        self.outbox.send(Message::text(message.to_string())).await.unwrap();
    }

    pub async fn until(&self, what: &str, fits: impl Fn(&Seen) -> bool) {
        let start = Instant::now();
        while !fits(&self.seen()) {
            assert!(start.elapsed() < PATIENCE, "{} waited in vain for {what}: {:#?}", self.id, self.seen());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn ask(&mut self, mut request: Value) -> Value {
        self.last_request += 1;
        let id = self.last_request;
        request["id"] = id.into();
        self.send(&request).await;
        let answer = || async { self.seen().answer_by_request.get(&id).cloned() };
        eventually(&format!("an answer to {request} of {}", self.id), PATIENCE, answer).await
    }

    pub async fn join(&mut self, room: &str) -> Standing {
        let answer = self.ask(join(room, &self.id)).await;
        assert_eq!(answer["type"], "ack", "{} joins {room}: {answer}", self.id);
        self.until("its place", |seen| seen.room(room).standing != Standing::Out).await;
        self.room(room).standing
    }

    pub async fn leave(&mut self, room: &str) {
        let answer = self.ask(json!({ "type": "leave", "room": room })).await;
        assert_eq!(answer["type"], "ack", "{} leaves {room}: {answer}", self.id);
    }

    pub async fn broadcast(&mut self, room: &str, data: Value) -> u64 {
        let answer = self.ask(json!({ "type": "broadcast", "room": room, "data": data })).await;
        answer["delivered"].as_u64().unwrap_or_else(|| panic!("{} tells {room}: {answer}", self.id))
    }

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

    /// Closes cleanly: the session ends at once.
    pub async fn close(self) -> Former {
        let former = self.former();
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = self.outbox.send(Message::Close(Some(frame))).await;
        self.until("the end of its socket", |seen| seen.closed.is_some()).await;
        former
    }

    /// Drops the socket without a close frame: the session lingers.
    pub fn vanish(self) -> Former {
        self.former()
    }

    fn former(&self) -> Former {
        Former { id: self.id.clone(), resume: self.resume.clone(), last_request: self.last_request }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// A client that was connected.
pub struct Former {
    pub id: String,
    pub resume: String,
    last_request: u64,
}

/// Returns a request to join a room, with the name as the data for the others.
pub fn join(room: &str, name: &str) -> Value {
    json!({ "type": "join", "room": room, "data": { "name": name } })
}

async fn live(mut peer: Peer, mut inbox: mpsc::Receiver<Message>, seen: Arc<Mutex<Seen>>) {
    let seen = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        tokio::select! {
            Some(message) = inbox.recv() => {
                if let Err(error) = peer.socket.send(message).await {
                    seen().closed = Some(error.to_string());
                    return;
                }
            }
            message = peer.socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    seen().heard(Instant::now(), serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(frame))) => seen().closed = Some(format!("{frame:?}")),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    seen().closed.get_or_insert(error.to_string());
                    return;
                }
                None => {
                    seen().closed.get_or_insert("ended".to_owned());
                    return;
                }
            },
        }
    }
}
