//! The log of one run.

use crate::agenda::{Micros, SECOND};

/// Lines of the log. Disabled logs cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) now: Micros,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { now: 0, lines: wanted.then(Vec::new) }
    }

    pub(crate) fn line(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>3}.{:06} {}", self.now / SECOND, self.now % SECOND, text()));
        }
    }

    pub(crate) fn take(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
