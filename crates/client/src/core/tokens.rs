//! The token that the client shows, and when to ask for another.

use super::Ms;
use crate::options::Token;
use crate::rules::{RENEW_BEFORE, TOKEN_WITHIN};

#[derive(Debug, Default)]
pub(super) struct Tokens {
    has_source: bool,
    current: Option<Current>,
    /// A renewal is under way until then.
    renewing_until: Option<Ms>,
}

#[derive(Debug)]
struct Current {
    text: String,
    renew_at: Option<Ms>,
    /// Tries that have shown it.
    shown: u32,
}

impl Tokens {
    pub(super) fn new(has_source: bool) -> Self {
        Self { has_source, ..Self::default() }
    }

    pub(super) fn put(&mut self, now: Ms, token: Token) {
        self.renewing_until = None;
        let renew_at = token.valid_for.map(|valid| {
            let valid = u64::try_from(valid.as_millis()).unwrap_or(u64::MAX);
            now.saturating_add(valid - RENEW_BEFORE.min(valid / 10))
        });
        self.current = Some(Current { text: token.text, renew_at, shown: 0 });
    }

    /// Whether the next try has to wait for a token.
    pub(super) fn is_missing(&mut self, now: Ms) -> bool {
        if self.renew_at().is_some_and(|at| at <= now) {
            self.current = None;
        }
        self.has_source && self.current.is_none()
    }

    /// For a try.
    pub(super) fn show(&mut self) -> Option<String> {
        self.current.as_mut().map(|current| {
            current.shown = current.shown.saturating_add(1);
            current.text.clone()
        })
    }

    /// The server does not take it. Whether another may do better: one that was made for this very try was as good as any.
    pub(super) fn replace(&mut self, was_welcome: bool) -> bool {
        let may_help =
            self.has_source && (was_welcome || self.current.as_ref().is_some_and(|current| current.shown > 1));
        self.current = None;
        may_help
    }

    fn renew_at(&self) -> Option<Ms> {
        self.current.as_ref()?.renew_at
    }

    /// When an open connection needs the next one.
    pub(super) fn deadline(&self) -> Option<Ms> {
        self.renewing_until.or_else(|| self.renew_at())
    }

    /// Whether it is time to ask for it.
    pub(super) fn renew(&mut self, now: Ms) -> bool {
        let is_due = self.has_source && self.deadline().is_some_and(|at| at <= now);
        if is_due {
            self.renewing_until = Some(now + TOKEN_WITHIN);
        }
        is_due
    }

    /// For an open connection.
    pub(super) fn text(&self) -> Option<&str> {
        self.current.as_ref().map(|current| current.text.as_str())
    }
}
