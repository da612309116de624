//! A trunk whose socket is watched by others than its own task: among clients' sockets, so that what nodes and clients say at a time is
//! taken in within one turn, and answered at its end.

use std::io::{self, Read, Write};
use std::time::Instant;

use bytes::Bytes;
use mio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::signs::{KeepAlive, KeepAliveAction};
use super::{TrunkCloseReason, config};
use crate::metrics;

/// What is taken in before others have their turn.
const AT_ONCE: usize = 64;

/// An end of a trunk that reads when it is told that it can, and writes at once.
pub struct OutboundTrunk {
    socket: WebSocket<Stream>,
    /// Since when the kernel takes no more, and of how many bytes.
    blocked: Option<(Instant, usize)>,
    signs: KeepAlive,
}

impl OutboundTrunk {
    /// The opening end over a socket whose upgrade has been answered, and what was read behind the answer.
    #[must_use]
    pub fn new(tcp: TcpStream, early: &[u8]) -> Self {
        let (stream, now) = (Stream { tcp, is_readable: true, ends: false }, Instant::now());
        Self {
            socket: WebSocket::from_partially_read(stream, early.to_vec(), Role::Client, Some(config())),
            blocked: None,
            signs: KeepAlive::new(now),
        }
    }

    /// What is to be watched.
    pub fn source(&mut self) -> &mut TcpStream {
        &mut self.socket.get_mut().tcp
    }

    /// It can be read or written; or, if it `ends`, nothing will come behind what has come.
    pub fn ready(&mut self, ends: bool) {
        let stream = self.socket.get_mut();
        stream.is_readable = true;
        stream.ends |= ends;
    }

    /// Writes what is left of a batch.
    ///
    /// # Errors
    /// If the connection failed.
    pub fn flush(&mut self) -> Result<(), TrunkCloseReason> {
        if self.blocked.is_none() {
            return Ok(());
        }
        let flushed = self.socket.flush();
        self.written(flushed)
    }

    /// Reads what has come, and hands it over run by run. Says whether there may be more, of which nobody will tell.
    ///
    /// # Errors
    /// If the trunk has ended, or `take_in` says what is wrong with a run.
    pub fn read(
        &mut self,
        now: Instant,
        mut take_in: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<bool, TrunkCloseReason> {
        for _ in 0..AT_ONCE {
            match self.socket.read() {
                Ok(Message::Binary(frames)) => {
                    metrics::trunk_read(frames.len());
                    take_in(&frames).map_err(TrunkCloseReason::Nonsense)?;
                }
                Ok(Message::Close(_)) => return Err(TrunkCloseReason::Closed),
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(false),
                Err(tungstenite::Error::ConnectionClosed) => return Err(TrunkCloseReason::Closed),
                Err(error) => return Err(error.into()),
            }
            self.signs.heard(now);
        }
        Ok(true)
    }

    /// Whether it takes a batch: not while one before it has not left.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.blocked.is_none()
    }

    /// Writes a batch, or as much of it as the kernel takes: the rest follows when that takes more.
    ///
    /// # Errors
    /// If the connection failed.
    pub fn write(&mut self, batch: Vec<u8>) -> Result<(), TrunkCloseReason> {
        self.blocked = Some((Instant::now(), batch.len()));
        let sent = self.socket.send(Message::Binary(batch.into()));
        self.written(sent)
    }

    /// Tells the other end that it is over, so that it does not take it for a failure. It has gone once the socket is free.
    ///
    /// # Errors
    /// If the connection failed.
    pub fn close(&mut self) -> Result<(), TrunkCloseReason> {
        self.blocked.get_or_insert((Instant::now(), 0));
        let closed = self.socket.close(None).and_then(|()| self.socket.flush());
        self.written(closed)
    }

    /// Looks for silence, and asks for a sign of life. Call it a few times a second.
    ///
    /// # Errors
    /// If there was none, or nothing was taken, for too long.
    pub fn look(&mut self, now: Instant) -> Result<(), TrunkCloseReason> {
        match self.signs.look(now, self.blocked.map(|(since, _)| since)) {
            KeepAliveAction::Silent => Err(TrunkCloseReason::Silent),
            KeepAliveAction::Ask if self.is_free() => {
                self.blocked = Some((now, 0));
                let asked = self.socket.send(Message::Ping(Bytes::new()));
                self.written(asked)
            }
            KeepAliveAction::Ask | KeepAliveAction::Lives => Ok(()),
        }
    }

    /// Counts how it ended.
    pub fn ended(&self, end: &TrunkCloseReason) {
        metrics::trunk_ended(end);
    }

