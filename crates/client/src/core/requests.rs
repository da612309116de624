//! Requests without an answer, for `Core`: sent ones with their number, and queued ones.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::request::Request;
use super::{Ms, Ticket};
use crate::options::Limits;
use crate::outcome::SendError;
use crate::rules::{MAX_UNANSWERED, MAX_UNANSWERED_BYTES};
use crate::saved::SavedRequest;

/// A request until its answer.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Number in the session, once the request has been sent.
    id: u64,
    /// Ticket of the application. `None`: the application has the outcome already, or the request
    /// is of an earlier process or of the client itself.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) request: Request,
    /// `true` for a join that the client sends by itself after a lost session.
    pub(crate) rejoins: bool,
    /// Approximate size, for the limits.
    bytes: usize,
    /// `None` after it expired, and for requests of the client itself.
    expires: Option<Ms>,
    /// `true` if it was sent in a session that is over.
    was_sent: bool,
}

/// Requests of one client.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    limits: Limits,
    next_id: u64,
    last_ticket: Ticket,
    sent: VecDeque<Pending>,
    sent_bytes: usize,
    queued: VecDeque<Pending>,
    queued_bytes: usize,
}

impl Requests {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, next_id: 1, ..Self::default() }
    }

    /// Restores the requests of another process, sent ones with their numbers. Each gets the whole
    /// time limit again, from the creation of this client.
    pub(crate) fn restore(&mut self, next_id: u64, sent: Vec<(u64, Request)>, queued: Vec<Request>) {
        self.next_id = next_id;
        let expires = Some(self.limits.timeout);
        for (id, request) in sent {
            self.sent_bytes += request.bytes();
            self.sent.push_back(Pending { id, expires, ..Pending::new(request) });
        }
        for request in queued {
            self.queued_bytes += request.bytes();
            self.queued.push_back(Pending { expires, ..Pending::new(request) });
        }
    }

    /// Queues a request of the application and returns its ticket. `max_bytes` is the server's
    /// limit of the whole message as JSON text. Fails with `TooLarge` above it. Fails with
    /// `QueueFull` if the request exceeds the limits of the queue and has to wait for earlier ones.
    pub(crate) fn push(&mut self, now: Ms, request: Request, max_bytes: usize) -> Result<Ticket, SendError> {
        let bytes = request.bytes();
        let id = self.next_id + self.queued.len() as u64;
        let size = request.text(Some(id)).len();
        if size > max_bytes {
            return Err(SendError::TooLarge { bytes: size, max: max_bytes });
        }
        let is_full = self.queued.len() >= self.limits.queue || self.queued_bytes + bytes > self.limits.queue_bytes;
        if is_full && !(self.queued.is_empty() && self.has_room()) {
            return Err(SendError::QueueFull);
        }
        self.last_ticket += 1;
        self.queued_bytes += bytes;
        let expires = Some(now.saturating_add(self.limits.timeout));
        self.queued.push_back(Pending { ticket: Some(self.last_ticket), expires, ..Pending::new(request) });
        Ok(self.last_ticket)
    }

    /// Queues a join of the client itself.
    pub(crate) fn rejoin(&mut self, join: Request) {
        let entry = Pending { rejoins: true, ..Pending::new(join) };
        self.queued_bytes += entry.bytes;
        self.queued.push_back(entry);
    }

    /// Returns the rooms of joins without an answer.
    pub(crate) fn pending_joins(&self) -> impl Iterator<Item = &str> {
        self.sent.iter().chain(&self.queued).filter_map(|entry| match &entry.request {
            Request::Join { room, .. } => Some(room.as_str()),
            Request::Signal { .. } | Request::Leave { .. } | Request::Broadcast { .. } => None,
        })
    }

    /// Returns the rooms of leaves without an answer.
    pub(crate) fn pending_leaves(&self) -> impl Iterator<Item = &str> {
        self.sent.iter().chain(&self.queued).filter_map(|entry| match &entry.request {
            Request::Leave { room } => Some(room.as_str()),
            Request::Signal { .. } | Request::Join { .. } | Request::Broadcast { .. } => None,
        })
    }

    fn has_room(&self) -> bool {
        self.sent.len() < MAX_UNANSWERED && self.sent_bytes < MAX_UNANSWERED_BYTES
    }

    /// Moves the next request to the sent ones, and returns its text; `None` if none is queued, or
    /// sent requests without an answer have reached their number or size limit.
    pub(crate) fn next_to_send(&mut self) -> Option<String> {
        if !self.has_room() {
            return None;
        }
        let mut entry = self.queued.pop_front()?;
        entry.id = self.next_id;
        self.next_id += 1;
        self.queued_bytes -= entry.bytes;
        self.sent_bytes += entry.bytes;
        let text = entry.request.text(Some(entry.id));
        self.sent.push_back(entry);
        Some(text)
    }

    /// Returns the texts of the requests that a resumed session sends again, in order.
    pub(crate) fn retransmissions(&self) -> Vec<String> {
        self.sent.iter().map(|entry| entry.request.text(Some(entry.id))).collect()
    }

    /// Prepares a new session, whose numbers start at 1. The `rejoins` come first, then all
    /// requests without an answer, except expired ones and earlier rejoins.
    pub(crate) fn restart(&mut self, rejoins: Vec<Request>) {
        self.next_id = 1;
        self.sent_bytes = 0;
        for mut entry in self.sent.drain(..).rev() {
            entry.was_sent = true;
            self.queued_bytes += entry.bytes;
            self.queued.push_front(entry);
        }
        self.queued.retain(|entry| !entry.rejoins && entry.expires.is_some());
        for request in rejoins.into_iter().rev() {
            self.queued.push_front(Pending { rejoins: true, ..Pending::new(request) });
        }
        self.queued_bytes = self.queued.iter().map(|entry| entry.bytes).sum();
    }

    /// Removes and returns the request of this number, which got its answer; `None` if unknown.
    pub(crate) fn take_answered(&mut self, id: u64) -> Option<Pending> {
        let at = self.sent.iter().position(|entry| entry.id == id)?;
        let answered = self.sent.remove(at)?;
        self.sent_bytes -= answered.bytes;
        Some(answered)
    }

    /// Returns when the next request expires, if any does. Both queues are sorted by time.
    pub(crate) fn deadline(&self) -> Option<Ms> {
        let first = |queue: &VecDeque<Pending>| queue.iter().find_map(|entry| entry.expires);
        first(&self.sent).into_iter().chain(first(&self.queued)).min()
    }

    /// Expires due requests and returns their tickets, with `true` if the request was sent. One
    /// sent in this session stays until its answer, since its number is in use. Others are removed.
    pub(crate) fn expire(&mut self, now: Ms) -> Vec<(Ticket, bool)> {
        let mut expired = Vec::new();
        for entry in &mut self.sent {
            if entry.expires.is_some_and(|expires| expires <= now) {
                entry.expires = None;
                expired.extend(entry.ticket.take().map(|ticket| (ticket, true)));
            }
        }
        let queued_bytes = &mut self.queued_bytes;
        self.queued.retain(|entry| {
            let stays = entry.expires.is_none_or(|expires| expires > now);
            if !stays {
                *queued_bytes -= entry.bytes;
                expired.extend(entry.ticket.map(|ticket| (ticket, entry.was_sent)));
            }
            stays
        });
        expired
    }

    /// Removes and returns the tickets of all requests. The requests stay.
    pub(crate) fn take_tickets(&mut self) -> Vec<Ticket> {
        self.sent.iter_mut().chain(&mut self.queued).filter_map(|entry| entry.ticket.take()).collect()
    }

    /// Removes all requests. Numbers start at 1 again; tickets continue.
    pub(crate) fn clear(&mut self) {
        let last_ticket = self.last_ticket;
        *self = Self { last_ticket, ..Self::new(self.limits) };
    }

    /// Returns the next number, the unanswered requests, and the queued ones except rejoins.
    pub(crate) fn save(&self) -> (u64, Vec<SavedRequest>, Vec<Box<RawValue>>) {
        let sent =
            self.sent.iter().filter_map(|entry| Some(SavedRequest { id: entry.id, request: entry.request.save()? }));
        let queued = self.queued.iter().filter(|entry| !entry.rejoins).filter_map(|entry| entry.request.save());
        (self.next_id, sent.collect(), queued.collect())
    }
}

impl Pending {
    fn new(request: Request) -> Self {
        let bytes = request.bytes();
        Self { id: 0, ticket: None, request, rejoins: false, bytes, expires: None, was_sent: false }
    }
}
