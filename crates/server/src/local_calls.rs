//! Calls to state on the server's own thread, from handlers on any thread. Operators' handlers use
//! it, since their futures must be `Send` and the state is not.

use tokio::sync::{mpsc, oneshot};

const MAX_QUEUED_CALLS: usize = 64;

type Call<T> = Box<dyn FnOnce(&T) + Send>;

/// Sender of calls to state `T`. Clones share the receiver. It is `Send`, also if `T` is not.
pub struct LocalCaller<T>(mpsc::Sender<Call<T>>);

/// Receiver of calls to state `T`, on the thread of that state.
pub struct LocalCalls<T>(mpsc::Receiver<Call<T>>);

/// Error of a call: the receiver was dropped, because the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this server stops")]
pub struct Stopped;

/// Creates a connected sender and receiver of calls.
pub fn local_calls<T>() -> (LocalCaller<T>, LocalCalls<T>) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CALLS);
    (LocalCaller(sender), LocalCalls(receiver))
}

impl<T> Clone for LocalCaller<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: 'static> LocalCaller<T> {
    /// Runs `ask` on the state's thread and returns its result. Waits while 64 calls are queued,
    /// and until [`LocalCalls::answer`] runs. `ask` must be short: it blocks that thread.
    ///
    /// # Errors
    /// If the receiver is dropped first. `ask` may have run.
    pub async fn ask<R: Send + 'static>(&self, ask: impl FnOnce(&T) -> R + Send + 'static) -> Result<R, Stopped> {
        let (reply, answer) = oneshot::channel();
        // The caller may have been dropped.
        let call: Call<T> = Box::new(move |state| drop(reply.send(ask(state))));
        self.0.send(call).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}

impl<T> LocalCalls<T> {
    /// Runs calls on `state` in order, until all senders are dropped.
    pub async fn answer(mut self, state: T) {
        while let Some(call) = self.0.recv().await {
            call(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[tokio::test]
    async fn local_calls_from_other_threads_work_until_it_stops() {
        let (caller, calls) = local_calls::<Rc<Cell<u32>>>();
        let calling = tokio::spawn({
            let caller = caller.clone();
            async move { caller.ask(|count| count.replace(2)).await }
        });
        let count = Rc::new(Cell::new(1));
        tokio::select! {
            () = calls.answer(Rc::clone(&count)) => {}
            answer = calling => assert!(matches!(answer, Ok(Ok(1)))),
        }
        assert_eq!(count.get(), 2);
        assert_eq!(caller.ask(|count| count.get()).await, Err(Stopped));
    }
}
