//! Decisions of the client. Nothing here awaits, reads a clock or draws a random number. Each input
//! has a [`Moment`], outputs are [`Effect`]s, and [`Core::deadline`] is when [`Core::tick`] is due.
//!
//! | module | responsibility |
//! |---|---|
//! | [`outgoing`], [`request`], [`requests`] | requests of the application |
//! | [`pacer`] | the server's rate |
//! | [`connection`], [`tokens`] | an open socket; the token and its renewal |
//! | [`retry_state`] | waits between attempts |
//! | [`incoming`], [`received`], [`seen_messages`] | messages of the server |
//! | [`rooms`] | rooms to rejoin |
//! | [`followed`], [`members`] | members of the client's rooms |

mod connection;
mod followed;
mod incoming;
mod members;
mod outgoing;
mod pacer;
mod received;
mod request;
mod requests;
mod retry_state;
mod rooms;
mod seen_messages;
mod tokens;
#[cfg(test)]
mod vectors;

use std::time::Duration;

use signaling_protocol::close::Advice;
use signaling_protocol::limits::DEFAULT_MESSAGE_BYTES;

use self::connection::{Connection, DueAction};
use self::members::Members;
pub(crate) use self::members::RoomChange;
pub(crate) use self::outgoing::to_json;
use self::pacer::Pacer;
pub(crate) use self::request::Request;
use self::requests::{Removed, Requests};
use self::retry_state::RetryState;
use self::rooms::Rooms;
use self::seen_messages::SeenMessages;
use self::tokens::Tokens;
use crate::ending::{Ending, Fault, delay};
use crate::event::{Event, State};
use crate::options::{Limits, Token};
use crate::outcome::{Delivered, RequestError};
use crate::rules::{
    FIRST_BACKOFF, ICE_RETRY, MAX_REASON, OPEN_TIMEOUT, PATIENT_ATTEMPT, PAUSE_TOLERANCE, TOKEN_TIMEOUT,
    WELCOME_TIMEOUT,
};
use crate::saved::SavedSession;

/// Milliseconds since the client was created.
pub(crate) type Ms = u64;
/// Number of an accepted request of the application, counted from 1.
pub(crate) type Ticket = u64;
/// Outcome of an accepted request.
pub(crate) type Outcome = Result<Delivered, RequestError>;

/// Time of an input, and a random number for the wait that it may start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Time since the client was created.
    pub(crate) now: Ms,
    /// Number in [0, 1).
    pub(crate) random: f64,
}

/// An action for the driver, which executes them in order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Open a socket to the URL with this index, with the token that resumes a session and the
    /// client's own token, if it has them.
    Open { url: usize, resume: Option<String>, token: Option<String> },
    /// Drop the socket without a close frame, or stop opening it.
    Drop,
    /// Close the socket with code 1000, which ends the session.
    Close,
    /// Send this text message.
    Write(String),
    /// Call the application's token callback.
    FetchToken,
    /// Report the outcome of a request.
    Settle(Ticket, Outcome),
    /// Report an event to the application.
    Emit(Event),
    /// Report a change of a room.
    #[cfg_attr(not(test), expect(dead_code, reason = "the API reports the messages of the server instead"))]
    Room { room: String, change: RoomChange },
}

#[derive(Debug)]
enum Phase {
    /// Before [`Core::start`], and after the end of the session.
    Closed,
    /// Before an attempt, until the callback returns a token.
    Fetching { by: Ms },
    /// Until the `welcome` of a socket, which may take `limit` from the time `since`.
    Connecting { since: Ms, limit: Ms, is_open: bool },
    /// A welcomed socket is open.
    Connected(Connection),
    /// Before the next attempt. `can_be_shortened` is `false` if the server asked for this wait.
    Waiting { until: Ms, can_be_shortened: bool, why: Ending },
}

/// State of one client. `Driver` passes inputs to it and executes its effects.
#[derive(Debug)]
pub(crate) struct Core {
    client_id: String,
    url_count: usize,
    /// Index of the next URL to try.
    url: usize,
    retries: RetryState,
    /// Attempts in a row without a `welcome`.
    attempts: u32,
    phase: Phase,
    /// Token that resumes the session; `None` before its first `welcome`.
    resume: Option<String>,
    tokens: Tokens,
    /// Wait before the next attempt that the server of this socket asked for; `None`: none.
    hint: Option<Ms>,
    max_message_bytes: usize,
    requests: Requests,
    pacer: Pacer,
    rooms: Rooms,
    /// Rooms that the application joins, waits for or is in.
    followed: Vec<Members>,
    /// Time at which fresh ICE servers are requested; `None`: never.
    ice_at: Option<Ms>,
    names: SeenMessages,
    effects: Vec<Effect>,
}

