//! Handles messages of the server, which the driver passes to `Core`.

use super::connection::Connection;
use super::incoming::{self, Greeting, Incoming};
use super::pacer::Pacer;
use super::request::Request;
use super::requests::Pending;
use super::{Core, DueAction, Effect, Moment, Ms, Phase};
use crate::ending::Fault;
use crate::event::{Event, State};
use crate::outcome::{Delivered, Refusal, RequestError};
use crate::rules::MIN_ICE_WAIT;

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
            Incoming::Welcome(greeting) => self.welcome(at.now, *greeting),
            Incoming::Goodbye { retry_after_ms } => self.hint = retry_after_ms,
            Incoming::Ignored => {}
            _ => self.protocol_error(at),
        }
    }

    fn welcome(&mut self, now: Ms, greeting: Greeting) {
        let Greeting { welcome, resume, rate, ice_valid_ms } = greeting;
        self.phase = Phase::Connected(Connection::new(now));
        self.attempts = 0;
        self.resume = Some(resume);
        self.pacer = Pacer::new(now, &rate);
        self.refresh_ice(now, ice_valid_ms);
        self.max_message_bytes = welcome.max_message_bytes;
        let resumed = welcome.resumed;
        self.emit(Event::State(State::Connected(welcome)));
        if resumed {
            self.requests.resume();
        } else {
            self.requests.restart(self.rooms.start_again());
        }
        self.flush(now);
    }

    /// Requests ICE servers again once half of the credentials' time is over.
    fn refresh_ice(&mut self, now: Ms, valid: Option<Ms>) {
        self.ice_at = valid.map(|valid| now.saturating_add((valid / 2).max(MIN_ICE_WAIT)));
    }

    fn on_message(&mut self, at: Moment, message: Incoming) {
        match message {
            Incoming::Welcome(..) => self.protocol_error(at),
            Incoming::Ack { id, members } => self.on_ack(at.now, id, members),
            Incoming::Error { id, room, refusal } => self.failed(at.now, id, room.as_deref(), refusal),
            Incoming::Goodbye { retry_after_ms } => self.hint = retry_after_ms,
            Incoming::Message(event, None) => self.emit(event),
            Incoming::Message(event, Some((n, name))) => self.receive(at, event, n, &name),
            Incoming::IceServers(servers, valid) => {
                self.refresh_ice(at.now, valid);
                self.emit(Event::IceServers(servers));
            }
            Incoming::Event(event) => {
                self.follow_event(at.now, &event);
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

    fn on_ack(&mut self, now: Ms, id: u64, members: Option<u64>) {
        let Some(Pending { ticket, request, is_own, .. }) = self.requests.take_answered(id) else { return };
        if let Request::Join { room, data } = request {
            let is_wanted = if is_own { self.rooms.lacks_seat(&room) } else { self.is_followed(&room) };
            if is_wanted {
                self.rooms.enter(&room, data);
            } else if !self.is_out_or_leaving(&room) {
                self.requests.push_own(Request::Leave { room });
            }
        }
        if let Some(ticket) = ticket {
            self.effects.push(Effect::Settle(ticket, Ok(Delivered { members })));
        }
        self.flush(now);
    }

    fn failed(&mut self, now: Ms, id: Option<u64>, room: Option<&str>, refusal: Refusal) {
        let wait = refusal.retry_after.map(|wait| wait.as_millis() as Ms);
        let Some(id) = id else {
            if !self.page_failed(now, room, wait) {
                self.emit(Event::Problem(refusal));
            }
            return;
        };
        let Some(Pending { ticket, request, is_own, .. }) = self.requests.take_answered(id) else { return };
        let code = refusal.code.clone();
        if let Some(ticket) = ticket {
            self.effects.push(Effect::Settle(ticket, Err(RequestError::Refused(refusal))));
        }
        match request {
            Request::Join { room, .. } if is_own => self.rejoin_failed(now, &room, code, wait),
            Request::Join { room, .. } => self.gave_up(&room, &code),
            Request::Signal { .. } | Request::Leave { .. } | Request::Broadcast { .. } => {}
        }
        self.flush(now);
    }

    fn rejoin_failed(&mut self, now: Ms, room: &str, code: String, wait: Option<Ms>) {
        if !self.rooms.lacks_seat(room) {
            return;
        }
        // An operator keeps the client out for that long, and the application decides then.
        if let Some(wait) = wait.filter(|_| code != "forbidden") {
            self.rooms.retry(now, room, wait);
            return;
        }
        self.rooms.leave(room);
        if !self.requests.wants(room) {
            self.out(room, &code);
        }
        self.emit(Event::Left { room: room.to_owned(), reason: code });
    }
}
