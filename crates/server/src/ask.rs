//! Questions to what lives on the server's own thread, from handlers that may run on any.

use tokio::sync::{mpsc, oneshot};

/// Most questions that wait for their turn.
const WAITING: usize = 64;

type Question<T> = Box<dyn FnOnce(&T) + Send>;

/// Asks. A cheap clone asks the same.
pub struct LocalCaller<T>(mpsc::Sender<Question<T>>);

/// Questions on their way.
pub struct LocalCalls<T>(mpsc::Receiver<Question<T>>);

/// Nobody answers any more: the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this server stops")]
pub struct Stopped;

/// Creates the sender and the receiver of calls between tasks of one thread.
#[must_use]
pub fn questions<T>() -> (LocalCaller<T>, LocalCalls<T>) {
    let (ask, asked) = mpsc::channel(WAITING);
    (LocalCaller(ask), LocalCalls(asked))
}

impl<T> Clone for LocalCaller<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: 'static> LocalCaller<T> {
    /// Asks, and waits for the answer. Keep what is asked short: nothing else goes on meanwhile.
    ///
    /// # Errors
    /// If the server stops.
    pub async fn ask<R: Send + 'static>(&self, ask: impl FnOnce(&T) -> R + Send + 'static) -> Result<R, Stopped> {
        let (reply, answer) = oneshot::channel();
        // Whoever asked may have gone.
        let question: Question<T> = Box::new(move |asked| drop(reply.send(ask(asked))));
        self.0.send(question).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }
}

impl<T> LocalCalls<T> {
    /// Answers, each question at its turn. Ends when dropped.
    pub async fn answer(mut self, asked: T) {
        while let Some(question) = self.0.recv().await {
            question(&asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[tokio::test]
    async fn what_stays_on_its_thread_is_asked_from_elsewhere_until_it_stops() {
        let (asker, questions) = questions::<Rc<Cell<u32>>>();
        let asking = tokio::spawn({
            let asker = asker.clone();
            async move { asker.ask(|count| count.replace(2)).await }
        });
        let count = Rc::new(Cell::new(1));
        tokio::select! {
            () = questions.answer(Rc::clone(&count)) => {}
            answer = asking => assert!(matches!(answer, Ok(Ok(1)))),
        }
        assert_eq!(count.get(), 2);
        assert_eq!(asker.ask(|count| count.get()).await, Err(Stopped));
    }
}
