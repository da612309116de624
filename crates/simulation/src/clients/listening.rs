//! Processing of frames that clients receive.

use serde_json::Value;

use super::Socket;
use super::reliable::Got;
use crate::agenda::{MS, Micros, SECOND};
use crate::event::{ClientRequest, MessageId, SocketId};
use crate::ledger::{CALM_BEFORE, SenderResult};
use crate::mutant::Mutant;
use crate::world::World;

/// Minimum time in which a session can be resumed. It lingers for 30 s, but its node may detect
/// the lost socket some seconds late.
const RESUME: Micros = 25 * SECOND;

impl World {
    /// Handles a text that a socket's client received. Damaged text is a violation.
    pub(super) fn client_gets(&mut self, id: SocketId, text: &[u8]) {
        if self.subscribers.contains(self.sockets[id].client) {
            return self.subscriber_gets(id, text);
        }
        let socket = &mut self.sockets[id];
        let index = socket.client;
        let Ok(message) = serde_json::from_slice::<Value>(text) else {
            return self.ledger.broken("damaged", format!("socket {id} got invalid JSON"));
        };
        let kind = message["type"].as_str().unwrap_or_default();
        if socket.welcomed == (kind == "welcome") {
            return self.ledger.broken("welcome", format!("socket {id} got {kind} where it should not"));
        }
        let number = |name: &str| message[name].as_u64();
        let name = message["m"].as_str();
        let (here, slow) = (!socket.left, socket.slow);
        match (kind, message["code"].as_str()) {
            ("welcome", _) => {
                socket.welcomed = true;
                if socket.proves {
                    self.ledger.has_session(id);
                }
                if !here {
                    return;
                }
                self.clients[index].resume = message["resume"].as_str().map(|token| (token.to_owned(), id));
                let resumed = message["resumed"] == true;
                self.check_resumed(id, resumed);
                self.room_client_is_welcomed(index, resumed);
                self.reliable_is_welcomed(index, id, resumed);
            }
            ("signal", _) => {
                let named = index_in(&message["data"]["m"]);
                // The edge may have been paused since the message waits for the socket.
                let slow = slow || socket.opened_at == self.agenda.now();
                self.ledger.written(named, (index, id), slow, &self.trouble);
                if self.mutant == Some(Mutant::ReceivedTracker)
                    && let (Some(n), Some(key)) = (number("n"), socket.key)
                {
                    let text = format!(r#"{{"type":"received","n":{n}}}"#);
                    self.edges[socket.edge].core.client_text(self.agenda.instant(), key, text.as_bytes());
                }
                if here {
                    self.application_gets(id, Some(named), number("n"), name);
                }
            }
            ("broadcast", _) => {
                self.broadcast_is_written(index_in(&message["data"]), index, id);
                if here {
                    self.application_gets(id, None, number("n"), name);
                }
            }
            ("joined" | "waiting" | "members_changed" | "left", _) if here => {
                self.room_client_receives(id, kind, &message);
            }
            ("left", _) => self.room_client_misses_left(id, &message),
            ("ack", _) => self.answered(id, number("id"), SenderResult::Ack),
            ("error", Some("recipient_unavailable")) => self.answered(id, number("id"), SenderResult::Unavailable),
            // Without an id the refused request is `members`.
            ("error", Some("room_unavailable")) if number("id").is_none() => self.members_are_refused(index),
            ("error", Some("not_in_room")) if number("id").is_none() => {}
            ("error", Some("room_unavailable")) => self.answered(id, number("id"), SenderResult::RoomUnavailable),
            ("error", Some("forbidden")) => self.answered(id, number("id"), SenderResult::Forbidden),
            ("error", Some("not_in_room")) => self.answered(id, number("id"), SenderResult::NotInRoom),
            ("joined" | "waiting" | "members_changed" | "pong", _) => {}
            ("goodbye", _) => socket.come_back_after = number("retry_after_ms").map(|ms| ms * MS),
            _ => self.ledger.broken("unexpected", String::from_utf8_lossy(text).into_owned()),
        }
    }

    /// Checks that a client with its latest token resumed its session in time, whatever its edge
    /// and owner.
    fn check_resumed(&mut self, id: SocketId, resumed: bool) {
        let now = self.agenda.now();
        let Socket { client: index, edge, token_of, former, slow, .. } = self.sockets[id];
        let Some(before) = token_of.filter(|_| token_of == former && !slow) else { return };
        let Socket { lost: Some((lost, false)), edge: edge_before, .. } = self.sockets[before] else { return };
        self.counters.add("clients: resumed at another edge", u64::from(resumed && edge != edge_before));
        self.counters.add("clients: resumed", u64::from(resumed));
        // One edge may still avoid a node that other servers rely on again.
        let harmless = self.trouble.lossy.covers_nothing(lost.saturating_sub(CALM_BEFORE), now);
        let settled = self.trouble.views.covers_nothing(now.saturating_sub(2 * SECOND), now);
        if !resumed && now - lost < RESUME && harmless && settled {
            let ms = (now - lost) / MS;
            let what = format!("c{index} came back on socket {id} with the token of socket {before}, lost {ms} ms ago");
            self.ledger.broken("not resumed", what);
        }
    }

    /// Passes a received message, or a broadcast, to the application: each only once for a reliable
    /// client.
    fn application_gets(&mut self, id: SocketId, message: Option<MessageId>, n: Option<u64>, name: Option<&str>) {
        let index = self.sockets[id].client;
        match (&mut self.clients[index].reliable, n, name) {
            (Some(reliable), Some(n), Some(name)) => match reliable.gets(n, name) {
                Got::New => match message {
                    Some(message) => self.ledger.application_got(message, index),
                    None => self.counters.add("rooms: broadcasts that applications got", 1),
                },
                Got::Duplicate => self.counters.add("clients: messages that their application had", 1),
                Got::OutOfTurn => self.ledger.broken("receipt number", format!("socket {id} got {n} out of turn")),
            },
            (None, None, None) => return,
            (_, n, name) => {
                let what = format!("socket {id} of c{index} got the number {n:?} and the name {name:?}");
                return self.ledger.broken("receipt number", what);
            }
        }
        self.reliable_has_received(index, id);
    }

    fn answered(&mut self, id: SocketId, number: Option<u64>, answer: SenderResult) {
        let Socket { client: index, left, slow, .. } = self.sockets[id];
        let number = number.unwrap_or_default();
        let request = match &mut self.clients[index].reliable {
            // The client sends the request again.
            Some(_) if left => return,
            Some(reliable) => match reliable.answered(number) {
                Some(request) => request,
                None => {
                    let what =
                        format!("c{index} got the answer {answer:?} to its request {number}, which has its answer");
                    return self.ledger.broken("two outcomes", what);
                }
            },
            None => super::request_of(number),
        };
        let message = match (request, answer) {
            (ClientRequest::Message(message), SenderResult::Ack | SenderResult::Unavailable) => message,
            (ClientRequest::Room(ask), answer) if answer != SenderResult::Unavailable => {
                self.ask_is_answered(ask, id, answer);
                return self.reliable_sends(index);
            }
            (request, answer) => {
                return self.ledger.broken("unexpected", format!("c{index} got the answer {answer:?} to {request:?}"));
            }
        };
        let Some(recipient) = self.sendings.get(message).map(|sending| &self.clients[sending.to]) else {
            return self.ledger.broken("invented", format!("c{index} got the answer {answer:?} to message {message}"));
        };
        let (mut away, slow) = (recipient.away.with(&recipient.full), slow || recipient.takes.is_some());
        if answer == SenderResult::Unavailable && self.ledger.is_overtaken(message) {
            // The recipient's edge skips it, since it would come out of order.
            away.add(0, self.agenda.now());
        }
        self.ledger.answered(message, id, answer, (&self.trouble, &away, &recipient.busy), slow);
        self.reliable_sends(index);
    }
}

/// Returns the index of a message or request that clients send as data.
fn index_in(data: &Value) -> usize {
    data.as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX)
}
