//! Requests of the application to `Core`. An error means that nothing was queued or sent.

use serde_json::value::RawValue;
use signaling_protocol::ids::check_name;

use super::{Core, Effect, Ms, Phase, Request, Ticket};
use crate::outcome::SendError;

impl Core {
    /// Queues a request, and sends it in its turn. Returns the ticket of its outcome.
    pub(crate) fn request(&mut self, now: Ms, request: Request) -> Result<Ticket, SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        check(request.name())?;
        if let Request::Join { room, .. } = &request
            && !self.rooms.may_join(room, self.requests.pending_joins())
        {
            return Err(SendError::TooManyRooms);
        }
        let (joined, left) = match &request {
            Request::Join { room, .. } => (Some(room.clone()), None),
            Request::Leave { room } => (None, Some(room.clone())),
            Request::Signal { .. } | Request::Broadcast { .. } => (None, None),
        };
        let ticket = self.requests.push(now, request, self.max_message_bytes)?;
        if let Some(room) = joined {
            self.follow(&room);
        }
        if let Some(room) = left {
            self.rooms.leave(&room);
            self.out(&room, "left");
        }
        self.flush(now);
        Ok(ticket)
    }

    /// Cancels a request without an outcome. A sent one keeps its number. Returns whether it was
    /// sent; `None` if it has its outcome.
    #[cfg_attr(not(test), expect(dead_code, reason = "the API cannot cancel yet"))]
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Option<bool> {
        let cancelled = self.requests.cancel(ticket)?;
        if let Some(room) = cancelled.joined {
            self.gave_up(&room, "aborted");
        }
        Some(cancelled.sent)
    }

    /// Requests a page of a room's members, after the client `after`. Fails without a connection.
    pub(crate) fn members(&mut self, room: &str, after: Option<&str>) -> Result<(), SendError> {
        [Some(room), after].into_iter().flatten().try_for_each(check)?;
        let after = after.map(|after| format!(r#","after":"{after}""#)).unwrap_or_default();
        self.ask(format!(r#"{{"type":"members","room":"{room}"{after}}}"#))
    }

    /// Requests fresh ICE servers. Fails without a connection.
    pub(crate) fn ice_servers(&mut self) -> Result<(), SendError> {
        self.ask(r#"{"type":"ice_servers"}"#.to_owned())
    }

    fn ask(&mut self, text: String) -> Result<(), SendError> {
        match self.phase {
            Phase::Connected(_) => {
                self.effects.push(Effect::Write(text));
                Ok(())
            }
            Phase::Closed => Err(SendError::Closed),
            Phase::Fetching { .. } | Phase::Connecting { .. } | Phase::Waiting { .. } => Err(SendError::NotConnected),
        }
    }
}

fn check(name: &str) -> Result<(), SendError> {
    check_name(name).map_err(|why| SendError::BadName { name: name.to_owned(), why })
}

/// Converts the application's data to JSON, or returns [`SendError::NotJson`].
pub(crate) fn to_json<T: serde::Serialize + ?Sized>(data: &T) -> Result<Box<RawValue>, SendError> {
    serde_json::value::to_raw_value(data).map_err(|error| SendError::NotJson(error.to_string()))
}
