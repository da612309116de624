//! Output queued for one client's socket: bytes to write, and how long the socket has not taken
//! them. The modules of the edge's core append it, and `sweep` checks the times.

use std::time::{Duration, Instant};

use crate::ws::encode;

/// Maximum capacity of a pooled buffer. Larger ones are freed.
const POOLED_BYTES: usize = 16 * 1024;
/// Maximum pooled buffers. It matches the usual number of clients written in one turn.
const POOLED_BUFFERS: usize = 256;

/// Empty buffers for the next output, so that an idle client holds none.
#[derive(Debug, Default)]
pub(super) struct Pool(Vec<Vec<u8>>);

/// Output of a client in bytes. Offsets count from the first byte ever queued.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    written_of_bytes: usize,
    written: u64,
    blocked_since: Option<Instant>,
    /// A time, and the end of the output then, which is not written yet. `None`: nothing is late.
    behind: Option<(Instant, u64)>,
}

impl Output {
    /// Appends the bytes that `write` adds to its argument. Empty output takes its buffer from
    /// `pool`.
    pub(super) fn append(&mut self, pool: &mut Pool, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.0.pop().unwrap_or_default();
        }
        write(&mut self.bytes);
    }

    /// Returns the unwritten bytes.
    pub(super) fn pending(&self) -> &[u8] {
        self.bytes.get(self.written_of_bytes..).unwrap_or_default()
    }

    /// Returns the allocated bytes, which may exceed the unwritten ones.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the offset after the last queued byte.
    pub(super) fn end(&self) -> u64 {
        self.written + self.pending().len() as u64
    }

    /// Returns the offset up to which the socket took all bytes.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Records that the socket took `count` of the pending bytes. 0: it took none. Returns the
    /// buffer to `pool` if no byte is left.
    pub(super) fn wrote(&mut self, now: Instant, count: usize, pool: &mut Pool) {
        self.written += count as u64;
        self.written_of_bytes += count;
        if self.pending().is_empty() {
            self.release(pool);
        } else {
            if self.behind.is_none_or(|(_, end)| self.written >= end) {
                self.behind = Some((now, self.end()));
            }
            if count > 0 || self.blocked_since.is_none() {
                self.blocked_since = Some(now);
            }
        }
    }

    /// Restarts the time limits after a process pause.
    pub(super) fn on_process_pause(&mut self, now: Instant) {
        self.blocked_since = self.blocked_since.map(|_| now);
        self.behind = self.behind.map(|(_, end)| (now, end));
    }

    /// Returns `true` if bytes that were queued at least `limit` ago are still unwritten. Later
    /// bytes do not count, since a busy client always has some.
    pub(super) fn lags(&self, now: Instant, limit: Duration) -> bool {
        self.behind.is_some_and(|(since, _)| now.saturating_duration_since(since) >= limit)
    }

    /// Returns `true` if output is pending and the socket has taken none of it for `limit`.
    pub(super) fn is_stuck(&self, now: Instant, limit: Duration) -> bool {
        self.blocked_since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    /// Takes all output: the rest of the partly written frame, and the frames after it. Omits a
    /// frame that is not begun if `drop` returns `true` for its end offset.
    pub(super) fn take(&mut self, drop: impl Fn(u64) -> bool) -> Vec<u8> {
        let Self { bytes, written_of_bytes, written, .. } = std::mem::take(self);
        let mut rest = Vec::new();
        let mut at = 0;
        while let Some(frame) = bytes.get(at..).and_then(encode::frame_len) {
            let end = at + frame;
            let begun = at < written_of_bytes;
            if begun || !drop(written + (end - written_of_bytes) as u64) {
                rest.extend_from_slice(bytes.get(at.max(written_of_bytes)..end).unwrap_or_default());
            }
            at = end;
        }
        rest
    }

    fn release(&mut self, pool: &mut Pool) {
        let mut bytes = std::mem::take(&mut self.bytes);
        self.written_of_bytes = 0;
        self.blocked_since = None;
        self.behind = None;
        if bytes.capacity() <= POOLED_BYTES && pool.0.len() < POOLED_BUFFERS {
            bytes.clear();
            pool.0.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_output_has_whole_frames_and_no_undelivered_messages() {
        let (mut pool, mut output, now) = (Pool::default(), Output::default(), Instant::now());
        let mut say = |output: &mut Output, text: &str| {
            output.append(&mut pool, |out| encode::text(out, text.as_bytes()));
            output.end()
        };
        say(&mut output, "gone");
        say(&mut output, "begun");
        let (message, _) = (say(&mut output, "message"), say(&mut output, "ack"));
        output.wrote(now, 6 + 3, &mut pool);
        assert_eq!(output.take(|end| end == message), [&b"egun"[..], &[0x81, 3], b"ack"].concat());
    }

    #[test]
    fn drained_output_gives_its_buffer_back() {
        let (mut pool, mut output, now) = (Pool::default(), Output::default(), Instant::now());
        output.append(&mut pool, |out| out.extend_from_slice(b"hello"));
        assert_eq!((output.pending(), output.end()), (&b"hello"[..], 5));
        output.wrote(now, 2, &mut pool);
        assert_eq!((output.pending(), output.written(), output.end()), (&b"llo"[..], 2, 5));
        assert!(output.is_stuck(now + Duration::from_secs(1), Duration::from_secs(1)));
        assert!(output.lags(now + Duration::from_secs(1), Duration::from_secs(1)), "a trickle is not enough");
        output.append(&mut pool, |out| out.extend_from_slice(b" there"));
        output.wrote(now + Duration::from_secs(1), 3, &mut pool);
        assert!(!output.lags(now + Duration::from_secs(1), Duration::from_secs(1)), "the late bytes are taken");
        assert!(output.lags(now + Duration::from_secs(2), Duration::from_secs(1)));
        output.wrote(now, 6, &mut pool);
        assert!(!output.lags(now + Duration::from_secs(9), Duration::from_secs(1)));
        assert_eq!((output.bytes.capacity(), pool.0.len()), (0, 1));
        assert!(!output.is_stuck(now + Duration::from_secs(9), Duration::from_secs(1)));
        output.append(&mut pool, |out| out.push(b'!'));
        assert_eq!(output.end(), 12);
        assert!(pool.0.is_empty());
    }
}
