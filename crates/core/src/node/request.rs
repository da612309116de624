//! Requests of clients: parses each uplink frame, and takes custody of its message or refuses it.
//! `inputs` calls it. Messages go on to `route`, and room commands to `rooms`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signaling_protocol::client::{self, BadMessage, ClientMessage};
use signaling_protocol::ids::is_reserved;
use signaling_protocol::server::{ServerMessage, write_broadcast, write_signal};
use signaling_protocol::{ClientId, ErrorCode, RoomName};
use signaling_rendezvous::KeyHash;
use signaling_rooms::{Command, CommandKind};
use signaling_wire::trunk::DeliveryOutcome;
use signaling_wire::{MessageNumber, RemainingTtl, Seq};

use super::deadline::Deadline;
use super::outbound::{OutboundMessage, OutboundQueue};
use super::{NodeCore, QueueKey, SessionKey};

const NEEDS_ID: &str = "a reliable client gives every `signal`, `join`, `leave` and `broadcast` an `id`";
const RESERVED: &str = "names that begin with `~` are reserved";

/// Returns the recipient and the room of a request. Without a dialect they may not be reserved. A
/// room that the client leaves is not among them.
fn recipient_and_room<'a>(message: &'a ClientMessage<'_>) -> (Option<&'a str>, Option<&'a str>) {
    match message {
        ClientMessage::Signal { to, .. } => (Some(&**to), None),
        ClientMessage::Join { room, .. }
        | ClientMessage::Members { room, .. }
        | ClientMessage::Broadcast { room, .. } => (None, Some(&**room)),
        _ => (None, None),
    }
}

fn names_reserved(message: &ClientMessage<'_>) -> bool {
    let (to, room) = recipient_and_room(message);
    to.or(room).is_some_and(is_reserved)
}

impl NodeCore {
    /// Handles an uplink frame: one client message as JSON text. Ignores a removed session.
    pub(super) fn up(&mut self, now: Instant, key: SessionKey, seq: Seq, ttl: RemainingTtl, payload: &[u8]) {
        let Some(session) = self.directory.get_mut(key) else { return };
        self.counts.requests += 1;
        let repeated = seq <= session.seq;
        let message = client::parse(payload);
        let (number, fresh) = session.number(seq, message.as_ref().ok().and_then(ClientMessage::id));
        match message {
            Ok(message) if session.known_id.is_some() && message.takes_id() && message.id().is_none() => {
                self.refuse(key, seq, ErrorCode::BadMessage, NEEDS_ID, None, (None, None));
            }
            Ok(message) if !session.is_of_dialect() && names_reserved(&message) => {
                let named = recipient_and_room(&message);
                self.refuse(key, seq, ErrorCode::Forbidden, RESERVED, message.id(), named);
            }
            Ok(ClientMessage::Signal { id, .. }) if !fresh && session.delivered.contains(number.0) => {
                self.acknowledge(key, seq, id);
            }
            Ok(ClientMessage::Signal { to, data, id, ttl_ms }) => {
                let from = session.client_id.clone();
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.clear();
                write_signal(&mut scratch, from.as_str(), data, id);
                let deadline = Deadline::new(now, ttl, self.settings.hold, ttl_ms.map(Duration::from_millis));
                let sent = OutboundMessage::new(number, seq, id, deadline, Rc::from(&scratch[..]), fresh);
                if self.room_step(now).is_confined(key) {
                    let at = (seq, number, id);
                    self.with_rooms(now, |rooms| rooms.signal_in_rooms(key, &to, at, sent));
                } else {
                    self.signal(now, key, &to, sent);
                }
                self.scratch = scratch;
            }
            Ok(ClientMessage::Join { room, data, id }) => {
                let data = data.map(|data| Box::from(data.get()));
                let may_be_done = repeated || self.room_step(now).was_accepted(key, number);
                self.room_command(now, key, (seq, number, id), &room, CommandKind::Join { data, may_be_done });
            }
            Ok(ClientMessage::Leave { room, id }) => {
                self.room_command(now, key, (seq, number, id), &room, CommandKind::Leave);
            }
            Ok(ClientMessage::Members { room, after }) => {
                let after = after.and_then(|after| ClientId::new(&after).ok());
                self.room_command(now, key, (seq, number, None), &room, CommandKind::Members { after });
            }
            Ok(ClientMessage::Broadcast { room, data, id, ttl_ms }) => {
                let mut payload = Vec::new();
                write_broadcast(&mut payload, &room, session.client_id.as_str(), data, id);
                let deadline = Deadline::new(now, ttl, self.settings.hold, ttl_ms.map(Duration::from_millis));
                match self.room_step(now).check_broadcast_wait(key, number, repeated) {
                    Ok(may_be_accepted) => {
                        let bytes = payload.len();
                        let copy = OutboundMessage::copy(number, seq, deadline, Rc::from(payload), fresh);
                        let broadcast = CommandKind::Broadcast { copy, bytes, may_be_accepted };
                        self.room_command(now, key, (seq, number, id), &room, broadcast);
                    }
                    Err(refusal) => {
                        self.with_rooms(now, |rooms| rooms.refuse_in_room(key, (seq, id), &room, &refusal));
                    }
                }
            }
            Ok(ClientMessage::Token { .. }) => {
                self.refuse(key, seq, ErrorCode::Forbidden, "this mesh takes no tokens", None, (None, None));
            }
            Ok(ClientMessage::IceServers) => {
                let client_id = session.client_id.clone();
                let (ice_servers, ice_valid_ms) = self.ice.for_client(&client_id, self.wall(now));
                let reply = ServerMessage::IceServers { ice_servers: &ice_servers, ice_valid_ms }.to_json();
                self.reply(key, seq, DeliveryOutcome::Done, &reply);
            }
            // The edge answers these two itself.
            Ok(ClientMessage::Ping | ClientMessage::Received { .. }) => {
                self.reply(key, seq, DeliveryOutcome::Done, &[]);
            }
            Err(BadMessage { code, message, id }) => self.refuse(key, seq, code, &message, id, (None, None)),
        }
    }

