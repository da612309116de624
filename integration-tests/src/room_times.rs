//! Short times of rooms, so that tests can wait for their bounds.

use std::time::Duration;

use crate::TestMesh;

/// Time flags of nodes.
#[derive(Clone, Copy, Debug)]
pub struct RoomTimes {
    /// Interval of presence refreshes.
    pub presence: Duration,
    /// Time that a seat is kept after its client's socket was lost.
    pub grace: Duration,
    /// Time that a session without a socket is kept.
    pub resume: Duration,
}

impl RoomTimes {
    pub const SHORT: Self =
        Self { presence: Duration::from_secs(1), grace: Duration::from_secs(2), resume: Duration::from_secs(2) };

    /// Returns the times as flags of a node.
    pub fn flags(&self) -> Vec<String> {
        let flag = |name: &str, time: Duration| format!("--{name}-ms={}", time.as_millis());
        vec![flag("presence-refresh", self.presence), flag("seat-grace", self.grace), flag("resume", self.resume)]
    }

    /// Returns the maximum lifetime of an entry without refreshes. The entry may miss one refresh
    /// and be late for the next. The refresh after that removes it.
    pub fn stale(&self) -> Duration {
        self.presence * 2 + self.presence / 4 + self.presence
    }
}

/// Returns the bound that a node printed at its start: the seat of a client whose balancer crashed
/// is free by then.
pub fn printed_bound(mesh: &TestMesh, node: &str) -> Duration {
    let log = mesh.log(node);
    let (_, bound) = log.split_once("is out of rooms after ").expect("a node prints the bound at start");
    let (seconds, _) = bound.split_once("s at the latest").expect("in seconds");
    Duration::from_secs_f64(seconds.parse().unwrap())
}
