//! State of one welcomed socket: keep-alive, and message numbers.

use super::Ms;
use crate::rules::{ANSWER_WITHIN, MOST_UNSAID, OVERSLEPT, PING_EVERY, SAY_WITHIN, SETTLED};

/// An action that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Send a ping.
    Ping,
    /// Send `received` with this number.
    Say(u64),
    /// Give the socket up.
    Dead,
}

#[derive(Debug)]
pub(super) struct Connection {
    welcomed: Ms,
    ping_at: Ms,
    answer_by: Option<Ms>,
    /// Latest message number received, and latest number acknowledged.
    n: u64,
    said: u64,
    say_by: Option<Ms>,
}

impl Connection {
    pub(super) fn new(now: Ms) -> Self {
        Self { welcomed: now, ping_at: now + PING_EVERY, answer_by: None, n: 0, said: 0, say_by: None }
    }

    pub(super) fn has_settled(&self, now: Ms) -> bool {
        now.saturating_sub(self.welcomed) >= SETTLED
    }

    /// Clears a pending ping: input arrived, or reading has stopped.
    pub(super) fn lives(&mut self) {
        self.answer_by = None;
    }

    /// Counts a message. Returns the number to acknowledge at once, if any, or an error after a
    /// gap.
    pub(super) fn receive(&mut self, now: Ms, n: u64) -> Result<Option<u64>, Gap> {
        if n != self.n + 1 {
            return Err(Gap);
        }
        self.n = n;
        if self.n - self.said >= MOST_UNSAID {
            return Ok(Some(self.say()));
        }
        self.say_by.get_or_insert(now + SAY_WITHIN);
        Ok(None)
    }

    fn say(&mut self) -> u64 {
        self.said = self.n;
        self.say_by = None;
        self.n
    }

    /// Sends an early ping, unless an answer is pending.
    pub(super) fn ask(&mut self, now: Ms) -> Option<Due> {
        self.answer_by.is_none().then(|| self.ping(now))
    }

    fn ping(&mut self, now: Ms) -> Due {
        self.ping_at = now + PING_EVERY;
        self.answer_by = Some(now + ANSWER_WITHIN);
        Due::Ping
    }

    pub(super) fn deadline(&self) -> Ms {
        let sign = self.answer_by.unwrap_or(self.ping_at);
        self.say_by.map_or(sign, |say_by| say_by.min(sign))
    }

    /// Returns the next due action. Call it until `None`.
    pub(super) fn due(&mut self, now: Ms) -> Option<Due> {
        if self.say_by.is_some_and(|say_by| say_by <= now) {
            return Some(Due::Say(self.say()));
        }
        match self.answer_by {
            Some(by) if now >= by + OVERSLEPT => Some(self.ping(now)),
            Some(by) if now >= by => Some(Due::Dead),
            None if now >= self.ping_at => Some(self.ping(now)),
            _ => None,
        }
    }
}

/// An earlier message is missing.
#[derive(Debug)]
pub(super) struct Gap;
