//! The log of one run.

use crate::agenda::{Micros, SECOND};

/// Lines of the log. Disabled logs cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { lines: wanted.then(Vec::new) }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.lines.is_some()
    }

    pub(crate) fn line(&mut self, now: Micros, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>3}.{:06} {}", now / SECOND, now % SECOND, text()));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
