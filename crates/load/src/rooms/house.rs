use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context as TaskContext, Waker};

use anyhow::Result;

use super::Options;
use super::book::{Act, Book};
use super::line::Line;
use super::seating::Seating;
use super::words::{self, Heard};
use crate::client::{Client, Sent};
use crate::clock::Clock;
use crate::fleet::Listener;
use crate::record::Record;

/// First request id of the waiting-queue clients, apart from the changes of the book.
const LINE_IDS: u64 = 1 << 40;

/// All clients of a run and their events. Clients of the waiting queue come last.
pub(super) struct House {
    pub(super) clock: Clock,
    pub(super) book: RefCell<Book>,
    pub(super) line: RefCell<Line>,
    pub(super) record: RefCell<Record>,
    is_over: Cell<bool>,
    rooms: Vec<String>,
    pub(super) line_room: String,
    first_of_line: usize,
    number_by_name: HashMap<String, usize>,
    clients: RefCell<Vec<Rc<Client>>>,
    /// Clients whose kernel buffer was full.
    stalled: RefCell<Vec<usize>>,
    seating: Seating,
}

impl House {
    pub(super) fn new(options: &Options, seating: Seating) -> Result<Self> {
        let fleet = &options.fleet;
        let (first_of_line, line) = (seating.clients(), usize::try_from(options.line)?);
        let name = |number: usize| (fleet.client_id(number), number);
        Ok(Self {
            clock: Clock::start(),
            book: RefCell::new(Book::new(seating.clone())),
            line: RefCell::new(Line::new(line)),
            record: RefCell::default(),
            is_over: Cell::new(false),
            rooms: (0..options.rooms).map(|room| format!("{}-room-{room}", fleet.prefix)).collect(),
            line_room: format!("{}-line", fleet.prefix),
            first_of_line,
            number_by_name: (0..first_of_line).map(name).collect(),
            clients: RefCell::default(),
            stalled: RefCell::default(),
            seating,
        })
    }

    pub(super) fn measure(&self, measured_us: Range<u64>) {
        self.book.borrow_mut().measure_from(measured_us.start);
        self.line.borrow_mut().measure_from(measured_us.start);
        self.record.borrow_mut().measure(measured_us);
    }

    /// Returns the number of answered changes and of seats that were filled again.
    pub(super) fn answered(&self) -> u64 {
        self.book.borrow().counts.answered + self.line.borrow().admitted()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.flush();
        self.book.borrow().open_changes() == 0 && self.line.borrow().is_settled()
    }

    pub(super) fn are_there(&self, clients: &[Rc<Client>]) {
        *self.clients.borrow_mut() = clients.to_vec();
    }

    pub(super) fn ends(&self) {
        self.is_over.set(true);
        self.clients.borrow_mut().clear();
    }

    /// Sends the join of a client before the run.
    pub(super) fn enter(&self, client: usize) {
        let number = self.book.borrow_mut().enters(client, self.clock.now_us());
        self.say(client, words::join(self.room_of(client), id_of(number), None));
    }

    /// Sends a visitor's join or leave that was due at `at_us`.
    pub(super) fn turn(&self, client: usize, at_us: u64) {
        let turn = self.book.borrow_mut().turn(client, at_us);
        let Some((number, act)) = turn else { return };
        let text = match act {
            Act::Join => words::join(self.room_of(client), id_of(number), Some(number)),
            Act::Leave => words::leave(self.room_of(client), id_of(number)),
        };
        self.say(client, text);
        self.record.borrow_mut().time("lateness", at_us, self.clock.now_us().saturating_sub(at_us));
    }

    pub(super) fn line_up(&self, number: usize) {
        let text = words::join(&self.line_room, LINE_IDS + 2 * number as u64, None);
        self.say(self.first_of_line + number, text);
    }

    /// Sends a leave from the room with the waiting queue. Returns `false` if the room is empty.
    pub(super) fn line_moves(&self, at_us: u64) -> bool {
        let leaver = self.line.borrow_mut().leaver(at_us);
        let Some(number) = leaver else { return false };
        let text = words::leave(&self.line_room, LINE_IDS + 2 * number as u64 + 1);
        self.say(self.first_of_line + number, text);
        true
    }

    pub(super) fn flush(&self) {
        let mut context = TaskContext::from_waker(Waker::noop());
        let clients = self.clients.borrow();
        self.stalled.borrow_mut().retain(|client| !clients[*client].flush(&mut context));
    }

    fn say(&self, client: usize, text: String) {
        let mut context = TaskContext::from_waker(Waker::noop());
        let sent = self.clients.borrow()[client].send(text, None, &mut context);
        match sent {
            Sent::Written => {}
            Sent::Buffered => self.stalled.borrow_mut().push(client),
            // The request stays without an answer, which the report shows.
            Sent::Refused => self.count("not taken by the client's own socket"),
        }
    }

    fn room_of(&self, client: usize) -> &str {
        &self.rooms[self.seating.room(client)]
    }

    fn count(&self, what: &str) {
        self.record.borrow_mut().add("received", what, 1);
    }

    fn heard_by_one_of_the_line(&self, number: usize, heard: &Heard<'_>, now_us: u64) {
        match heard {
            Heard::Joined { .. } => self.line.borrow_mut().joined(number, now_us),
            Heard::Waiting => self.line.borrow_mut().waiting(number, now_us),
            Heard::Error { code, .. } | Heard::Other(code) => self.count(code),
            Heard::Changed { .. } | Heard::Left | Heard::Ack { .. } => {}
        }
    }

    fn heard(&self, client: usize, heard: &Heard<'_>, now_us: u64) {
        let mut book = self.book.borrow_mut();
        match heard {
            Heard::Joined { members } => {
                let number = |name: &str| self.number_by_name.get(name).copied();
                let members = members.as_ref().map(|members| {
                    members.iter().filter_map(|(name, change)| Some((number(name)?, *change))).collect()
                });
                book.joined(client, members.as_ref(), now_us);
            }
            Heard::Ack { id } => {
                if let Some(number) = number_of(*id) {
                    book.acked(number, now_us);
                }
            }
            Heard::Changed { joined, left } => {
                for number in joined.iter().filter_map(|(_, change)| *change) {
                    book.heard(client, number, now_us);
                }
                for who in left.iter().filter_map(|who| self.number_by_name.get(&**who)) {
                    book.heard_leave(client, *who, now_us);
                }
            }
            Heard::Left => book.left(client),
            Heard::Error { code, id } => {
                if let Some(number) = id.and_then(number_of) {
                    book.refused(number);
                }
                self.count(code);
            }
            Heard::Waiting => self.count("waiting, in a room without a line"),
            Heard::Other(kind) => self.count(kind),
        }
    }
}

impl Listener for House {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        let now_us = self.clock.now_us();
        match words::read(text) {
            None => self.count("not JSON"),
            Some(heard) => match client.checked_sub(self.first_of_line) {
                Some(number) => self.heard_by_one_of_the_line(number, &heard, now_us),
                None => self.heard(client, &heard, now_us),
            },
        }
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        if !self.is_over.get() {
            self.record.borrow_mut().add("closed", &reason, 1);
        }
    }
}

/// Returns the request id of a number. Requests are numbered from 1.
fn id_of(number: u64) -> u64 {
    number + 1
}

fn number_of(id: u64) -> Option<u64> {
    id.checked_sub(1)
}
