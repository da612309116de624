//! One end of a trunk as a state machine over a non-blocking stream: frames, keep-alive, unsent
//! bytes and the close. An edge's event loop drives the connecting end, [`super::serve`] the other.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use signaling_wire::limits::{PING_AFTER, SUSPECT_AFTER};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::{TrunkCloseReason, config};
use crate::metrics::{Direction, METRICS};

/// Maximum WebSocket messages of one [`Trunk::read`].
const MAX_READS: usize = 64;

/// One end of a trunk. Its stream returns `WouldBlock` instead of waiting.
pub struct Trunk<S> {
    socket: WebSocket<S>,
    /// Start and bytes (0: a control frame) of the write that the kernel has not taken yet.
    unsent: Option<(Instant, usize)>,
    last_input_at: Instant,
    pinged_at: Instant,
    is_closing: bool,
}

impl<S: Read + Write> Trunk<S> {
    /// Creates a trunk on an upgraded, non-blocking stream. `early`: bytes read after the head of
    /// the upgrade. `role`: client at the edge, server at the node.
    pub fn new(stream: S, early: &[u8], role: Role) -> Self {
        let socket = WebSocket::from_partially_read(stream, early.to_vec(), role, Some(config()));
        let now = Instant::now();
        Self { socket, unsent: None, last_input_at: now, pinged_at: now, is_closing: false }
    }

    /// Returns the underlying stream.
    pub fn stream(&mut self) -> &mut S {
        self.socket.get_mut()
    }

