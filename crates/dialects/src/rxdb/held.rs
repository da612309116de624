//! Signals of clients that no `joined` has listed. Older clients fail on them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::peer_id::PeerId;

/// Maximum signals of one sender.
const MAX_OF_PEER: usize = 64;
/// Maximum signals of all senders.
const MAX_HELD: usize = 256;
/// Maximum bytes of all signals.
const MAX_HELD_BYTES: usize = 1024 * 1024;
/// Time after which a signal is dropped.
const HOLD: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Held {
    room: String,
    from: PeerId,
    frame: String,
    until: Instant,
}

/// Held signals in order of arrival.
#[derive(Debug, Default)]
pub(super) struct HeldSignals {
    queue: VecDeque<Held>,
    bytes: usize,
}

impl HeldSignals {
    /// Holds a signal. Fails if there is no room for it.
    pub(super) fn hold(&mut self, now: Instant, room: &str, from: PeerId, frame: &str) -> bool {
        let of_peer = self.queue.iter().filter(|held| held.from == from).count();
        if self.queue.len() >= MAX_HELD || of_peer >= MAX_OF_PEER || self.bytes + frame.len() > MAX_HELD_BYTES {
            return false;
        }
        self.bytes += frame.len();
        self.queue.push_back(Held { room: room.to_owned(), from, frame: frame.to_owned(), until: now + HOLD });
        true
    }

    /// Appends the signals of listed members of a room to `frames`.
    pub(super) fn release(&mut self, room: &str, listed: &[PeerId], frames: &mut Vec<String>) {
        for held in std::mem::take(&mut self.queue) {
            if held.room == room && listed.contains(&held.from) {
                self.bytes -= held.frame.len();
                frames.push(held.frame);
            } else {
                self.queue.push_back(held);
            }
        }
    }

    /// Drops signals that were held for 5 s. Returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> usize {
        let expired = self.queue.iter().take_while(|held| held.until <= now).count();
        for held in self.queue.drain(..expired) {
            self.bytes -= held.frame.len();
        }
        expired
    }

    /// Returns the time of the next [`HeldSignals::expire`]. `None`: no signal is held.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.queue.front().map(|held| held.until)
    }

    /// Returns the approximate size of all signals, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.queue.len() * (size_of::<Held>() + 128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> PeerId {
        PeerId::random(&[n; 32])
    }

    #[test]
    fn signals_are_bounded_by_sender_number_and_bytes() {
        let now = Instant::now();
        let holds = |senders: u8, frame: &str| {
            let mut held = HeldSignals::default();
            let held_of = |sender| (0..100).filter(|_| held.hold(now, "r", id(sender), frame)).count();
            (0..senders).map(held_of).sum::<usize>()
        };
        assert_eq!((holds(1, "x"), holds(10, "x"), holds(10, &"x".repeat(65_536))), (64, 256, 16));
    }

    #[test]
    fn signals_are_released_in_order_or_dropped_after_5_seconds() {
        let (mut held, now) = (HeldSignals::default(), Instant::now());
        for (room, from, frame) in [("r", 1, "a"), ("r", 2, "b"), ("s", 1, "c"), ("r", 1, "d")] {
            assert!(held.hold(now, room, id(from), frame));
        }
        let mut frames = Vec::new();
        held.release("r", &[id(1)], &mut frames);
        assert_eq!((frames, held.bytes), (vec!["a".to_owned(), "d".to_owned()], 2));
        assert_eq!((held.deadline(), held.expire(now)), (Some(now + HOLD), 0));
        assert_eq!((held.expire(now + HOLD), held.bytes, held.deadline()), (2, 0, None));
    }
}