    fn room_command(
        &mut self,
        now: Instant,
        key: SessionKey,
        (seq, number, id): (Seq, MessageNumber, Option<u64>),
        room: &str,
        kind: CommandKind<OutboundMessage>,
    ) {
        // The parser has checked the name.
        if let Ok(room) = RoomName::new(room) {
            let command = Command { key, seq, number, id, room: Some(room), kind };
            self.with_rooms(now, |rooms| rooms.command(command));
        }
    }

    /// Takes custody of a client's message. Answers that the recipient is unavailable if too many
    /// messages to it are pending.
    pub(super) fn signal(&mut self, now: Instant, key: SessionKey, to: &str, sent: OutboundMessage) {
        let (seq, id) = (sent.seq, sent.id);
        if !self.take_custody(now, key, to, sent) {
            self.unavailable(key, seq, id, to);
        }
    }

    /// Takes custody of a message and sends it, or renews it if it is pending. Returns `false` if
    /// the destination holds [`Rules::max_for_absent`](super::Rules::max_for_absent) messages of
    /// the queue, unless another node may have had this one.
    pub(super) fn take_custody(&mut self, now: Instant, key: SessionKey, to: &str, sent: OutboundMessage) -> bool {
        let Some(queue_key) = self.queue_to(now, key, to) else { return true };
        let Some(queue) = self.custody.queues.get_mut(queue_key) else { return true };
        // The client retransmitted the message. Its outcome answers the latest frame.
        if let Some(earlier) = queue.renew(sent.number, sent.seq) {
            if earlier != sent.seq {
                self.reply(key, earlier, DeliveryOutcome::Done, &[]);
            }
            return true;
        }
        // An earlier copy at another node may still arrive, so the message is not undeliverable
        // yet.
        if !sent.was_elsewhere && queue.held && queue.len() >= self.settings.rules.max_for_absent {
            return false;
        }
        let first = queue.push(now, sent);
        self.send(now, queue_key, first);
        true
    }

    /// Returns the session's queue for a recipient, and opens it if necessary.
    fn queue_to(&mut self, now: Instant, session_key: SessionKey, to: &str) -> Option<QueueKey> {
        let session = self.directory.get(session_key)?;
        if let Some(queue) = session.recipients.get(to) {
            return Some(*queue);
        }
        let (origin, recipient, key) = (session.id, ClientId::new(to).ok()?, KeyHash::of(to));
        let (destination, rules) = (self.route(to, key).destination(), Arc::clone(&self.settings.rules));
        let queue = OutboundQueue::new(now, rules, session_key, origin, recipient.clone(), key, destination);
        let queue = self.custody.queues.insert(queue);
        self.directory.get_mut(session_key)?.recipients.insert(recipient, queue);
        Some(queue)
    }

    /// Answers a signal with `recipient_unavailable`.
    pub(super) fn unavailable(&mut self, session: SessionKey, seq: Seq, id: Option<u64>, to: &str) {
        self.counts.unavailable += 1;
        self.directory.count_undelivered(session);
        let (code, message) = (ErrorCode::RecipientUnavailable, "not known to have been delivered");
        let error = ServerMessage::Error { code, message, id, to: Some(to), room: None, retry_after_ms: None };
        self.reply(session, seq, DeliveryOutcome::Unavailable, &error.to_json());
    }

    /// Answers a request with an error. It repeats the recipient and the room that are refused.
    fn refuse(
        &mut self,
        session: SessionKey,
        seq: Seq,
        code: ErrorCode,
        message: &str,
        id: Option<u64>,
        (to, room): (Option<&str>, Option<&str>),
    ) {
        self.counts.refuse(code);
        let error = ServerMessage::Error { code, message, id, to, room, retry_after_ms: None };
        self.reply(session, seq, DeliveryOutcome::Refused, &error.to_json());
    }
}
