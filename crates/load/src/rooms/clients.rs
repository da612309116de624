//! The clients of `rooms`: they send its requests, and pass received frames to the pure modules.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use anyhow::Result;
use serde::Deserialize;

use super::Options;
use super::assignment::Assignment;
use super::changes::{Act, Changes};
use super::queue::WaitingQueue;
use crate::client::Client;
use crate::fleet::Listener;
use crate::record::count;
use crate::schedule::Clock;

/// All clients of a run and their events. Clients of the waiting queue come last.
pub(super) struct RoomClients {
    pub(super) clock: Clock,
    pub(super) changes: RefCell<Changes>,
    pub(super) queue: RefCell<WaitingQueue>,
    rooms: Vec<String>,
    pub(super) queue_room: String,
    first_of_queue: usize,
    number_by_name: HashMap<String, usize>,
    /// Sockets, in the order of the clients; empty until all are connected.
    pub(super) sockets: RefCell<Vec<Rc<Client>>>,
    assignment: Assignment,
}

impl RoomClients {
    pub(super) fn new(options: &Options, assignment: Assignment) -> Result<Self> {
        let fleet = &options.fleet;
        let (first_of_queue, queue) = (assignment.clients(), usize::try_from(options.waiting)?);
        let name = |number: usize| (fleet.client_id(number), number);
        Ok(Self {
            clock: Clock::start(),
            changes: RefCell::new(Changes::new(assignment.clone())),
            queue: RefCell::new(WaitingQueue::new(queue)),
            rooms: (0..options.rooms).map(|room| format!("{}-room-{room}", fleet.prefix)).collect(),
            queue_room: format!("{}-queue", fleet.prefix),
            first_of_queue,
            number_by_name: (0..first_of_queue).map(name).collect(),
            sockets: RefCell::default(),
            assignment,
        })
    }

    /// Sets the measured time on the clock, in microseconds.
    pub(super) fn measure(&self, measured_us: Range<u64>) {
        self.queue.borrow_mut().measured_from_us = measured_us.start;
        self.changes.borrow_mut().record.measured_us = measured_us;
    }

    /// Returns the number of answered changes, with the joins before the run, and of admissions
    /// from the waiting queue.
    pub(super) fn answered(&self) -> u64 {
        self.changes.borrow().totals.answered + self.queue.borrow().admitted()
    }

    /// Returns `true` if all changes were answered and received, and all free seats filled.
    pub(super) fn is_settled(&self) -> bool {
        self.changes.borrow().open_changes() == 0 && self.queue.borrow().is_settled()
    }

    pub(super) fn join_first(&self, client: usize) {
        let number = self.changes.borrow_mut().joins_first(client, self.clock.now_us());
        self.send(client, join(self.room_of(client), number + 1, None));
    }

    /// Sends a visitor's join or leave that was due at `at_us`, unless its last one has no answer.
    pub(super) fn change(&self, client: usize, at_us: u64) {
        let turn = self.changes.borrow_mut().begin(client, at_us);
        let Some((number, act)) = turn else { return };
        let text = match act {
            Act::Join => join(self.room_of(client), number + 1, Some(number)),
            Act::Leave => leave(self.room_of(client), number + 1),
        };
        self.send(client, text);
        let late_us = self.clock.now_us().saturating_sub(at_us);
        self.changes.borrow_mut().record.time(|times| &mut times.lateness, at_us, late_us);
    }

    /// Sends the join of client `number` of the waiting queue, from 0.
    pub(super) fn join_queue(&self, number: usize) {
        self.send(self.first_of_queue + number, join(&self.queue_room, 1, None));
    }

    /// Sends a leave, due at `at_us`, from the room with the waiting queue, unless it is empty.
    pub(super) fn leave_queue_room(&self, at_us: u64) {
        let leaver = self.queue.borrow_mut().leaver(at_us);
        if let Some(number) = leaver {
            self.send(self.first_of_queue + number, leave(&self.queue_room, 2));
        }
    }