    /// Reads at most 64 WebSocket messages and passes each batch to `on_frames`. `now` is the time
    /// of the input. Returns `false` once the stream is empty, `true` if more messages may follow.
    ///
    /// # Errors
    /// If the trunk has ended: [`TrunkCloseReason::Closed`] by a close frame, `Failed` by an error
    /// or an end without that frame, `ProtocolError` if `on_frames` rejects a batch or a batch
    /// exceeds the size limit.
    pub fn read(
        &mut self,
        now: Instant,
        mut on_frames: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<bool, TrunkCloseReason> {
        for _ in 0..MAX_READS {
            match self.socket.read() {
                Ok(Message::Binary(frames)) => {
                    METRICS.trunk_bytes.of(Direction::In).inc_by(frames.len() as u64);
                    on_frames(&frames).map_err(TrunkCloseReason::ProtocolError)?;
                }
                Ok(Message::Close(_)) => return Err(TrunkCloseReason::Closed),
                Ok(_) => {}
                Err(error) if would_block(&error) => return Ok(false),
                Err(tungstenite::Error::ConnectionClosed) => return Err(TrunkCloseReason::Closed),
                Err(error) => return Err(error.into()),
            }
            self.last_input_at = now;
        }
        Ok(true)
    }

    /// Returns `true` if the kernel has taken all written bytes. Only then the caller may write.
    pub fn is_free(&self) -> bool {
        self.unsent.is_none()
    }

    /// Returns `true` once [`Trunk::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Writes a batch as one WebSocket message. Requires [`Trunk::is_free`], and no close before.
    /// If the kernel does not take all bytes now, [`Trunk::flush`] writes the rest.
    ///
    /// # Errors
    /// [`TrunkCloseReason::Failed`] if the connection failed.
    pub fn write(&mut self, batch: Vec<u8>) -> Result<(), TrunkCloseReason> {
        self.unsent = Some((Instant::now(), batch.len()));
        let sent = self.socket.send(Message::Binary(batch.into()));
        self.written(sent)
    }

    /// Writes the rest of a batch or control frame. Does nothing if there is none.
    ///
    /// # Errors
    /// [`TrunkCloseReason::Failed`] if the connection failed. [`TrunkCloseReason::ClosedLocally`]
    /// once the kernel has taken the close frame.
    pub fn flush(&mut self) -> Result<(), TrunkCloseReason> {
        if self.unsent.is_some() {
            let flushed = self.socket.flush();
            self.written(flushed)?;
        }
        if self.is_closing && self.is_free() { Err(TrunkCloseReason::ClosedLocally) } else { Ok(()) }
    }

    /// Writes a close frame after the current batch, so that the other end does not count a
    /// failure. `Ok` means that [`Trunk::flush`] must write the rest.
    ///
    /// # Errors
    /// [`TrunkCloseReason::ClosedLocally`] once the kernel has taken the close frame.
    /// [`TrunkCloseReason::Failed`] if the connection failed.
    pub fn close(&mut self) -> Result<(), TrunkCloseReason> {
        if !std::mem::replace(&mut self.is_closing, true) {
            self.unsent.get_or_insert((Instant::now(), 0));
            let closed = self.socket.close(None);
            self.written(closed)?;
        }
        self.flush()
    }

    /// Checks the keep-alive, and pings a peer after each 500 ms of silence unless a write is
    /// unfinished. The caller calls this a few times per second.
    ///
    /// # Errors
    /// [`TrunkCloseReason::Silent`] if the peer has sent nothing for 2 s, or the kernel has not
    /// taken all of a write within 2 s. [`TrunkCloseReason::Failed`] if the connection failed.
    pub fn check(&mut self, now: Instant) -> Result<(), TrunkCloseReason> {
        let since = |then| now.saturating_duration_since(then);
        let silence = since(self.last_input_at);
        let stall = self.unsent.map_or(Duration::ZERO, |(start, _)| since(start));
        if silence.max(stall) >= SUSPECT_AFTER {
            return Err(TrunkCloseReason::Silent);
        }
        if silence < PING_AFTER || since(self.pinged_at) < PING_AFTER || !self.is_free() {
            return Ok(());
        }
        self.pinged_at = now;
        self.unsent = Some((now, 0));
        let pinged = self.socket.send(Message::Ping(Bytes::new()));
        self.written(pinged)
    }

    fn written(&mut self, written: tungstenite::Result<()>) -> Result<(), TrunkCloseReason> {
        match written {
            Ok(()) => {
                if let Some((since, bytes)) = self.unsent.take()
                    && bytes > 0
                {
                    METRICS.trunk_bytes.of(Direction::Out).inc_by(bytes as u64);
                    METRICS.trunk_write.observe(since.elapsed());
                }
                Ok(())
            }
            Err(error) if would_block(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn would_block(error: &tungstenite::Error) -> bool {
    matches!(error, tungstenite::Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use mio::net::TcpStream;

    use super::super::{MAX_MESSAGE_BYTES, OutboundTrunk, PolledStream};
    use super::*;

    /// One end, and the socket of the other.
    fn pair(early: &[u8]) -> (OutboundTrunk, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        own.set_nonblocking(true).unwrap();
        let stream = PolledStream::new(TcpStream::from_std(own));
        (Trunk::new(stream, early, Role::Client), listener.accept().unwrap().0)
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        [&[0x82, u8::try_from(payload.len()).unwrap()], payload].concat()
    }

    fn read(trunk: &mut OutboundTrunk) -> (Vec<Vec<u8>>, Result<bool, TrunkCloseReason>) {
        let mut batches = Vec::new();
        let end = trunk.read(Instant::now(), |batch| {
            batches.push(batch.to_vec());
            Ok(())
        });
        (batches, end)
    }

    /// Sends bytes of the other end, and waits until they have arrived.
    fn send(other: &mut std::net::TcpStream, bytes: &[u8], trunk: &mut OutboundTrunk) {
        other.write_all(bytes).unwrap();
        while trunk.stream().source().peek(&mut [0]).is_err() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn early_bytes_are_read_first() {
        let (mut trunk, mut other) = pair(&frame(b"early"));
        send(&mut other, &frame(b"late"), &mut trunk);
        let (batches, end) = read(&mut trunk);
        assert_eq!(batches, [b"early".to_vec(), b"late".to_vec()]);
        assert!(!end.unwrap());
    }

    #[test]
    fn end_is_read_behind_the_last_frame_after_its_event() {
        let (mut trunk, mut other) = pair(b"");
        assert!(!read(&mut trunk).1.unwrap());
        send(&mut other, &frame(b"last"), &mut trunk);
        other.shutdown(Shutdown::Both).unwrap();
        assert!(read(&mut trunk).0.is_empty(), "no event yet");
        trunk.stream().on_event(true);
        let (batches, end) = read(&mut trunk);
        assert_eq!(batches, [b"last"]);
        assert!(matches!(end, Err(TrunkCloseReason::Failed(_))), "no close frame");
    }

    #[test]
    fn batch_over_the_size_limit_violates_the_protocol() {
        for (excess, is_valid) in [(0, true), (1, false)] {
            let (mut trunk, mut other) = pair(b"");
            let bytes = (MAX_MESSAGE_BYTES + excess) as u64;
            send(&mut other, &[&[0x82, 127][..], &bytes.to_be_bytes()].concat(), &mut trunk);
            let end = read(&mut trunk).1;
            assert!(if is_valid { !end.unwrap() } else { matches!(end, Err(TrunkCloseReason::ProtocolError(_))) });
        }
    }

    #[test]
    fn read_returns_after_a_bounded_number_of_frames() {
        let (mut trunk, mut other) = pair(b"");
        send(&mut other, &frame(b"batch").repeat(MAX_READS + 1), &mut trunk);
        trunk.stream().on_event(false);
        let (batches, more) = read(&mut trunk);
        assert!(batches.len() == MAX_READS && more.unwrap());
        let (batches, more) = read(&mut trunk);
        assert!(batches.len() == 1 && !more.unwrap());
    }

    #[test]
    fn trunk_fails_when_the_peer_takes_nothing() {
        let (mut trunk, mut other) = pair(b"");
        let batch = vec![7; 256 * 1024];
        let mut batches = 0;
        while trunk.is_free() {
            trunk.write(batch.clone()).unwrap();
            batches += 1;
        }
        send(&mut other, &frame(b"input"), &mut trunk);
        trunk.stream().on_event(false);
        let late = Instant::now() + SUSPECT_AFTER;
        trunk.read(late, |_| Ok(())).unwrap();
        assert!(trunk.check(late - SUSPECT_AFTER / 2).is_ok());
        assert!(matches!(trunk.check(late), Err(TrunkCloseReason::Silent)), "though it sends");
        // Header of 14 bytes each, since an opening end masks.
        let mut all = vec![0; batches * (14 + batch.len())];
        let reader = std::thread::spawn(move || other.read_exact(&mut all).unwrap());
        while !trunk.is_free() {
            trunk.flush().unwrap();
        }
        reader.join().unwrap();
    }

    #[test]
    fn silent_peer_is_pinged_and_fails() {
        let (mut trunk, mut other) = pair(b"");
        let start = Instant::now();
        other.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let reserve = Duration::from_millis(1);
        for (time, is_pinged) in [
            (PING_AFTER / 2, false),
            (PING_AFTER + reserve, true),
            (PING_AFTER * 3 / 2, false),
            (PING_AFTER * 2 + 2 * reserve, true),
        ] {
            trunk.check(start + time).unwrap();
            let mut ping = [0; 6];
            assert_eq!(other.read_exact(&mut ping).is_ok() && ping[0] == 0x89, is_pinged, "{time:?}");
        }
        send(&mut other, &[0x8a, 0], &mut trunk);
        trunk.stream().on_event(false);
        let answered = start + SUSPECT_AFTER - reserve;
        trunk.read(answered, |_| Ok(())).unwrap();
        trunk.check(answered + SUSPECT_AFTER - reserve).unwrap();
        assert!(matches!(trunk.check(answered + SUSPECT_AFTER), Err(TrunkCloseReason::Silent)));
    }

    #[test]
    fn close_frame_ends_the_trunk_at_both_ends() {
        let (mut trunk, mut other) = pair(b"");
        assert!(matches!(trunk.close(), Err(TrunkCloseReason::ClosedLocally)));
        let mut close = [0; 6];
        other.read_exact(&mut close).unwrap();
        assert_eq!(close.first(), Some(&0x88));
        let (mut trunk, mut other) = pair(b"");
        send(&mut other, &[0x88, 0], &mut trunk);
        assert!(matches!(read(&mut trunk).1, Err(TrunkCloseReason::Closed)));
    }
}
