use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use anyhow::Result;

use super::Options;
use super::assignment::Assignment;
use super::changes::{Act, Changes};
use super::frames::{self, Received};
use super::queue::WaitingQueue;
use crate::client::{Client, Sent};
use crate::fleet::Listener;
use crate::record::{Record, count};
use crate::schedule::Clock;

/// First request id of the waiting-queue clients, apart from those of changes.
const QUEUE_IDS: u64 = 1 << 40;

/// All clients of a run and their events. Clients of the waiting queue come last.
pub(super) struct RoomClients {
    pub(super) clock: Clock,
    pub(super) changes: RefCell<Changes>,
    pub(super) queue: RefCell<WaitingQueue>,
    pub(super) record: RefCell<Record>,
    rooms: Vec<String>,
    pub(super) queue_room: String,
    first_of_queue: usize,
    number_by_name: HashMap<String, usize>,
    clients: RefCell<Vec<Rc<Client>>>,
    /// Clients whose kernel buffer was full.
    stalled: RefCell<Vec<usize>>,
    assignment: Assignment,
}

impl RoomClients {
    pub(super) fn new(options: &Options, assignment: Assignment) -> Result<Self> {
        let fleet = &options.fleet;
        let (first_of_queue, queue) = (assignment.clients(), usize::try_from(options.line)?);
        let name = |number: usize| (fleet.client_id(number), number);
        Ok(Self {
            clock: Clock::start(),
            changes: RefCell::new(Changes::new(assignment.clone())),
            queue: RefCell::new(WaitingQueue::new(queue)),
            record: RefCell::default(),
            rooms: (0..options.rooms).map(|room| format!("{}-room-{room}", fleet.prefix)).collect(),
            queue_room: format!("{}-line", fleet.prefix),
            first_of_queue,
            number_by_name: (0..first_of_queue).map(name).collect(),
            clients: RefCell::default(),
            stalled: RefCell::default(),
            assignment,
        })
    }

    pub(super) fn measure(&self, measured_us: Range<u64>) {
        self.changes.borrow_mut().measure_from(measured_us.start);
        self.queue.borrow_mut().measure_from(measured_us.start);
        self.record.borrow_mut().measured_us = measured_us;
    }

    /// Returns the number of answered changes and of seats that were filled again.
    pub(super) fn answered(&self) -> u64 {
        self.changes.borrow().totals.answered + self.queue.borrow().admitted()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.flush();
        self.changes.borrow().open_changes() == 0 && self.queue.borrow().is_settled()
    }

    pub(super) fn set_connected(&self, clients: &[Rc<Client>]) {
        *self.clients.borrow_mut() = clients.to_vec();
    }

    /// Sends the join of a client before the run.
    pub(super) fn join_first(&self, client: usize) {
        let number = self.changes.borrow_mut().joins_first(client, self.clock.now_us());
        self.send(client, frames::join(self.room_of(client), id_of(number), None));
    }

    /// Sends a visitor's join or leave that was due at `at_us`.
    pub(super) fn change(&self, client: usize, at_us: u64) {
        let turn = self.changes.borrow_mut().begin(client, at_us);
        let Some((number, act)) = turn else { return };
        let text = match act {
            Act::Join => frames::join(self.room_of(client), id_of(number), Some(number)),
            Act::Leave => frames::leave(self.room_of(client), id_of(number)),
        };
        self.send(client, text);
        self.record.borrow_mut().time(|times| &mut times.lateness, at_us, self.clock.now_us().saturating_sub(at_us));
    }

    pub(super) fn join_queue(&self, number: usize) {
        let text = frames::join(&self.queue_room, QUEUE_IDS + 2 * number as u64, None);
        self.send(self.first_of_queue + number, text);
    }

    /// Sends a leave from the room with the waiting queue. Returns `false` if the room is empty.
    pub(super) fn leave_queue_room(&self, at_us: u64) -> bool {
        let leaver = self.queue.borrow_mut().leaver(at_us);
        let Some(number) = leaver else { return false };
        let text = frames::leave(&self.queue_room, QUEUE_IDS + 2 * number as u64 + 1);
        self.send(self.first_of_queue + number, text);
        true
    }

    pub(super) fn flush(&self) {
        let clients = self.clients.borrow();
        self.stalled.borrow_mut().retain(|client| !clients[*client].flush());
    }

    fn send(&self, client: usize, text: String) {
        let sent = self.clients.borrow()[client].send(text, None);
        match sent {
            Sent::Written => {}
            Sent::Buffered => self.stalled.borrow_mut().push(client),
            // The request stays without an answer, which the report shows.
            Sent::Refused => self.count("refused by the client's own socket"),
        }
    }

    fn room_of(&self, client: usize) -> &str {
        &self.rooms[self.assignment.room(client)]
    }

    fn count(&self, what: &str) {
        count(&mut self.record.borrow_mut().received, what);
    }

    fn received_by_waiting(&self, number: usize, frame: &Received<'_>, now_us: u64) {
        match frame {
            Received::Joined { .. } => self.queue.borrow_mut().joined(number, now_us),
            Received::Waiting => self.queue.borrow_mut().waiting(number, now_us),
            Received::Error { code, .. } | Received::Other(code) => self.count(code),
            Received::Changed { .. } | Received::Left | Received::Ack { .. } => {}
        }
    }

    fn received(&self, client: usize, frame: &Received<'_>, now_us: u64) {
        let mut changes = self.changes.borrow_mut();
        match frame {
            Received::Joined { members } => {
                let number = |name: &str| self.number_by_name.get(name).copied();
                let members = members.as_ref().map(|members| {
                    members.iter().filter_map(|(name, change)| Some((number(name)?, *change))).collect()
                });
                changes.joined(client, members.as_ref(), now_us);
            }
            Received::Ack { id } => {
                if let Some(number) = number_of(*id) {
                    changes.acked(number, now_us);
                }
            }
            Received::Changed { joined, left } => {
                for number in joined.iter().filter_map(|(_, change)| *change) {
                    changes.received(client, number, now_us);
                }
                for leaver in left.iter().filter_map(|name| self.number_by_name.get(&**name)) {
                    changes.received_leave(client, *leaver, now_us);
                }
            }
            Received::Left => changes.left(client),
            Received::Error { code, id } => {
                if let Some(number) = id.and_then(number_of) {
                    changes.refused(number);
                }
                self.count(code);
            }
            Received::Waiting => self.count("waiting, in a room without a queue"),
            Received::Other(kind) => self.count(kind),
        }
    }
}

impl Listener for RoomClients {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        let now_us = self.clock.now_us();
        match frames::read(text) {
            None => self.count("not JSON"),
            Some(frame) => match client.checked_sub(self.first_of_queue) {
                Some(number) => self.received_by_waiting(number, &frame, now_us),
                None => self.received(client, &frame, now_us),
            },
        }
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        count(&mut self.record.borrow_mut().closed, &reason);
    }
}

/// Returns the request id of a number. Requests are numbered from 1.
fn id_of(number: u64) -> u64 {
    number + 1
}

fn number_of(id: u64) -> Option<u64> {
    id.checked_sub(1)
}