impl Core {
    /// Creates a closed client. `has_tokens` is `true` if the application has a token callback.
    pub(crate) fn new(client_id: &str, url_count: usize, has_tokens: bool, limits: Limits) -> Self {
        Self {
            client_id: client_id.to_owned(),
            url_count,
            url: 0,
            retries: RetryState::default(),
            attempts: 0,
            phase: Phase::Closed,
            resume: None,
            tokens: Tokens::new(has_tokens),
            hint: None,
            max_message_bytes: DEFAULT_MESSAGE_BYTES,
            requests: Requests::new(limits),
            pacer: Pacer::default(),
            rooms: Rooms::default(),
            followed: Vec::new(),
            ice_at: None,
            names: SeenMessages::default(),
            effects: Vec::new(),
        }
    }

    /// Continues the session of another process. Called before [`Core::start`].
    pub(crate) fn restore(&mut self, session: SavedSession) {
        let SavedSession { resume, next_id, unanswered, queued, rooms, names, .. } = session;
        let sent = unanswered.iter().filter_map(|saved| Some((saved.id, Request::restore(&saved.request)?)));
        let queued = queued.iter().filter_map(|saved| Request::restore(saved));
        self.requests.restore(next_id, sent.collect(), queued.collect());
        self.resume = resume;
        let left: Vec<String> = self.requests.pending_leaves().map(str::to_owned).collect();
        let kept = rooms.iter().map(|kept| kept.room.clone()).filter(|room| !left.contains(room));
        let followed: Vec<String> = kept.chain(self.requests.pending_joins().map(str::to_owned)).collect();
        for room in followed {
            self.follow(&room);
        }
        self.rooms = Rooms::restore(rooms);
        for name in names {
            self.names.insert(0, &name);
        }
    }

    /// Returns the effects since the last call.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns when [`Core::tick`] is due; `None` if no timer runs.
    pub(crate) fn deadline(&self) -> Option<Ms> {
        let phase = match &self.phase {
            Phase::Closed => None,
            Phase::Fetching { by } => Some(*by),
            Phase::Connecting { since, limit, .. } => Some(since + limit),
            Phase::Connected(connection) => {
                let others = [self.tokens.deadline(), self.rooms.deadline(), self.ice_at, self.page_deadline()];
                others.into_iter().chain([self.pacer.free_at, Some(connection.deadline())]).flatten().min()
            }
            Phase::Waiting { until, .. } => Some(*until),
        };
        phase.into_iter().chain(self.requests.deadline()).min()
    }

    /// Returns `true` before [`Core::start`] and after the end of the session.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Connects now if the client is closed or waits; else does nothing.
    pub(crate) fn start(&mut self, now: Ms) {
        if !matches!(self.phase, Phase::Closed | Phase::Waiting { .. }) {
            return;
        }
        self.emit(Event::State(State::Connecting { url: self.url }));
        if self.tokens.is_missing(now) {
            self.phase = Phase::Fetching { by: now + TOKEN_TIMEOUT };
            self.effects.push(Effect::FetchToken);
        } else {
            self.open(now);
        }
    }

    fn open(&mut self, now: Ms) {
        self.hint = None;
        self.attempts += 1;
        let limit = if self.attempts.is_multiple_of(PATIENT_ATTEMPT) { WELCOME_TIMEOUT } else { OPEN_TIMEOUT };
        self.phase = Phase::Connecting { since: now, limit, is_open: false };
        self.effects.push(Effect::Open {
            url: self.url,
            resume: self.resume.clone(),
            token: self.tokens.for_attempt(),
        });
    }

    /// Handles the open socket of an attempt, before its `welcome`.
    pub(crate) fn opened(&mut self) {
        if let Phase::Connecting { limit, is_open, .. } = &mut self.phase {
            (*limit, *is_open) = (WELCOME_TIMEOUT, true);
        }
    }