    fn send(&self, client: usize, text: String) {
        let is_sent = self.sockets.borrow()[client].send(text, None);
        if !is_sent {
            // The request stays without an answer, which the report shows.
            self.count("refused by the client's own socket");
        }
    }

    fn room_of(&self, client: usize) -> &str {
        &self.rooms[self.assignment.room_by_client[client]]
    }

    fn count(&self, what: &str) {
        count(&mut self.changes.borrow_mut().record.received, what);
    }

    fn received_in_queue(&self, number: usize, frame: &Frame<'_>, now_us: u64) {
        match &*frame.kind {
            "joined" => self.queue.borrow_mut().joined(number, now_us),
            "waiting" => self.queue.borrow_mut().waiting(number, now_us),
            "members_changed" | "left" | "ack" => {}
            "error" => self.count(&frame.code),
            other => self.count(other),
        }
    }

    fn received(&self, client: usize, frame: &Frame<'_>, now_us: u64) {
        let mut changes = self.changes.borrow_mut();
        // Requests are numbered from 1.
        let request = frame.id.and_then(|id| id.checked_sub(1));
        match (&*frame.kind, request) {
            ("joined", _) => changes.joined(client, now_us),
            ("members_changed", _) => {
                for number in frame.joined.iter().filter_map(Member::change) {
                    changes.received(client, number, now_us);
                }
                for leaver in frame.left.iter().filter_map(|member| self.number_by_name.get(&*member.client_id)) {
                    changes.received_leave(client, *leaver, now_us);
                }
            }
            ("left", _) => changes.left(client),
            ("ack", Some(number)) => changes.acked(number, now_us),
            ("error", number) => {
                if let Some(number) = number {
                    changes.refused(number);
                }
                count(&mut changes.record.received, &frame.code);
            }
            (other, _) => count(&mut changes.record.received, other),
        }
    }
}

impl Listener for RoomClients {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        let now_us = self.clock.now_us();
        match serde_json::from_str(text) {
            Err(_) => self.count("not JSON"),
            Ok(frame) => match client.checked_sub(self.first_of_queue) {
                Some(number) => self.received_in_queue(number, &frame, now_us),
                None => self.received(client, &frame, now_us),
            },
        }
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        count(&mut self.changes.borrow_mut().record.closed, &reason);
    }
}

/// Returns a request to join a room. `room` must need no escape in JSON. `change`: number of the
/// join among all joins and leaves of this process, from 0. The other members receive it as the
/// member's data. `None`: no data.
fn join(room: &str, id: u64, change: Option<u64>) -> String {
    let data = change.map(|change| format!(r#","data":{{"change":{change}}}"#)).unwrap_or_default();
    format!(r#"{{"type":"join","room":"{room}","id":{id}{data}}}"#)
}

/// Returns a request to leave a room or its waiting queue. `room` must need no escape in JSON.
fn leave(room: &str, id: u64) -> String {
    format!(r#"{{"type":"leave","room":"{room}","id":{id}}}"#)
}

/// The fields of a received frame that are read. Only `members_changed` has `joined` and `left`.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    /// Error code. Empty in any frame but `error`.
    #[serde(default, borrow)]
    code: Cow<'a, str>,
    /// Id of the request that the frame answers. `None`: it answers none.
    id: Option<u64>,
    #[serde(default, borrow)]
    joined: Vec<Member<'a>>,
    #[serde(default, borrow)]
    left: Vec<Member<'a>>,
}

/// A member of a room, or a client that left it.
#[derive(Deserialize)]
struct Member<'a> {
    #[serde(borrow)]
    client_id: Cow<'a, str>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    change: Option<u64>,
}

impl Member<'_> {
    /// Returns the `change` with which the client joined ([`join`]). `None`: it had none, or the
    /// entry is one of `left`, which have no data.
    fn change(&self) -> Option<u64> {
        self.data.as_ref()?.change
    }
}
