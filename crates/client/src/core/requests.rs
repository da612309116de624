//! Requests without an answer, for `Core`: sent ones with their number, and queued ones.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::pacer::Pacer;
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
    /// `true` for a request of the client itself, such as a rejoin after a lost session.
    pub(crate) is_own: bool,
    /// Approximate size, for the limits.
    bytes: usize,
    /// `None` after it expired or was cancelled, and for requests of the client itself.
    expires: Option<Ms>,
    /// `true` if it was sent in a session that is over.
    was_sent: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    limits: Limits,
    next_id: u64,
    last_ticket: Ticket,
    sent: VecDeque<Pending>,
    /// Numbers of sent requests that the present socket has not sent yet.
    again: VecDeque<u64>,
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

    /// Queues a request of the client itself: a rejoin, or a leave after a join without a use.
    pub(crate) fn push_own(&mut self, request: Request) {
        let entry = Pending { is_own: true, ..Pending::new(request) };
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

    /// Returns `true` if a pending join of the room is neither expired nor cancelled.
    pub(crate) fn wants(&self, room: &str) -> bool {
        self.sent.iter().chain(&self.queued).any(|entry| {
            let is_live = entry.is_own || entry.expires.is_some();
            is_live && matches!(&entry.request, Request::Join { room: joined, .. } if joined == room)
        })
    }

    fn has_room(&self) -> bool {
        self.sent.len() < MAX_UNANSWERED && self.sent_bytes < MAX_UNANSWERED_BYTES
    }

    /// Returns the text of the next request to send: one of the session that resumes, else a queued
    /// one. `None` if none is left, if the pace has it wait, or if sent requests without an answer
    /// have reached their number or size limit.
    pub(crate) fn next_to_send(&mut self, now: Ms, pacer: &mut Pacer) -> Option<String> {
        if let Some(id) = self.again.front() {
            let text = self.sent.iter().find(|entry| entry.id == *id)?.request.text(Some(*id));
            if !pacer.take(now, text.len()) {
                return None;
            }
            self.again.pop_front();
            return Some(text);
        }
        if !self.has_room() {
            return None;
        }
        let text = self.queued.front()?.request.text(Some(self.next_id));
        if !pacer.take(now, text.len()) {
            return None;
        }
        let mut entry = self.queued.pop_front()?;
        entry.id = self.next_id;
        self.next_id += 1;
        self.queued_bytes -= entry.bytes;
        self.sent_bytes += entry.bytes;
        self.sent.push_back(entry);
        Some(text)
    }

    /// Sends the unanswered requests again, in order: the session resumes on another socket.
    pub(crate) fn resume(&mut self) {
        self.again = self.sent.iter().map(|entry| entry.id).collect();
    }

    /// Prepares a new session, whose numbers start at 1. The `rejoins` come first, then all
    /// requests without an answer, except expired ones and earlier rejoins.
    pub(crate) fn restart(&mut self, rejoins: Vec<Request>) {
        self.next_id = 1;
        self.sent_bytes = 0;
        self.again.clear();
        for mut entry in self.sent.drain(..).rev() {
            entry.was_sent = true;
            self.queued_bytes += entry.bytes;
            self.queued.push_front(entry);
        }
        self.queued.retain(|entry| !entry.is_own && entry.expires.is_some());
        for request in rejoins.into_iter().rev() {
            self.queued.push_front(Pending { is_own: true, ..Pending::new(request) });
        }
        self.queued_bytes = self.queued.iter().map(|entry| entry.bytes).sum();
    }

    /// Removes and returns the request of this number, which got its answer; `None` if unknown.
    pub(crate) fn take_answered(&mut self, id: u64) -> Option<Pending> {
        let at = self.sent.iter().position(|entry| entry.id == id)?;
        let answered = self.sent.remove(at)?;
        self.again.retain(|again| *again != id);
        self.sent_bytes -= answered.bytes;
        Some(answered)
    }

    /// Returns when the next request expires, if any does. Both queues are sorted by time.
    pub(crate) fn deadline(&self) -> Option<Ms> {
        let first = |queue: &VecDeque<Pending>| queue.iter().find_map(|entry| entry.expires);
        first(&self.sent).into_iter().chain(first(&self.queued)).min()
    }

    /// Expires due requests.
    pub(crate) fn expire(&mut self, now: Ms) -> Vec<Removed> {
        self.remove(|entry| entry.expires.is_some_and(|expires| expires <= now))
    }

    /// Cancels a request, which gets no outcome; `None` if it has one.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Option<Removed> {
        self.remove(|entry| entry.ticket == Some(ticket)).pop()
    }

    /// Removes queued requests. One sent in this session stays until its answer, since its number
    /// is in use.
    fn remove(&mut self, is_over: impl Fn(&Pending) -> bool) -> Vec<Removed> {
        let mut removed = Vec::new();
        for entry in self.sent.iter_mut().filter(|entry| is_over(entry)) {
            removed.push(Removed::of(entry, true));
            (entry.expires, entry.ticket) = (None, None);
        }
        let queued_bytes = &mut self.queued_bytes;
        self.queued.retain(|entry| {
            let stays = !is_over(entry);
            if !stays {
                *queued_bytes -= entry.bytes;
                removed.push(Removed::of(entry, entry.was_sent));
            }
            stays
        });
        removed
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
        let queued = self.queued.iter().filter(|entry| !entry.is_own).filter_map(|entry| entry.request.save());
        (self.next_id, sent.collect(), queued.collect())
    }
}

/// A request that expired or was cancelled.
#[derive(Debug)]
pub(crate) struct Removed {
    /// `None`: the application has the outcome already, or the request is of an earlier process.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) sent: bool,
    /// Room of a join; `None` for others.
    pub(crate) joined: Option<String>,
}

impl Removed {
    fn of(entry: &Pending, sent: bool) -> Self {
        let joined = match &entry.request {
            Request::Join { room, .. } => Some(room.clone()),
            Request::Signal { .. } | Request::Leave { .. } | Request::Broadcast { .. } => None,
        };
        Self { ticket: entry.ticket, sent, joined }
    }
}

impl Pending {
    fn new(request: Request) -> Self {
        let bytes = request.bytes();
        Self { id: 0, ticket: None, request, is_own: false, bytes, expires: None, was_sent: false }
    }
}