    /// Handles a token from the callback.
    pub(crate) fn token(&mut self, now: Ms, token: Token) {
        let message = serde_json::json!({ "type": "token", "token": token.text });
        self.tokens.set(now, token);
        match self.phase {
            Phase::Fetching { .. } => self.open(now),
            Phase::Connected(_) => self.effects.push(Effect::Write(message.to_string())),
            Phase::Closed | Phase::Connecting { .. } | Phase::Waiting { .. } => {}
        }
    }

    /// Handles a failed callback. A failed renewal is retried later, with the old token in use.
    pub(crate) fn token_failed(&mut self, at: Moment) {
        if let Phase::Fetching { .. } = self.phase {
            self.lost(at, Ending::Fault(Fault::NoToken));
        }
    }

    /// Handles expired timers.
    pub(crate) fn tick(&mut self, at: Moment) {
        for Removed { ticket, sent, joined } in self.requests.expire(at.now) {
            let settled = ticket.map(|ticket| Effect::Settle(ticket, Err(RequestError::Expired { sent })));
            self.effects.extend(settled);
            if let Some(room) = joined {
                self.gave_up(&room, "expired");
            }
        }
        match &mut self.phase {
            Phase::Fetching { by } if at.now >= *by => self.lost(at, Ending::Fault(Fault::NoToken)),
            Phase::Connecting { since, limit, .. } if at.now >= *since + *limit + PAUSE_TOLERANCE => *since = at.now,
            Phase::Connecting { since, limit, is_open } if at.now >= *since + *limit => {
                let fault = if *is_open { Fault::NoWelcome } else { Fault::Unreachable };
                self.give_up(at, fault);
            }
            Phase::Waiting { until, .. } if at.now >= *until => self.start(at.now),
            Phase::Connected(_) => self.maintain(at),
            _ => {}
        }
    }

