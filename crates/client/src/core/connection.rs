//! State of one welcomed socket: keep-alive, and message numbers.

use super::Ms;
use crate::rules::{MAX_UNACKNOWLEDGED, PAUSE_TOLERANCE, PING_INTERVAL, PONG_TIMEOUT, RECEIVED_DELAY, STABLE_AFTER};

/// An action that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Send a ping.
    Ping,
    /// Send `received` with this number.
    Acknowledge(u64),
    /// Give the socket up.
    Silent,
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    welcomed: Ms,
    ping_at: Ms,
    /// Time limit of the answer to a ping.
    answer_by: Option<Ms>,
    /// Latest message number received, and latest number acknowledged.
    received: u64,
    acknowledged: u64,
    acknowledge_by: Option<Ms>,
}

impl Connection {
    pub(super) fn new(now: Ms) -> Self {
        Self { welcomed: now, ping_at: now + PING_INTERVAL, ..Self::default() }
    }

    pub(super) fn is_stable(&self, now: Ms) -> bool {
        now.saturating_sub(self.welcomed) >= STABLE_AFTER
    }

    /// Clears a pending ping: input arrived, or reading has stopped.
    pub(super) fn on_input(&mut self) {
        self.answer_by = None;
    }

    /// Counts a message. Returns the number to acknowledge at once, if any, or an error after a
    /// gap.
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

    /// Sends an early ping, unless an answer is pending.
    pub(super) fn ping_early(&mut self, now: Ms) -> Option<Due> {
        self.answer_by.is_none().then(|| self.ping(now))
    }

    fn ping(&mut self, now: Ms) -> Due {
        self.ping_at = now + PING_INTERVAL;
        self.answer_by = Some(now + PONG_TIMEOUT);
        Due::Ping
    }

    pub(super) fn deadline(&self) -> Ms {
        let keep_alive = self.answer_by.unwrap_or(self.ping_at);
        self.acknowledge_by.map_or(keep_alive, |at| at.min(keep_alive))
    }

    /// Returns the next due action. Call it until `None`.
    pub(super) fn due(&mut self, now: Ms) -> Option<Due> {
        if self.acknowledge_by.is_some_and(|acknowledge_by| acknowledge_by <= now) {
            return Some(Due::Acknowledge(self.acknowledge()));
        }
        match self.answer_by {
            Some(by) if now >= by + PAUSE_TOLERANCE => Some(self.ping(now)),
            Some(by) if now >= by => Some(Due::Silent),
            None if now >= self.ping_at => Some(self.ping(now)),
            _ => None,
        }
    }
}

/// An earlier message is missing.
#[derive(Debug)]
pub(super) struct Gap;
