//! State of one welcomed socket, for `Core`: keep-alive, and message numbers.

use super::Ms;
use crate::rules::{MAX_UNACKNOWLEDGED, PAUSE_TOLERANCE, PING_INTERVAL, PONG_TIMEOUT, RECEIVED_DELAY, STABLE_AFTER};

/// An action that is due on the socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DueAction {
    /// Send a ping.
    Ping,
    /// Send `received` with this number.
    Acknowledge(u64),
    /// Drop the socket: a ping got no answer.
    Silent,
}

/// A socket after its `welcome`.
#[derive(Debug, Default)]
pub(super) struct Connection {
    welcomed_at: Ms,
    ping_at: Ms,
    /// Time until which a ping must be answered; `None` if none is pending.
    answer_by: Option<Ms>,
    /// Number of the latest message, from 1; 0 before the first.
    received: u64,
    /// Number in the latest `received`.
    acknowledged: u64,
    /// Time of the next `received`; `None` if all messages are acknowledged.
    acknowledge_by: Option<Ms>,
}

impl Connection {
    /// Creates the state of a socket that was just welcomed.
    pub(super) fn new(now: Ms) -> Self {
        Self { welcomed_at: now, ping_at: now + PING_INTERVAL, ..Self::default() }
    }

    /// Returns `true` if the socket has lasted 10 s, which resets the backoff.
    pub(super) fn is_stable(&self, now: Ms) -> bool {
        now.saturating_sub(self.welcomed_at) >= STABLE_AFTER
    }

    /// Cancels the time limit of a ping: input arrived, or reading has stopped.
    pub(super) fn on_input(&mut self) {
        self.answer_by = None;
    }

    /// Records message number `n`. Returns the number to acknowledge at once; `None` if that can
    /// wait. Fails if `n` is not the number after the latest one.
    pub(super) fn receive(&mut self, now: Ms, n: u64) -> Result<Option<u64>, Gap> {
        if n != self.received + 1 {
            return Err(Gap);
        }
        self.received = n;
        if self.received - self.acknowledged >= MAX_UNACKNOWLEDGED {
            return Ok(Some(self.acknowledge()));
        }
        self.acknowledge_by.get_or_insert(now + RECEIVED_DELAY);
        Ok(None)
    }

    fn acknowledge(&mut self) -> u64 {
        self.acknowledged = self.received;
        self.acknowledge_by = None;
        self.received
    }

    /// Returns a ping before its time; `None` if the answer to another is pending.
    pub(super) fn ping_early(&mut self, now: Ms) -> Option<DueAction> {
        self.answer_by.is_none().then(|| self.ping(now))
    }

    fn ping(&mut self, now: Ms) -> DueAction {
        self.ping_at = now + PING_INTERVAL;
        self.answer_by = Some(now + PONG_TIMEOUT);
        DueAction::Ping
    }

    /// Returns when [`Connection::take_due`] returns the next action.
    pub(super) fn deadline(&self) -> Ms {
        let keep_alive = self.answer_by.unwrap_or(self.ping_at);
        self.acknowledge_by.map_or(keep_alive, |at| at.min(keep_alive))
    }

    /// Takes the next action that is due at `now`; `None` if there is none.
    pub(super) fn take_due(&mut self, now: Ms) -> Option<DueAction> {
        if self.acknowledge_by.is_some_and(|acknowledge_by| acknowledge_by <= now) {
            return Some(DueAction::Acknowledge(self.acknowledge()));
        }
        match self.answer_by {
            Some(by) if now >= by + PAUSE_TOLERANCE => Some(self.ping(now)),
            Some(by) if now >= by => Some(DueAction::Silent),
            None if now >= self.ping_at => Some(self.ping(now)),
            _ => None,
        }
    }
}

/// Error of a message that is not the next one.
#[derive(Debug)]
pub(super) struct Gap;
