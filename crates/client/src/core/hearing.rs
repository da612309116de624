//! Handles messages of the server.

use super::connection::Connection;
use super::incoming::{self, Incoming};
use super::request::Request;
use super::requests::Answered;
use super::{Core, Due, Effect, Moment, Ms, Phase};
use crate::ending::Fault;
use crate::event::{Event, State, Welcome};
use crate::outcome::{Delivered, Refusal, RequestError};

/// A protocol error on this socket.
struct Nonsense;

impl Core {
    /// Handles a text message from the socket.
    pub(crate) fn text(&mut self, at: Moment, text: &str) {
        let heard = match (incoming::read(text), &mut self.phase) {
            (_, Phase::Closed | Phase::Fetching { .. } | Phase::Waiting { .. }) => return,
            (Ok(message), Phase::Connecting { .. }) => self.greeted(at.now, message),
            (Ok(message), Phase::Connected(connection)) => {
                connection.lives();
                self.heard(at, message)
            }
            (Err(_), _) => Err(Nonsense),
        };
        if let Err(Nonsense) = heard {
            self.nonsense(at);
        }
    }

    /// Gives the socket up after a protocol error. Other messages may be lost too, so the mesh has
    /// to send them again.
    pub(crate) fn nonsense(&mut self, at: Moment) {
        if let Phase::Connecting { .. } | Phase::Connected(_) = self.phase {
            self.give_up(at, Fault::Nonsense);
        }
    }

    fn greeted(&mut self, now: Ms, message: Incoming) -> Result<(), Nonsense> {
        match message {
            Incoming::Welcome(welcome, resume) => self.welcome(now, welcome, resume),
            Incoming::Goodbye { retry_after_ms } => self.hint = retry_after_ms,
            Incoming::Nothing => {}
            _ => return Err(Nonsense),
        }
        Ok(())
    }

    fn welcome(&mut self, now: Ms, welcome: Welcome, resume: String) {
        self.phase = Phase::Connected(Connection::new(now));
        self.resume = Some(resume);
        self.max_message_bytes = welcome.max_message_bytes;
        let resumed = welcome.resumed;
        self.tell(Event::State(State::Connected(welcome)));
        if resumed {
            self.effects.extend(self.requests.repeats().into_iter().map(Effect::Write));
        } else {
            self.requests.start_again(&self.rooms);
        }
        self.flush();
    }

    fn heard(&mut self, at: Moment, message: Incoming) -> Result<(), Nonsense> {
        match message {
            Incoming::Welcome(..) => return Err(Nonsense),
            Incoming::Ack { id, members } => self.acknowledged(id, members),
            Incoming::Error { id, refusal } => self.failed(id, refusal),
            Incoming::Goodbye { retry_after_ms } => self.hint = retry_after_ms,
            Incoming::Message(event, None) => self.tell(event),
            Incoming::Message(event, Some((n, name))) => return self.receive(at, event, n, &name),
            Incoming::Event(event) => {
                if let Event::Left { room, .. } = &event {
                    self.rooms.leave(room);
                }
                self.tell(event);
            }
            Incoming::Nothing => {}
        }
        Ok(())
    }

    fn receive(&mut self, at: Moment, event: Event, n: u64, name: &str) -> Result<(), Nonsense> {
        let Phase::Connected(connection) = &mut self.phase else { return Ok(()) };
        let said = connection.receive(at.now, n).map_err(|_| Nonsense)?;
        if self.names.insert(at.now, name) {
            self.tell(event);
        }
        if let Some(n) = said {
            self.act(at, &Due::Say(n));
        }
        Ok(())
    }

    fn acknowledged(&mut self, id: u64, members: Option<u64>) {
        let Some(Answered { ticket, request, .. }) = self.requests.answered(id) else { return };
        match request {
            Request::Join { room, data } => self.rooms.enter(&room, data),
            Request::Leave { room } => self.rooms.leave(&room),
            Request::Signal { .. } | Request::Broadcast { .. } => {}
        }
        if let Some(ticket) = ticket {
            self.effects.push(Effect::Settle(ticket, Ok(Delivered { members })));
        }
        self.flush();
    }

    fn failed(&mut self, id: Option<u64>, refusal: Refusal) {
        let Some(id) = id else {
            self.tell(Event::Problem(refusal));
            return;
        };
        let Some(Answered { ticket, request, rejoins }) = self.requests.answered(id) else { return };
        if let Request::Join { room, .. } = request
            && rejoins
        {
            self.rooms.leave(&room);
            self.tell(Event::Left { room, reason: refusal.code.clone() });
        }
        if let Some(ticket) = ticket {
            self.effects.push(Effect::Settle(ticket, Err(RequestError::Refused(refusal))));
        }
        self.flush();
    }
}
