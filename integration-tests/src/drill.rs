//! A load on a mesh during a fault, and checks of the guarantees.
//!
//! | environment | meaning | default |
//! |---|---|---|
//! | `DRILL_SEED` | seed of sender pairs and of the moment of the fault | random, printed |
//! | `DRILL_CLIENTS` | plain WebSocket clients | 1,000 |
//! | `DRILL_RATE` | messages/s of all clients | 500 |
//! | `DRILL_SECONDS` | minimum time of the load, in seconds | 8 |
//! | `DRILL_KEEP` | if set, the mesh's folder with its logs is kept | |

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use signaling_load::drill::{Figures, Load, Record, Totals, under_load};
use signaling_server::process::raise_open_files;

use crate::TestMesh;

/// Two unoptimised meshes at once carry this load on two cores.
const CLIENTS: u32 = 1_000;
const RATE: u64 = 500;
const SECONDS: u64 = 8;
/// Minimum part of the schedule that is sent. A fault needs messages under way, not an exact rate.
const MIN_SENT: f64 = 0.9;

/// Result of a drill.
#[must_use = "a drill proves something only by assertions on its outcome"]
pub struct Outcome {
    name: &'static str,
    /// Counts and times of the load generator.
    pub figures: Figures,
}

/// Behavior of a drill's clients at the end of their sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Clients that keep one socket. [`Outcome::assert_nothing_lost`] fails if one ends.
    Staying,
    /// Clients that reconnect, resume, and retransmit messages without an ack.
    Reconnecting,
}

/// Puts the load of the environment on a mesh, calls `fault` at a drawn moment, and prints the
/// moment and the figures. `name` is for messages. Panics if the load cannot run.
pub async fn drill(
    name: &'static str,
    clients: Clients,
    mesh: &mut TestMesh,
    fault: impl AsyncFnOnce(&TestMesh),
) -> Outcome {
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let load = Load {
        clients: setting("DRILL_CLIENTS", CLIENTS),
        rate: setting("DRILL_RATE", RATE),
        seconds: setting("DRILL_SECONDS", SECONDS),
        seed: setting("DRILL_SEED", u64::from(drawn)),
        reconnect: clients == Clients::Reconnecting,
    };
    raise_open_files().unwrap();
    println!("{name}: DRILL_SEED={}, fault at {:?}", load.seed, load.fault_at());
    if std::env::var_os("DRILL_KEEP").is_some() {
        mesh.dir.disable_cleanup(true);
        println!("{name}: logs in {}", mesh.dir.path().join("logs").display());
    }
    let mesh = &*mesh;
    let figures = under_load(mesh.dir.path(), &load, fault(mesh)).await.unwrap();
    println!("{name}: {figures:?}");
    Outcome { name, figures }
}

impl Outcome {
    /// Asserts that no message was lost, duplicated or reordered, and that every requested answer
    /// was correct. Asserts also that the mesh closed no socket, and that each session is at
    /// exactly one node at the end.
    pub fn assert_nothing_lost(&self) -> &Self {
        let Figures { record, effect, .. } = &self.figures;
        let Record { messages, acks, foreign, errors, closed, .. } = record;
        let Totals { sent, delivered, lost, duplicated, reordered, .. } = *messages;
        let counts = [
            (lost, "messages lost"),
            (duplicated, "messages duplicated"),
            (reordered, "messages reordered"),
            (*foreign, "messages at the wrong client"),
            (*errors, "messages reported as failed"),
            (acks.unanswered, "messages that asked and got no answer"),
            (acks.untrue, "acks of messages that never arrived"),
            (closed.values().sum(), "sockets closed"),
            (sent.abs_diff(delivered + lost), "messages nowhere in the books"),
            (u64::from(effect.complete_us.is_none()), "mesh whose sessions are not each at one node in the end"),
        ];
        let broken: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        self.check(broken.is_empty(), &broken.join(", "))
            .check(record.sent_share() >= MIN_SENT, "too little of the schedule was sent: take a lower DRILL_RATE")
    }

    /// Asserts that the fault moved at least one session.
    pub fn assert_moved(&self) -> &Self {
        self.check(self.figures.effect.counts.moved() > 0, "the fault moved no session")
    }

    /// Asserts that the future of the fault took less than `limit`.
    pub fn assert_done_within(&self, limit: Duration) -> &Self {
        self.check(self.figures.fault < limit, &format!("the fault took more than {limit:?}"))
    }

    /// Asserts that messages bypassed the fault, and none was delayed until the end of a fault of
    /// this length.
    pub fn assert_no_message_waited(&self, fault: Duration) -> &Self {
        self.check(self.figures.longest < fault, &format!("a message took the {fault:?} of the fault"))
    }

    /// Asserts that clients were closed with `goodbye` and 1001, and that all of them came back and
    /// resumed their session.
    pub fn assert_resumed(&self) -> &Self {
        let Record { returns, received, .. } = &self.figures.record;
        let goodbyes = received.get("goodbye").copied().unwrap_or(0);
        self.check(returns.drained > 0, "the fault closed no client")
            .check(goodbyes == returns.drained, "a client was closed without a goodbye")
            .check(returns.returned == returns.drained, "a closed client did not come back")
            .check(returns.resumed == returns.returned, "a returned client did not resume its session")
    }

    /// Asserts that the fault affected messages: some were retransmitted, or dropped as duplicates.
    pub fn assert_repeated(&self) -> &Self {
        let counts = self.figures.effect.counts;
        self.check(counts.retransmissions + counts.duplicates_dropped > 0, "the fault hit no message")
    }

    fn check(&self, holds: bool, fault: &str) -> &Self {
        assert!(holds, "{}: {fault}; {:?}", self.name, self.figures);
        self
    }
}

/// Returns the number in an environment variable, or `default` if it is not set. Panics if it is
/// invalid.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number that fits"))
}
