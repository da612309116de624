//! The log of one run and its digest, to which all modules add lines.

use std::fmt;
use std::hash::Hasher as _;

use twox_hash::XxHash3_64;

use crate::agenda::{Micros, SECOND};

/// The log of one run, with its present time.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) now: Micros,
    /// Hash of all lines, each with a line feed. `None` disables the log.
    digest: Option<XxHash3_64>,
    /// `None` keeps the digest only.
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Creates a log that keeps its lines.
    pub(crate) fn kept() -> Self {
        Self { lines: Some(Vec::new()), ..Self::digested() }
    }

    /// Creates a log that keeps its digest only.
    pub(crate) fn digested() -> Self {
        Self { digest: Some(XxHash3_64::new()), ..Self::default() }
    }

    /// Adds a line with the present time, if the log is on.
    pub(crate) fn line(&mut self, text: impl FnOnce() -> String) {
        if let Some(digest) = &mut self.digest {
            let line = format!("{:>3}.{:06} {}", self.now / SECOND, self.now % SECOND, text());
            digest.write(line.as_bytes());
            digest.write(b"\n");
            if let Some(lines) = &mut self.lines {
                lines.push(line);
            }
        }
    }

    /// Adds a line about sent bytes, with the hash of all: the text may show only their front.
    pub(crate) fn sent(&mut self, bytes: &[u8], text: impl FnOnce() -> String) {
        self.line(|| format!("{} #{:016x}", text().trim_end(), XxHash3_64::oneshot(bytes)));
    }

    /// Returns the lines, if they were kept, and the digest of a log that is on.
    pub(crate) fn finish(self) -> (Vec<String>, Option<u64>) {
        (self.lines.unwrap_or_default(), self.digest.map(|digest| digest.finish()))
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
    String::from_utf8_lossy(text).chars().filter(|character| *character != '"').take(48).collect()
}
