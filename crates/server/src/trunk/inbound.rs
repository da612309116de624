//! The accepting end of a trunk: a task that reads, writes and checks the keep-alive. The node's
//! shell calls [`serve`] per trunk.

use std::convert::Infallible;
use std::future::ready;
use std::io::{self, Read, Write};
use std::pin::pin;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, protocol::Role};

use super::{Trunk, TrunkCloseReason};
use crate::FlushSignal;
use crate::clock::ticks;

const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time to write the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// The node at the accepting end of a trunk.
pub trait TrunkHandler {
    /// Handles a batch of uplink frames. Ignores them if the trunk is being closed.
    ///
    /// # Errors
    /// If the frames are invalid. The trunk then ends with this reason.
    fn on_frames(&self, frames: &[u8]) -> Result<(), String>;

    /// Returns the next batch of downlink frames to write; empty if there are none. `None` closes
    /// the trunk.
    fn next_batch(&self) -> Option<Vec<u8>>;
}

/// Serves a trunk until it ends, and counts and returns the reason. `early` are bytes read after
/// the head of the upgrade. `signal` requests a call of [`TrunkHandler::next_batch`].
pub async fn serve(
    stream: TcpStream,
    early: &[u8],
    signal: &FlushSignal,
    handler: &impl TrunkHandler,
) -> TrunkCloseReason {
    let mut trunk = Trunk::new(TaskStream(stream), early, Role::Server);
    let Err(end) = run(&mut trunk, signal, handler).await;
    end.record();
    end
}

async fn run(
    trunk: &mut Trunk<TaskStream>,
    signal: &FlushSignal,
    handler: &impl TrunkHandler,
) -> Result<Infallible, TrunkCloseReason> {
    let mut checks = ticks(CHECK_INTERVAL);
    let mut has_more = true;
    // Kept over other events, which must not restart its delay.
    let mut flush = pin!(signal.wait());
    loop {
        let is_free = trunk.is_free();
        let tcp = &trunk.stream().0;
        tokio::select! {
            ready = tcp.readable(), if !has_more => {
                ready.map_err(tungstenite::Error::from)?;
                has_more = true;
            }
            () = ready(()), if has_more => {
                has_more = trunk.read(Instant::now(), |frames| handler.on_frames(frames))?;
                if has_more {
                    // An edge with much traffic must not starve other trunks and requests.
                    yield_now().await;
                }
            }
            ready = tcp.writable(), if !is_free => {
                ready.map_err(tungstenite::Error::from)?;
                trunk.flush()?;
            }
            () = flush.as_mut(), if is_free => {
                flush.set(signal.wait());
                let Some(batch) = handler.next_batch() else {
                    close(trunk).await;
                    return Err(TrunkCloseReason::ClosedLocally);
                };
                signal.request_rest(&batch);
                if !batch.is_empty() {
                    trunk.write(batch)?;
                }
            }
            _ = checks.tick() => {
                // Unread input is not silence.
                let now = Instant::now();
                trunk.flush()?;
                has_more |= trunk.read(now, |frames| handler.on_frames(frames))?;
                trunk.check(now)?;
            }
        }
    }
}

/// Writes the close frame. An edge that does not read it counts a failure.
async fn close(trunk: &mut Trunk<TaskStream>) {
    let closing = async { while trunk.close().is_ok() && trunk.stream().0.writable().await.is_ok() {} };
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
}

/// A socket that one task waits for.
struct TaskStream(TcpStream);

impl Read for TaskStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut short = None;
        let read = self.0.try_io(Interest::READABLE, || {
            let count = (&*SockRef::from(&self.0)).read(buffer)?;
            // A short read empties the socket. The error clears its readiness and saves a read.
            if (1..buffer.len()).contains(&count) {
                short = Some(count);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        short.map_or(read, Ok)
    }
}

impl Write for TaskStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