    fn written(&mut self, written: tungstenite::Result<()>) -> Result<(), TrunkCloseReason> {
        match written {
            Ok(()) => {
                if let Some((since, bytes)) = self.blocked.take()
                    && bytes > 0
                {
                    metrics::trunk_wrote(bytes, since.elapsed());
                }
                Ok(())
            }
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the kernel had nothing, or took no more.
fn is_later(error: &tungstenite::Error) -> bool {
    matches!(error, tungstenite::Error::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}

struct Stream {
    tcp: TcpStream,
    /// There may be something that nobody will tell of.
    is_readable: bool,
    /// The other end writes no more: the end is still to be read.
    ends: bool,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_readable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let read = self.tcp.read(buffer);
        // The kernel gives all that it has, but for what comes later: that is told.
        self.is_readable = match &read {
            Ok(count) => *count == buffer.len() || self.ends,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        read
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{Shutdown, TcpListener};
    use std::time::Duration;

    use signaling_wire::limits::{PING_AFTER, SUSPECT_AFTER};

    use super::*;

    /// An opened end, and the socket of the other.
    fn pair(early: &[u8]) -> (OutboundTrunk, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        own.set_nonblocking(true).unwrap();
        (OutboundTrunk::new(TcpStream::from_std(own), early), listener.accept().unwrap().0)
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        [&[0x82, u8::try_from(payload.len()).unwrap()], payload].concat()
    }

    /// What is read now.
    fn read(opened: &mut OutboundTrunk) -> (Vec<Vec<u8>>, Result<bool, TrunkCloseReason>) {
        let mut runs = Vec::new();
        let end = opened.read(Instant::now(), |run| {
            runs.push(run.to_vec());
            Ok(())
        });
        (runs, end)
    }

    /// Waits until something has come.
    fn await_bytes(opened: &mut OutboundTrunk) {
        opened.source().peek(&mut [0]).map_or_else(
            |error| {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                std::thread::yield_now();
                await_bytes(opened);
            },
            |_| (),
        );
    }

    #[test]
    fn what_was_read_behind_the_answer_comes_first() {
        let (mut opened, mut other) = pair(&frame(b"early"));
        other.write_all(&frame(b"late")).unwrap();
        await_bytes(&mut opened);
        let (runs, end) = read(&mut opened);
        assert_eq!(runs, [b"early".to_vec(), b"late".to_vec()]);
        assert!(!end.unwrap());
    }

    #[test]
    fn nothing_is_read_before_it_is_told_of_and_the_end_behind_the_last_word() {
        let (mut opened, mut other) = pair(b"");
        assert!(!read(&mut opened).1.unwrap());
        other.write_all(&frame(b"last")).unwrap();
        other.shutdown(Shutdown::Both).unwrap();
        await_bytes(&mut opened);
        assert!(read(&mut opened).0.is_empty(), "nobody has told of it");
        opened.ready(true);
        let (runs, end) = read(&mut opened);
        assert_eq!(runs, [b"last"]);
        assert!(matches!(end, Err(TrunkCloseReason::Failed(_))), "it has ended without a word");
    }

    #[test]
    fn many_runs_are_read_some_at_a_time() {
        let (mut opened, mut other) = pair(b"");
        other.write_all(&frame(b"run").repeat(AT_ONCE + 1)).unwrap();
        await_bytes(&mut opened);
        opened.ready(false);
        let (runs, more) = read(&mut opened);
        assert!(runs.len() == AT_ONCE && more.unwrap());
        let (runs, more) = read(&mut opened);
        assert!(runs.len() == 1 && !more.unwrap());
    }

    #[test]
    fn while_the_other_end_takes_nothing_no_batch_is_taken_and_that_is_not_borne_for_long() {
        let (mut opened, mut other) = pair(b"");
        let batch = vec![7; 256 * 1024];
        let mut batches = 0;
        while opened.is_free() {
            opened.write(batch.clone()).unwrap();
            batches += 1;
        }
        other.write_all(&frame(b"speaks")).unwrap();
        await_bytes(&mut opened);
        opened.ready(false);
        let late = Instant::now() + SUSPECT_AFTER;
        opened.read(late, |_| Ok(())).unwrap();
        assert!(opened.look(late - SUSPECT_AFTER / 2).is_ok());
        assert!(matches!(opened.look(late), Err(TrunkCloseReason::Silent)), "though it is heard");
        // Header of 14 bytes each, since an opening end masks.
        let mut all = vec![0; batches * (14 + batch.len())];
        let reader = std::thread::spawn(move || other.read_exact(&mut all).unwrap());
        while !opened.is_free() {
            opened.flush().unwrap();
        }
        reader.join().unwrap();
    }

    #[test]
    fn who_is_silent_is_asked_and_given_up() {
        let (mut opened, mut other) = pair(b"");
        let start = Instant::now();
        opened.look(start).unwrap();
        opened.look(start + PING_AFTER + Duration::from_millis(1)).unwrap();
        let mut ping = [0; 6];
        other.read_exact(&mut ping).unwrap();
        assert_eq!(ping.first(), Some(&0x89), "a ping");
        other.write_all(&[0x8a, 0]).unwrap();
        await_bytes(&mut opened);
        opened.ready(false);
        let answered = start + SUSPECT_AFTER / 2;
        opened.read(answered, |_| Ok(())).unwrap();
        opened.look(answered + SUSPECT_AFTER - Duration::from_millis(1)).unwrap();
        assert!(matches!(opened.look(answered + SUSPECT_AFTER), Err(TrunkCloseReason::Silent)));
    }

    #[test]
    fn the_other_end_is_told_that_it_is_over() {
        let (mut opened, mut other) = pair(b"");
        opened.close().unwrap();
        assert!(opened.is_free());
        let mut close = [0; 6];
        other.read_exact(&mut close).unwrap();
        assert_eq!(close.first(), Some(&0x88));
        let (mut opened, mut other) = pair(b"");
        other.write_all(&[0x88, 0]).unwrap();
        await_bytes(&mut opened);
        assert!(matches!(read(&mut opened).1, Err(TrunkCloseReason::Closed)));
    }
}
