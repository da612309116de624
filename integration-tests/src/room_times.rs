//! The times of rooms in tests: short, so that what they bound can be waited for.

use std::time::Duration;

use crate::TestMesh;

/// What nodes are told of time.
#[derive(Clone, Copy, Debug)]
pub struct RoomTimes {
    /// Between refreshes.
    pub presence: Duration,
    /// The seat of one who dropped out is kept.
    pub grace: Duration,
    /// The session of one whose socket is gone is kept.
    pub resume: Duration,
}

impl RoomTimes {
    pub const SHORT: Self =
        Self { presence: Duration::from_secs(1), grace: Duration::from_secs(2), resume: Duration::from_secs(2) };

    pub fn flags(&self) -> Vec<String> {
        let flag = |name: &str, time: Duration| format!("--{name}-ms={}", time.as_millis());
        vec![flag("presence", self.presence), flag("grace", self.grace), flag("resume", self.resume)]
    }

    /// An entry that nobody refreshes is gone by then: it may miss one refresh and be late for the next, and the next one after that
    /// removes it.
    pub fn stale(&self) -> Duration {
        self.presence * 2 + self.presence / 4 + self.presence
    }
}

/// Returns the bound that a node printed at its start: the seat of a client whose balancer died is free
/// by then.
pub fn printed_bound(mesh: &TestMesh, node: &str) -> Duration {
    let log = mesh.log(node);
    let (_, bound) = log.split_once("is out of rooms after ").expect("a node prints the bound at start");
    let (seconds, _) = bound.split_once("s at the latest").expect("in seconds");
    Duration::from_secs_f64(seconds.parse().unwrap())
}
