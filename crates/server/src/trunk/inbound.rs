//! The accepting end of a trunk: [`serve`], a task of a node's shell that reads, writes and pings.

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

/// Interval of keep-alive checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time to write the close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves a trunk on an upgraded stream until it ends, and returns the reason, which it counts in
/// the metrics. `early` are bytes read after the head of the upgrade.
///
/// `on_frames` handles a batch of uplink frames. Its error ends the trunk as
/// [`TrunkCloseReason::ProtocolError`]. `signal` requests a call of `next_batch`, which returns
/// downlink frames to write. An empty batch writes nothing. `None` closes the trunk within 100 ms,
/// as [`TrunkCloseReason::ClosedLocally`].
pub async fn serve(
    stream: TcpStream,
    early: &[u8],
    signal: &FlushSignal,
    on_frames: impl Fn(&[u8]) -> Result<(), String>,
    next_batch: impl Fn() -> Option<Vec<u8>>,
) -> TrunkCloseReason {
    let mut trunk = Trunk::new(TaskStream(stream), early, Role::Server);
    let Err(end) = run(&mut trunk, signal, on_frames, next_batch).await;
    end.record();
    end
}

async fn run(
    trunk: &mut Trunk<TaskStream>,
    signal: &FlushSignal,
    on_frames: impl Fn(&[u8]) -> Result<(), String>,
    next_batch: impl Fn() -> Option<Vec<u8>>,
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
                has_more = trunk.read(Instant::now(), &on_frames)?;
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
                let Some(batch) = next_batch() else {
                    close(trunk).await;
                    return Err(TrunkCloseReason::ClosedLocally);
                };
                signal.request_rest(&batch);
                if !batch.is_empty() {
                    trunk.write(batch)?;
                }
            }
            _ = checks.tick() => {
                // Unread input is not silence. After a pause of the process, timers run before the
                // poll that reports the input.
                yield_now().await;
                let now = Instant::now();
                trunk.flush()?;
                has_more |= trunk.read(now, &on_frames)?;
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

/// A socket whose [`Read`] and [`Write`] return `WouldBlock` instead of waiting. The one task that
/// owns it waits by `readable` and `writable` of the field.
pub struct TaskStream(pub TcpStream);

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
