//! A client's socket after the upgrade, plain or under TLS.
//!
//! The event loop polls a [`PolledSocket`] among all clients' sockets. Before that, and while it
//! closes, a task owns the socket as a [`TaskSocket`].

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use mio::net::TcpStream as MioStream;
use mio::{Interest, Registry, Token};
use rustls::ServerConnection;
use signaling_server::http::{UpgradeError, upgraded_from};
use signaling_server::trunk::TaskStream;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Maximum ciphertext of one read. Read buffers hold its plaintext and the rest of the last read.
const CIPHERTEXT_BYTES: usize = 16 * 1024;
/// Maximum plaintext of one write: one TLS record.
const RECORD_BYTES: usize = 16 * 1024;

/// A socket that is registered with the [`mio::Poll`] of all clients.
pub(super) type PolledSocket = Socket<MioStream>;

/// A socket that one task waits for, before it joins the poll or after it leaves.
pub(super) type TaskSocket = Socket<TaskStream>;

pub(super) struct Socket<S> {
    tcp: S,
    tls: Option<Box<ServerConnection>>,
}

/// The result of one read. Zero bytes and `false` mean the end of the connection.
pub(super) struct ReadResult {
    /// Bytes in the buffer.
    pub(super) bytes: usize,
    /// `true` if there may be more input that causes no further event.
    pub(super) read_again: bool,
}

/// Recovers an upgraded TCP or TLS socket, with the bytes after the request head. Fails for others.
pub(super) fn recover(upgraded: Upgraded) -> Result<(TaskSocket, Bytes), UpgradeError> {
    match upgraded_from::<TcpStream>(upgraded) {
        Ok((tcp, early)) => Ok((Socket { tcp: TaskStream(tcp), tls: None }, early)),
        Err(upgraded) => {
            let (stream, early) = upgraded_from::<TlsStream<TcpStream>>(upgraded).map_err(|_| UpgradeError)?;
            let (tcp, session) = stream.into_inner();
            Ok((Socket { tcp: TaskStream(tcp), tls: Some(Box::new(session)) }, early))
        }
    }
}

impl TaskSocket {
    /// Registers the socket with the poll. Fails and closes the socket if the system refuses.
    pub(super) fn register(self, registry: &Registry, token: Token) -> io::Result<PolledSocket> {
        let mut tcp = MioStream::from_std(self.tcp.0.into_std()?);
        registry.register(&mut tcp, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Socket { tcp, tls: self.tls })
    }

    /// Waits until the socket accepts more bytes or has ended. Fails only if the runtime stops.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.tcp().writable().await
    }

    /// Ends the write side after all written bytes. Under TLS it waits, without a time limit, until
    /// the socket has accepted them. Fails if the connection broke.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            while let Err(error) = flush(tls, &mut self.tcp) {
                match error.kind() {
                    io::ErrorKind::WouldBlock => self.tcp.0.writable().await?,
                    _ => return Err(error),
                }
            }
        }
        SockRef::from(self.tcp()).shutdown(std::net::Shutdown::Write)
    }

    /// Returns the TCP stream under TLS, if any.
    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp.0
    }
}

impl PolledSocket {
    /// Deregisters the socket from the poll. Fails and closes the socket if the system refuses.
    pub(super) fn deregister(self, registry: &Registry) -> io::Result<TaskSocket> {
        let Self { mut tcp, tls } = self;
        registry.deregister(&mut tcp)?;
        Ok(Socket { tcp: TaskStream(TcpStream::from_std(tcp.into())?), tls })
    }

    /// Reads once. `buffer` must have at least 32 KiB, for two TLS records. In less, input may
    /// remain without an event. `WouldBlock`: no input. Any other error ends the connection.
    pub(super) fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<ReadResult> {
        let Self { tcp, tls } = self;
        match tls {
            // A larger buffer takes all input of the kernel; later input causes an event.
            None => tcp.read(buffer).map(|bytes| ReadResult { bytes, read_again: bytes == buffer.len() }),
            Some(tls) => read_tls(tls, tcp, buffer),
        }
    }

    /// Returns `true` if the socket has not accepted all TLS bytes yet. The caller then writes
    /// again when it accepts more, even without new bytes. `false` without TLS.
    pub(super) fn has_unsent_ciphertext(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl<S: io::Write> Socket<S> {
    /// Writes without waiting and returns the number of accepted bytes. Fails with `WouldBlock` if
    /// nothing was accepted. Any other error ends the connection.
    ///
    /// Under TLS at most 16 KiB are accepted. Some may remain here: see
    /// [`PolledSocket::has_unsent_ciphertext`]. A call without bytes writes the rest.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.tcp.write(bytes) };
        flush(tls, &mut self.tcp)?;
        let accepted = tls.writer().write(bytes.get(..RECORD_BYTES).unwrap_or(bytes))?;
        match flush(tls, &mut self.tcp) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(accepted),
        }
    }
}

/// Returns buffered plaintext, or the plaintext of one read of ciphertext, which may be empty.
fn read_tls(tls: &mut ServerConnection, tcp: &mut MioStream, buffer: &mut [u8]) -> io::Result<ReadResult> {
    match tls.reader().read(buffer) {
        Ok(bytes) => return Ok(ReadResult { bytes, read_again: bytes > 0 }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // The connection ended without `close_notify`. Browsers do so when a page is left.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(ReadResult { bytes: 0, read_again: false });
        }
        Err(error) => return Err(error),
    }
    let mut ciphertext = [0; CIPHERTEXT_BYTES];
    let count = tcp.read(&mut ciphertext)?;
    let mut arrived = ciphertext.get(..count).unwrap_or_default();
    let mut bytes = 0;
    loop {
        // An empty read informs the session of the end.
        if tls.read_tls(&mut arrived)? == 0 && count > 0 {
            // The session ignores bytes after `close_notify`.
            return Ok(ReadResult { bytes, read_again: bytes > 0 });
        }
        let state = tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        bytes += match tls.reader().read(buffer.get_mut(bytes..).unwrap_or_default()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => return Ok(ReadResult { bytes, read_again: bytes > 0 }),
        };
        if arrived.is_empty() {
            // The next read reports the end alone.
            let ends = count == 0 || state.peer_has_closed();
            let read_again = if ends { bytes > 0 } else { bytes == 0 || count == CIPHERTEXT_BYTES };
            return Ok(ReadResult { bytes, read_again });
        }
    }
}

fn flush(tls: &mut ServerConnection, mut tcp: impl io::Write) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut tcp)?;
    }
    Ok(())
}
