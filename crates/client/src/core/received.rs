//! Handles messages of the server, which the driver passes to `Core`.

use super::connection::Connection;
use super::incoming::{self, Incoming};
use super::request::Request;
use super::requests::Pending;
use super::{Core, DueAction, Effect, Moment, Ms, Phase};
use crate::ending::Fault;
use crate::event::{Event, State, Welcome};
use crate::outcome::{Delivered, Refusal, RequestError};

impl Core {
    /// Handles a text message from the socket. Drops the socket if the message breaks the protocol.
    pub(crate) fn text(&mut self, at: Moment, text: &str) {
        match (incoming::parse(text), &mut self.phase) {
            (_, Phase::Closed | Phase::Fetching { .. } | Phase::Waiting { .. }) => {}
            (Some(message), Phase::Connecting { .. }) => self.on_greeting(at, message),
            (Some(message), Phase::Connected(connection)) => {
                connection.on_input();
                self.on_message(at, message);
            }
            (None, _) => self.protocol_error(at),
        }
    }

    /// Drops the socket after a protocol error: the mesh retransmits messages that may be lost too.
    pub(crate) fn protocol_error(&mut self, at: Moment) {
        if let Phase::Connecting { .. } | Phase::Connected(_) = self.phase {
            self.give_up(at, Fault::ProtocolError);
        }
    }

    fn on_greeting(&mut self, at: Moment, message: Incoming) {
        match message {
            Incoming::Welcome(welcome, resume) => self.welcome(at.now, welcome, resume),
            Incoming::Goodbye { retry_after_ms } => self.hint = retry_after_ms,
            Incoming::Ignored => {}
            _ => self.protocol_error(at),
        }
    }

    fn welcome(&mut self, now: Ms, welcome: Welcome, resume: String) {
        self.phase = Phase::Connected(Connection::new(now));
        self.resume = Some(resume);
        self.max_message_bytes = welcome.max_message_bytes;
        let resumed = welcome.resumed;
        self.emit(Event::State(State::Connected(welcome)));
        if resumed {
            self.effects.extend(self.requests.retransmissions().into_iter().map(Effect::Write));
        } else {
            self.requests.restart(self.rooms.start_again());
            for room in self.requests.pending_leaves() {
                self.rooms.cancel_rejoin(room);
            }
        }
        self.flush();
    }

    fn on_message(&mut self, at: Moment, message: Incoming) {
        match message {
            Incoming::Welcome(..) => self.protocol_error(at),
            Incoming::Ack { id, members } => self.on_ack(id, members),
            Incoming::Error { id, refusal } => self.failed(at.now, id, refusal),
            Incoming::Goodbye { retry_after_ms } => self.hint = retry_after_ms,
            Incoming::Message(event, None) => self.emit(event),
            Incoming::Message(event, Some((n, name))) => self.receive(at, event, n, &name),
            Incoming::Event(event) => {
                if let Event::Left { room, .. } = &event {
                    self.rooms.leave(room);
                }
                self.emit(event);
            }
            Incoming::Ignored => {}
        }
    }

    fn receive(&mut self, at: Moment, event: Event, n: u64, name: &str) {
        let Phase::Connected(connection) = &mut self.phase else { return };
        let Ok(acknowledge) = connection.receive(at.now, n) else { return self.protocol_error(at) };
        if self.names.insert(at.now, name) {
            self.emit(event);
        }
        if let Some(n) = acknowledge {
            self.act(at, &DueAction::Acknowledge(n));
        }
    }

    fn on_ack(&mut self, id: u64, members: Option<u64>) {
        let Some(Pending { ticket, request, rejoins, .. }) = self.requests.take_answered(id) else { return };
        match request {
            Request::Join { room, data } if !rejoins || self.rooms.lacks_seat(&room) => self.rooms.enter(&room, data),
            Request::Leave { room } => self.rooms.leave(&room),
            Request::Join { .. } | Request::Signal { .. } | Request::Broadcast { .. } => {}
        }
        if let Some(ticket) = ticket {
            self.effects.push(Effect::Settle(ticket, Ok(Delivered { members })));
        }
        self.flush();
    }

    fn failed(&mut self, now: Ms, id: Option<u64>, refusal: Refusal) {
        let Some(id) = id else {
            self.emit(Event::Problem(refusal));
            return;
        };
        let Some(Pending { ticket, request, rejoins, .. }) = self.requests.take_answered(id) else { return };
        if let Request::Join { room, .. } = request
            && rejoins
            && self.rooms.lacks_seat(&room)
        {
            if let Some(wait) = refusal.retry_after {
                self.rooms.retry(now, &room, wait.as_millis() as Ms);
            } else {
                self.rooms.leave(&room);
                self.emit(Event::Left { room, reason: refusal.code.clone() });
            }
        }
        if let Some(ticket) = ticket {
            self.effects.push(Effect::Settle(ticket, Err(RequestError::Refused(refusal))));
        }
        self.flush();
    }
}
