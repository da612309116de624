//! Room requests of operators: queues them in the core and returns the answers.

use signaling_rooms::{OpResult, Request, Unavailable};
use tokio::sync::oneshot;

use crate::Node;

/// Sender of the answer to a room request of an operator.
pub(super) type OperatorReply = oneshot::Sender<Result<OpResult, Unavailable>>;

/// Maximum room requests of operators without an answer.
const MAX_OPERATOR_REQUESTS: usize = 64;

impl Node {
    /// Queues a room request of an operator. `reply` gets the answer once the core has it, or an
    /// error at once while 64 requests have none.
    pub(super) fn request_room(&self, request: Request, reply: OperatorReply) {
        let number = {
            let mut state = self.0.borrow_mut();
            if state.operator_replies.len() >= MAX_OPERATOR_REQUESTS {
                let _ = reply.send(Err(Unavailable("too many requests of operators".into())));
                return;
            }
            state.last_operator_request += 1;
            let number = state.last_operator_request;
            state.operator_replies.insert(number, reply);
            number
        };
        self.with_core(|core| core.rooms_mut().request_for_operator(number, request));
    }
}
