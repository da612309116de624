//! The times and bounds of custody: each is a setting with its reason, so that a simulation can
//! break one at a time.

use std::num::NonZeroUsize;
use std::time::Duration;

use signaling_protocol::limits;

/// By what numbers a node keeps messages safe. The defaults are what a mesh runs with: they hang
/// together, and other ones are for simulations and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// After this long without an outcome all that one session sent to one recipient is sent again:
    /// longer than any network that is not cut takes, short enough that nobody takes a call for
    /// lost.
    pub repeat_after: Duration,
    /// The same once the destination has said that it holds them: it would have to lose them
    /// unseen.
    pub repeat_held_after: Duration,
    /// Repeats that are asked for come no closer than this: at most ten a second, however many are
    /// asked for.
    pub repeat_at_most_every: Duration,
    /// Once a message's time is over, so long may an outcome still come from one of several
    /// destinations: a repeat as a question, and its answer.
    pub late_outcome_grace: Duration,
    /// How long the edge of an id's former session has to say what it wrote, before that goes down
    /// the newer one: until the edge is suspect, if it is silent.
    pub final_confirm_timeout: Duration,
    /// After this silence edges ping a client, which is told so.
    pub heartbeat: Duration,
    /// How long the open socket of an id has to answer before a newcomer gets the id.
    pub takeover_answer: Duration,
    /// Most messages of one session that may wait for one absent recipient: a call set-up with all
    /// its candidates.
    pub max_for_absent: usize,
    /// Copies that a stand-in of a suspect owner sends round by other candidates, for each message
    /// that it holds: one finds the way if there is one, and those who get it send one of their
    /// own.
    pub detours: usize,
    /// How long it is remembered where a client is, unless that is said again: three times of that.
    pub located_for: Duration,
    /// How often it is said again.
    pub located_every: Duration,
    /// After this silence a peer is pinged.
    pub ping_after: Duration,
    /// After this silence a peer is suspect, and others stand in for it.
    pub suspect_after: Duration,
    /// Ordered ways to each peer, each with one request under way at most. What one thread has to
    /// say does not fill one; two make nearly twice as many requests of it. Simulations mostly have
    /// two: in one lane nothing overtakes anything.
    pub lanes: NonZeroUsize,
    /// Most sessions that linger; past that the next one cannot be resumed. At most 51 MB.
    pub max_lingering: usize,
    /// A resumed session numbers on from so far above what is known of it that nothing its old edge
    /// may still have is met: twice what an edge's store spans.
    pub numbers_ahead: u64,
    /// Most messages that are down at an edge without a confirm: more than the edge lets wait for
    /// one socket.
    pub max_unconfirmed: usize,
    /// The same in bytes of payload: with one message more, and what else a client is told, still
    /// less than makes the edge take a client for too slow. What is held for a client that comes at
    /// last is more than that.
    pub max_unconfirmed_bytes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            repeat_after: Duration::from_secs(2),
            repeat_held_after: Duration::from_secs(5),
            repeat_at_most_every: Duration::from_millis(100),
            late_outcome_grace: Duration::from_secs(3),
            final_confirm_timeout: Duration::from_secs(2),
            heartbeat: limits::HEARTBEAT,
            takeover_answer: limits::TAKEOVER_ANSWER,
            max_for_absent: 64,
            detours: 1,
            located_for: Duration::from_secs(30),
            located_every: Duration::from_secs(10),
            ping_after: signaling_wire::limits::PING_AFTER,
            suspect_after: signaling_wire::limits::SUSPECT_AFTER,
            lanes: NonZeroUsize::MIN,
            max_lingering: 100_000,
            numbers_ahead: 128 * 1024,
            max_unconfirmed: 1024,
            max_unconfirmed_bytes: 128 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::edge::{FilterLimits, StoreLimits};

    use super::super::hold::{HoldLimits, OVERHEAD};
    use super::Rules;

    const PROTOCOL: &str = include_str!("../../../protocol/PROTOCOL.md");

    #[test]
    fn protocol_text_states_the_bounds_of_its_promises() {
        let (_, section) = PROTOCOL.split_once("### What bounds the promises").unwrap();
        let (section, _) = section.split_once("\n### ").unwrap();
        let (hold, store, filter) = (HoldLimits::default(), StoreLimits::default(), FilterLimits::default());
        let Rules { max_for_absent, max_lingering, repeat_held_after, .. } = Rules::default();
        let thousands = |number: usize| format!("{},{:03}", number / 1_000, number % 1_000);
        let expected = [
            format!("{max_for_absent} messages of one sender's session"),
            format!("{} MiB for one absent recipient", hold.bytes_per_recipient >> 20),
            format!("{} MiB on one node", hold.bytes >> 20),
            format!("{OVERHEAD} bytes more"),
            format!("every {} s", repeat_held_after.as_secs()),
            format!("{} such sessions", thousands(max_lingering)),
            format!("{} messages or {} KiB of one session", store.frames, store.bytes >> 10),
            format!("{} MiB for the sessions that have sent to it", filter.bytes >> 20),
            format!("hold time and {} s", filter.afterlife.as_secs()),
        ];
        for bound in expected {
            assert!(section.contains(&bound), "PROTOCOL.md does not state: {bound}");
        }
    }
}
