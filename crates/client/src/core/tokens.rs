//! The client's token, and the time of its renewal, for `Core`.

use super::Ms;
use crate::options::Token;
use crate::rules::{RENEW_BEFORE, TOKEN_TIMEOUT};

/// The current token, if any, and the renewal in progress.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    has_source: bool,
    current: Option<Current>,
    /// Time limit of the renewal in progress; `None` if there is none.
    renewing_until: Option<Ms>,
}

#[derive(Debug)]
struct Current {
    text: String,
    /// `None`: used until a server rejects it.
    renew_at: Option<Ms>,
    attempts: u32,
}

impl Tokens {
    pub(super) fn new(has_source: bool) -> Self {
        Self { has_source, ..Self::default() }
    }

    /// Stores a token from the callback.
    pub(super) fn set(&mut self, now: Ms, token: Token) {
        self.renewing_until = None;
        let renew_at = token.valid_for.map(|valid| {
            let valid = u64::try_from(valid.as_millis()).unwrap_or(u64::MAX);
            now.saturating_add(valid - RENEW_BEFORE.min(valid / 10))
        });
        self.current = Some(Current { text: token.text, renew_at, attempts: 0 });
    }

    /// Drops a token due for renewal. Returns `true` if an attempt needs one from the callback.
    pub(super) fn is_missing(&mut self, now: Ms) -> bool {
        if self.renew_at().is_some_and(|at| at <= now) {
            self.current = None;
        }
        self.has_source && self.current.is_none()
    }

    /// Returns the token for an attempt, if there is one, and counts the attempt.
    pub(super) fn for_attempt(&mut self) -> Option<String> {
        self.current.as_mut().map(|current| {
            current.attempts = current.attempts.saturating_add(1);
            current.text.clone()
        })
    }

    /// Drops a rejected token. Returns `true` if a new one may help: it may not if the token was
    /// made for this attempt. `was_welcome`: the server had accepted it.
    pub(super) fn reject(&mut self, was_welcome: bool) -> bool {
        let may_help =
            self.has_source && (was_welcome || self.current.as_ref().is_some_and(|current| current.attempts > 1));
        self.current = None;
        may_help
    }

    fn renew_at(&self) -> Option<Ms> {
        self.current.as_ref()?.renew_at
    }

    /// Returns when an open connection needs a new token, or retries the renewal; `None`: never.
    pub(super) fn deadline(&self) -> Option<Ms> {
        self.renewing_until.or_else(|| self.renew_at())
    }

    /// Returns `true` if a renewal is due at `now`, and starts its time limit.
    pub(super) fn start_due_renewal(&mut self, now: Ms) -> bool {
        let is_due = self.has_source && self.deadline().is_some_and(|at| at <= now);
        if is_due {
            self.renewing_until = Some(now + TOKEN_TIMEOUT);
        }
        is_due
    }
}
