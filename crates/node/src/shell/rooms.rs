//! Sends the core's requests to the room store and returns the answers. Client requests and seat
//! refreshes use separate tasks, so that neither delays the other. If nodes own the rooms, the core
//! sends its requests in lanes, and only those of operators pass here.

use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_metrics::Publish;
use signaling_rooms::{OpResult, RedisStore, Request, StoreError};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::Node;
use super::metrics::METRICS;
use signaling_core::node::{NodeCore, RoomTask, Urgency};

/// Sender of the answer to a room request of an operator.
pub(super) type OperatorReply = oneshot::Sender<Result<OpResult, StoreError>>;

/// Maximum room requests of operators without an answer.
const MAX_OPERATOR_REQUESTS: usize = 64;
/// Interval of heartbeats, so that an idle node also detects a store that does not accept writes.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Executes the core's requests of one urgency, batch by batch. Logs when the store fails and when
/// it is back. Never returns.
pub async fn run_room_tasks(node: Node, store: RedisStore, urgency: Urgency) {
    let signal = Rc::clone(&node.0.borrow().store_signals[urgency as usize]);
    let mut down_since = None;
    loop {
        signal.wait().await;
        let tasks = node.with_core(|core| core.take_room_tasks(urgency));
        if tasks.is_empty() {
            continue;
        }
        let started = Instant::now();
        let answers = store.apply(tasks.iter().map(|task| task.request().clone()).collect()).await;
        METRICS.store.observe(started.elapsed());
        METRICS.store_up.set(answers.iter().all(Result::is_ok).into());
        report(&mut down_since, &answers);
        node.with_core(|core| answer(core, tasks, answers));
    }
}

/// Sends a heartbeat to the store every 5 s, and publishes whether it succeeded. Never returns.
pub async fn watch_store(store: RedisStore) {
    let mut ticks = interval(HEARTBEAT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let written = store.write_heartbeat().await;
        METRICS.store_up.set(written.is_ok().into());
        METRICS.store_connections_lost.publish(store.lost_connections());
        if let Err(error) = written {
            debug!(%error, "heartbeat not written to the room store");
        }
    }
}

fn answer(core: &mut NodeCore, tasks: Vec<RoomTask>, answers: Vec<Result<OpResult, StoreError>>) {
    let now = Instant::now();
    for (task, answer) in tasks.into_iter().zip(answers) {
        core.room_answered(now, task, answer);
    }
}

/// Logs once when the store becomes unavailable, and once when it is back.
fn report(down_since: &mut Option<Instant>, answers: &[Result<OpResult, StoreError>]) {
    match (answers.iter().find_map(|answer| answer.as_ref().err()), &*down_since) {
        (Some(error), None) => {
            warn!(%error, "room store unavailable, members stay and signals flow");
            *down_since = Some(Instant::now());
        }
        (None, Some(since)) => {
            info!(after = ?since.elapsed(), "room store available again");
            *down_since = None;
        }
        _ => {}
    }
}

impl Node {
    /// Queues a room request of an operator. `reply` gets the answer once the core has it, or an
    /// error at once while 64 requests have none.
    pub(super) fn request_room(&self, request: Request, reply: OperatorReply) {
        let number = {
            let mut state = self.0.borrow_mut();
            if state.operator_replies.len() >= MAX_OPERATOR_REQUESTS {
                let _ = reply.send(Err(StoreError("too many requests of operators".into())));
                return;
            }
            state.last_operator_request += 1;
            let number = state.last_operator_request;
            state.operator_replies.insert(number, reply);
            number
        };
        self.with_core(|core| core.request_for_operator(number, request));
    }
}
