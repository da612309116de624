//! The log of one run, to which all modules add lines.

use std::fmt;

use crate::agenda::{Micros, SECOND};

/// The log of one run, with its present time.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) now: Micros,
    /// `None` disables the log.
    pub(crate) lines: Option<Vec<String>>,
}

impl Trace {
    /// Adds a line with the present time, if the log is on.
    pub(crate) fn line(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>3}.{:06} {}", self.now / SECOND, self.now % SECOND, text()));
        }
    }
}

/// Returns the frames or items in `bytes` as text, with only the front of each byte string. `take`
/// reads one; `DAMAGED` ends the text if it fails.
pub(crate) fn describe<'a, F: fmt::Debug, E>(
    mut bytes: &'a [u8],
    take: impl Fn(&mut &'a [u8]) -> Result<F, E>,
) -> String {
    let mut text = String::new();
    while !bytes.is_empty() {
        let Ok(frame) = take(&mut bytes) else { return text + "DAMAGED" };
        for part in format!("{frame:?}").split_inclusive(']') {
            let (before, list) = part.rsplit_once('[').unwrap_or((part, ""));
            let bytes = list.trim_end_matches(']').split(", ").map(|number| number.parse().ok());
            match bytes.collect::<Option<Vec<u8>>>() {
                Some(bytes) => text.extend([before, &front(&bytes)]),
                None => text.push_str(part),
            }
        }
        text.push_str("; ");
    }
    text
}

/// Returns the first 48 characters of a text without `"`, which identify the message.
pub(crate) fn front(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(48).filter(|character| *character != '"').collect()
}