    fn maintain(&mut self, at: Moment) {
        if self.tokens.start_due_renewal(at.now) {
            self.effects.push(Effect::FetchToken);
        }
        if let Some(join) = self.rooms.take_due(at.now, self.requests.pending_joins()) {
            self.requests.push_own(join);
        }
        self.flush(at.now);
        if self.ice_at.is_some_and(|ice_at| ice_at <= at.now) {
            self.ice_at = Some(at.now + ICE_RETRY);
            self.effects.push(Effect::Write(r#"{"type":"ice_servers"}"#.to_owned()));
        }
        while let Phase::Connected(connection) = &mut self.phase
            && let Some(due) = connection.take_due(at.now)
        {
            self.act(at, &due);
        }
    }

    fn act(&mut self, at: Moment, due: &DueAction) {
        match due {
            DueAction::Ping => self.effects.push(Effect::Write(r#"{"type":"ping"}"#.to_owned())),
            DueAction::Acknowledge(n) => self.effects.push(Effect::Write(format!(r#"{{"type":"received","n":{n}}}"#))),
            DueAction::Silent => self.give_up(at, Fault::Silent),
        }
    }

    /// Handles a network change: shortens a wait unless the server asked for it, or pings.
    pub(crate) fn network_changed(&mut self, at: Moment) {
        match &mut self.phase {
            Phase::Waiting { until, can_be_shortened: true, why } => {
                let sooner = delay(FIRST_BACKOFF, at.random, 0, None, Advice::ComeBack);
                if at.now + sooner < *until {
                    *until = at.now + sooner;
                    let why = why.clone();
                    self.emit(Event::State(State::Waiting { retry_in: Duration::from_millis(sooner), why }));
                }
            }
            Phase::Connected(connection) => {
                if let Some(due) = connection.ping_early(at.now) {
                    self.act(at, &due);
                }
            }
            _ => {}
        }
    }

    /// Cancels the ping timeout while the driver does not read from the socket.
    pub(crate) fn reading_stopped(&mut self) {
        if let Phase::Connected(connection) = &mut self.phase {
            connection.on_input();
        }
    }

    /// Drops a useless socket and schedules a new attempt.
    fn give_up(&mut self, at: Moment, fault: Fault) {
        self.effects.push(Effect::Drop);
        self.lost(at, Ending::Fault(fault));
    }

    /// Handles the end of a socket or a failed attempt: waits for the next one, or closes. Does
    /// nothing if no attempt or socket is open.
    pub(crate) fn lost(&mut self, at: Moment, mut why: Ending) {
        if let Ending::Closed { reason, .. } | Ending::Refused { reason, .. } = &mut why {
            *reason = reason.chars().take(MAX_REASON).collect();
        }
        let was_welcome = match &self.phase {
            Phase::Closed | Phase::Waiting { .. } => return,
            Phase::Connected(connection) => {
                if connection.is_stable(at.now) {
                    self.retries = RetryState::default();
                }
                true
            }
            Phase::Fetching { .. } | Phase::Connecting { .. } => false,
        };
        self.followed.iter_mut().for_each(Members::socket_lost);
        let advice = match why.advice() {
            _ if !why.rejects_token() => why.advice(),
            _ if self.tokens.reject(was_welcome) => Advice::ComeBack,
            _ => Advice::StayAway,
        };
        if advice == Advice::StayAway {
            self.end(Some(why));
            return;
        }
        let hint = self.hint.take();
        let waited = match (&self.phase, &why) {
            (Phase::Connecting { since, .. }, Ending::Fault(Fault::Unreachable)) => at.now.saturating_sub(*since),
            _ => 0,
        };
        let wait = delay(self.retries.next_max_wait(at.now), at.random, waited, hint, advice);
        self.url = (self.url + 1) % self.url_count;
        let can_be_shortened = hint.is_none() && advice == Advice::ComeBack;
        self.phase = Phase::Waiting { until: at.now + wait, can_be_shortened, why: why.clone() };
        self.emit(Event::State(State::Waiting { retry_in: Duration::from_millis(wait), why }));
    }

    /// Handles an HTTP answer other than 101 to the upgrade request. `retry_after_ms` is the wait
    /// that it asks for; `None`: the backoff.
    pub(crate) fn refused(&mut self, at: Moment, status: u16, reason: String, retry_after_ms: Option<Ms>) {
        self.hint = retry_after_ms;
        self.lost(at, Ending::Refused { status, reason });
    }

    /// Closes this client. An open socket closes with 1000, which ends the session.
    pub(crate) fn close(&mut self) {
        self.effects.extend(match self.phase {
            Phase::Closed => return,
            Phase::Connected(_) => Some(Effect::Close),
            Phase::Connecting { .. } => Some(Effect::Drop),
            Phase::Fetching { .. } | Phase::Waiting { .. } => None,
        });
        self.end(None);
    }

    /// Returns the session for another process and closes this client; `None` if it was closed.
    pub(crate) fn detach(&mut self) -> Option<SavedSession> {
        match self.phase {
            Phase::Closed => return None,
            Phase::Connected(_) | Phase::Connecting { .. } => self.effects.push(Effect::Drop),
            Phase::Fetching { .. } | Phase::Waiting { .. } => {}
        }
        let (next_id, unanswered, queued) = self.requests.save();
        let saved = SavedSession {
            client_id: self.client_id.clone(),
            resume: self.resume.clone(),
            next_id,
            unanswered,
            queued,
            rooms: self.rooms.save(),
            names: self.names.latest(),
        };
        self.end(None);
        Some(saved)
    }

    fn end(&mut self, why: Option<Ending>) {
        self.phase = Phase::Closed;
        self.emit(Event::State(State::Closed { why }));
        for ticket in self.requests.take_tickets() {
            self.effects.push(Effect::Settle(ticket, Err(RequestError::Closed)));
        }
        self.requests.clear();
        for Members { room, .. } in std::mem::take(&mut self.followed) {
            self.report(&room, [RoomChange::Out { reason: "closed".to_owned() }]);
        }
        self.rooms = Rooms::default();
        (self.resume, self.hint, self.retries, self.attempts) = (None, None, RetryState::default(), 0);
    }

    /// Sends pages and queued requests within the limits and the pace.
    fn flush(&mut self, now: Ms) {
        let Phase::Connected(_) = self.phase else { return };
        self.pacer.free_at = None;
        if self.request_pages(now) {
            while let Some(text) = self.requests.next_to_send(now, &mut self.pacer) {
                self.effects.push(Effect::Write(text));
            }
        }
    }

    fn emit(&mut self, event: Event) {
        self.effects.push(Effect::Emit(event));
    }
}
