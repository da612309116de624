//! Sends the core's requests to the room store and returns the answers. Client requests and seat
//! refreshes use separate tasks, so that neither delays the other.

use std::rc::Rc;
use std::time::Instant;

use signaling_rooms::{OpResult, Request, Store, StoreError};
use signaling_server::FlushSignal;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::Node;
use super::metrics::METRICS;
use signaling_core::node::{NodeCore, RoomTask, Urgency};

/// A room request of an operator, with the sender for its answer once the core has applied it.
pub(super) type OperatorRoomRequest = (Request, oneshot::Sender<Result<OpResult, StoreError>>);

/// Maximum queued room requests of operators.
pub const MAX_OPERATOR_REQUESTS: usize = 64;

/// Executes the core's requests of one urgency, batch by batch. Never returns.
pub async fn run_room_tasks(node: Node, store: Store, urgency: Urgency) {
    let wake = node.store_wake(urgency);
    let mut down_since = None;
    loop {
        wake.wait().await;
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

/// Executes room requests of operators one by one. Returns when all senders are dropped.
pub async fn run_operator_requests(node: Node, store: Store, mut requests: mpsc::Receiver<OperatorRoomRequest>) {
    while let Some((request, reply)) = requests.recv().await {
        let mut answers = store.apply(vec![request.clone()]).await;
        let answer = answers.pop().unwrap_or_else(|| Err(StoreError("no answer".into())));
        if let Ok(result) = &answer {
            node.with_core(|core| core.room_was_changed(Instant::now(), &request.room, result.clone()));
        }
        let _ = reply.send(answer);
    }
}

impl Node {
    fn store_wake(&self, urgency: Urgency) -> Rc<FlushSignal> {
        let state = self.0.borrow();
        Rc::clone(match urgency {
            Urgency::Urgent => &state.urgent,
            Urgency::Background => &state.background,
        })
    }
}
