//! The accepting end of a trunk: a task that reads, writes and looks for silence.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::signs::{KeepAlive, KeepAliveAction};
use super::{TrunkCloseReason, config};
use crate::FlushSignal;
use crate::metrics;

/// How often silence is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the last word may take.
const FAREWELL: Duration = Duration::from_millis(100);

/// What stands behind a trunk's end.
pub trait TrunkHandler {
    /// Takes in a run of frames. If the trunk has been given up here, they are passed over: [`TrunkHandler::give_out`] says so.
    ///
    /// # Errors
    /// If they are none, in the terminal's words: the trunk is then closed.
    fn take_in(&self, frames: &[u8]) -> Result<(), String>;

    /// Gives out what waits to be carried, the next batch of it; none if the trunk must be closed.
    fn give_out(&self) -> Option<Vec<u8>>;
}

/// The accepting end over a socket whose upgrade has been answered.
pub async fn accepted(stream: TcpStream, early: Bytes) -> WebSocketStream<TcpStream> {
    WebSocketStream::from_partially_read(stream, early.to_vec(), Role::Server, Some(config())).await
}

/// Carries until the trunk ends. Says why it did.
pub async fn carry(
    socket: WebSocketStream<TcpStream>,
    wake: &FlushSignal,
    terminal: &impl TrunkHandler,
) -> TrunkCloseReason {
    let (sink, stream) = socket.split();
    let trunk = Carried {
        wake,
        terminal,
        signs: RefCell::new(KeepAlive::new(Instant::now())),
        writes_since: Cell::new(None),
        asks: Cell::new(false),
    };
    // Each of them is looked at only when it has something to do itself.
    let parts: [LocalBoxFuture<'_, TrunkCloseReason>; 3] =
        [Box::pin(trunk.read(stream)), Box::pin(trunk.write(sink)), Box::pin(trunk.look())];
    let end = parts.into_iter().collect::<FuturesUnordered<_>>().next().await.unwrap_or(TrunkCloseReason::Given);
    metrics::trunk_ended(&end);
    end
}

struct Carried<'a, T> {
    wake: &'a FlushSignal,
    terminal: &'a T,
    signs: RefCell<KeepAlive>,
    /// Since when a write has been under way, if one is.
    writes_since: Cell<Option<Instant>>,
    /// The other end is to be asked for a sign of life.
    asks: Cell<bool>,
}

impl<T: TrunkHandler> Carried<'_, T> {
    async fn read(&self, mut stream: SplitStream<WebSocketStream<TcpStream>>) -> TrunkCloseReason {
        while let Some(message) = stream.next().await {
            self.signs.borrow_mut().heard(Instant::now());
            match message {
                Ok(Message::Binary(frames)) => {
                    metrics::trunk_read(frames.len());
                    if let Err(error) = self.terminal.take_in(&frames) {
                        return TrunkCloseReason::Nonsense(error);
                    }
                }
                Ok(Message::Close(_)) => return TrunkCloseReason::Closed,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
        TrunkCloseReason::Closed
    }

    async fn write(&self, mut sink: SplitSink<WebSocketStream<TcpStream>, Message>) -> TrunkCloseReason {
        loop {
            self.wake.due().await;
            let begun = Instant::now();
            self.writes_since.set(Some(begun));
            if self.asks.take()
                && let Err(error) = sink.send(Message::Ping(Bytes::new())).await
            {
                return error.into();
            }
            let Some(batch) = self.terminal.give_out() else {
                // Whoever is told that it is over need not take it for a failure.
                let _ = timeout(FAREWELL, sink.send(Message::Close(None))).await;
                return TrunkCloseReason::Given;
            };
            if !batch.is_empty() {
                self.wake.again_behind(&batch);
                let bytes = batch.len();
                if let Err(error) = sink.send(Message::Binary(batch.into())).await {
                    return error.into();
                }
                metrics::trunk_wrote(bytes, begun.elapsed());
            }
            self.writes_since.set(None);
        }
    }

    /// Ends if the other end gives no sign of life, or takes nothing.
    async fn look(&self) -> TrunkCloseReason {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let look = self.signs.borrow_mut().look(Instant::now(), self.writes_since.get());
            match look {
                KeepAliveAction::Lives => {}
                KeepAliveAction::Ask => {
                    self.asks.set(true);
                    self.wake.now();
                }
                KeepAliveAction::Silent => return TrunkCloseReason::Silent,
            }
        }
    }
}
