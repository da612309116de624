//! Times and limits of custody, as settings: a simulation can break one at a time. The
//! modules of the node read them from its settings.

use std::time::Duration;

use signaling_protocol::limits;

use super::IDLE_SWEEP_INTERVAL;

/// Times and limits of custody. The defaults depend on each other; others are for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Time without an outcome of a queue's oldest message after which the whole queue is
    /// retransmitted. Any working network is faster, and clients wait longer.
    pub retransmit_after: Duration,
    /// As `retransmit_after`, if the destination reported that it holds the messages, or lacks room
    /// for them. It covers a loss there.
    pub retransmit_held_after: Duration,
    /// Minimum interval of requested retransmissions of a queue, and of tries to retransmit into a
    /// stalled lane.
    pub min_retransmit_interval: Duration,
    /// Time after a message's deadline until its sender's node gives it up without an outcome. It
    /// suffices for one retransmission and its answer.
    pub late_outcome_grace: Duration,
    /// Time for the edge of a superseded session to confirm. Then its unconfirmed messages go to
    /// the client's next session. A silent edge is suspect by then.
    pub final_confirm_timeout: Duration,
    /// Silence after which edges ping a client, as `welcome` states it. Edges have a setting too.
    pub heartbeat: Duration,
    /// Time in which the socket of a contended id has to answer, or else the newcomer gets the id.
    pub takeover_answer: Duration,
    /// Maximum pending messages of a session to one recipient once they are reported as held: a
    /// call set-up with candidates. A further one is `recipient_unavailable`, unless another node
    /// may have had it.
    pub max_for_absent: usize,
    /// Maximum copies of each held message that a stand-in sends to other candidates. One copy
    /// suffices, since candidates send copies too. 0: no detours.
    pub detours: usize,
    /// Lifetime of a location: three times `located_every`.
    pub located_for: Duration,
    /// Interval after which owners receive the locations of clients again.
    pub located_every: Duration,
    /// Silence after which a peer of the view is suspect, and other nodes stand in for it.
    pub suspect_after: Duration,
    /// Longest regular interval of sweeps. In the rest of a longer one this process was paused: it
    /// is no silence of peers, whose answers may be unread.
    pub max_sweep_interval: Duration,
    /// Time in which a peer that left the view is remembered: its incarnation, and the last batch
    /// and exchange of its lane to here.
    pub peer_memory: Duration,
    /// Lingering sessions of a node at which no further one lingers, except one that a peer
    /// requests for a resume. The default takes 51 MB. 0: only requested ones linger.
    pub max_lingering: usize,
    /// Minimum distance of a resumed session's numbers from the last known one. It is twice the
    /// span of an edge's retransmit buffer, so that the numbers never overlap.
    pub numbers_ahead: u64,
    /// Maximum unconfirmed messages at an edge for one session. Further ones wait in the hold.
    pub max_unconfirmed: usize,
    /// Unconfirmed payload bytes at an edge for one session at which further messages wait in the
    /// hold. With one more message and other output, the edge stays below its slow-client limit.
    pub max_unconfirmed_bytes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            retransmit_after: Duration::from_secs(2),
            retransmit_held_after: Duration::from_secs(5),
            min_retransmit_interval: Duration::from_millis(100),
            late_outcome_grace: Duration::from_secs(3),
            final_confirm_timeout: Duration::from_secs(2),
            heartbeat: limits::HEARTBEAT,
            takeover_answer: limits::TAKEOVER_ANSWER,
            max_for_absent: 64,
            detours: 1,
            located_for: Duration::from_secs(30),
            located_every: Duration::from_secs(10),
            suspect_after: signaling_wire::limits::SUSPECT_AFTER,
            max_sweep_interval: 2 * IDLE_SWEEP_INTERVAL,
            peer_memory: Duration::from_secs(60),
            max_lingering: 100_000,
            numbers_ahead: 128 * 1024,
            max_unconfirmed: 1024,
            max_unconfirmed_bytes: 128 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::edge::{DedupLimits, RetransmitLimits};

    use super::super::hold::HoldLimits;
    use super::super::outbound::OVERHEAD;
    use super::Rules;

    const PROTOCOL: &str = include_str!("../../../protocol/PROTOCOL.md");

    #[test]
    fn protocol_text_states_the_bounds_of_its_promises() {
        let (_, section) = PROTOCOL.split_once("### What bounds the promises").unwrap();
        let (section, _) = section.split_once("\n### ").unwrap();
        let (hold, store, filter) = (HoldLimits::default(), RetransmitLimits::default(), DedupLimits::default());
        let Rules { max_for_absent, max_lingering, retransmit_held_after, .. } = Rules::default();
        let thousands = |number: usize| format!("{},{:03}", number / 1_000, number % 1_000);
        let expected = [
            format!("{max_for_absent} messages of one sender's session"),
            format!("{} MiB for one absent recipient", hold.bytes_per_recipient >> 20),
            format!("{} MiB on one node", hold.bytes >> 20),
            format!("{OVERHEAD} bytes more"),
            format!("every {} s", retransmit_held_after.as_secs()),
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
