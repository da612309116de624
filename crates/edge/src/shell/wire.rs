//! A client's socket once it is upgraded, in the clear or under TLS. As one of all clients' ([`PolledSocket`]) it
//! has nobody who waits for it alone; before, and for its last words, it has ([`TaskSocket`]).

use std::io::{self, Read as _, Write as _};

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use mio::net::TcpStream as Among;
use mio::{Interest, Registry, Token};
use rustls::ServerConnection;
use signaling_server::http::{UpgradeError, upgraded_from};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// What one read of ciphertext takes. Readers have room for the plaintext of that, and of what was left from the last.
const CIPHERTEXT_BYTES: usize = 16 * 1024;
/// What one turn encrypts: one record.
const RECORD_BYTES: usize = 16 * 1024;

/// A socket among those of all clients: it says by one [`mio::Poll`] that it can be read or written.
pub(super) struct PolledSocket(Socket<Among>);

/// A socket that a task waits for: before it is among all clients', and once it is so no more.
pub(super) struct TaskSocket(Socket<TcpStream>);

struct Socket<S> {
    tcp: S,
    tls: Option<Box<ServerConnection>>,
}

/// What a read has brought.
pub(super) struct Taken {
    /// How many bytes.
    pub(super) bytes: usize,
    /// Whether there may be more that nothing will tell of. Neither is the end.
    pub(super) more: bool,
}

/// Takes the socket back after an upgrade, with what was read behind the request's head.
pub(super) fn take_back(upgraded: Upgraded) -> Result<(TaskSocket, Bytes), UpgradeError> {
    match upgraded_from::<TcpStream>(upgraded) {
        Ok((tcp, early)) => Ok((TaskSocket(Socket { tcp, tls: None }), early)),
        Err(upgraded) => {
            let (stream, early) = upgraded_from::<TlsStream<TcpStream>>(upgraded).map_err(|_| UpgradeError)?;
            let (tcp, session) = stream.into_inner();
            Ok((TaskSocket(Socket { tcp, tls: Some(Box::new(session)) }), early))
        }
    }
}

impl TaskSocket {
    /// Puts it among all clients' sockets.
    pub(super) fn join(self, registry: &Registry, token: Token) -> io::Result<PolledSocket> {
        let mut tcp = Among::from_std(self.0.tcp.into_std()?);
        registry.register(&mut tcp, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(PolledSocket(Socket { tcp, tls: self.0.tls }))
    }

    /// Writes what goes without waiting: see [`PolledSocket::try_write`].
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    /// Waits until the socket takes more, or has ended.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.0.tcp.writable().await
    }

    /// Says that nothing more will be written, behind all that was.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.0.tls {
            tls.send_close_notify();
            while let Err(error) = flush(tls, &self.0.tcp) {
                match error.kind() {
                    io::ErrorKind::WouldBlock => self.0.tcp.writable().await?,
                    _ => return Err(error),
                }
            }
        }
        SockRef::from(&self.0.tcp).shutdown(std::net::Shutdown::Write)
    }

    /// The bare socket.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.0.tcp
    }
}

impl PolledSocket {
    /// Takes it from among all clients' sockets.
    pub(super) fn leave(self, registry: &Registry) -> io::Result<TaskSocket> {
        let Socket { mut tcp, tls } = self.0;
        registry.deregister(&mut tcp)?;
        Ok(TaskSocket(Socket { tcp: TcpStream::from_std(tcp.into())?, tls }))
    }

    /// Reads once. `buffer` must have room for two records.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; all else is the connection's end.
    pub(super) fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Taken> {
        let Socket { tcp, tls } = &mut self.0;
        match tls {
            // The kernel gives all that it has, but for what comes later: that is told.
            None => tcp.read(buffer).map(|bytes| Taken { bytes, more: bytes == buffer.len() }),
            Some(tls) => read_tls(tls, tcp, buffer),
        }
    }

    /// Writes what goes without waiting. Under TLS, what is accepted may still wait here in the end: see [`Self::owes`].
    ///
    /// # Errors
    /// `WouldBlock` if nothing was accepted; all else is the connection's end.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    /// Whether the socket has not taken all that was accepted: write again, nothing if need be, when it takes more.
    pub(super) fn owes(&self) -> bool {
        self.0.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl<S: Unwaiting> Socket<S> {
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.tcp.try_write(bytes) };
        flush(tls, &self.tcp)?;
        let accepted = tls.writer().write(bytes.get(..RECORD_BYTES).unwrap_or(bytes))?;
        match flush(tls, &self.tcp) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(accepted),
        }
    }
}

/// What is left, or one read of ciphertext; that may hold no plaintext.
fn read_tls(tls: &mut ServerConnection, tcp: &mut Among, buffer: &mut [u8]) -> io::Result<Taken> {
    match tls.reader().read(buffer) {
        Ok(bytes) => return Ok(Taken { bytes, more: bytes > 0 }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        // The connection has ended without the end of TLS: so do those of pages that are left.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Taken { bytes: 0, more: false }),
        Err(error) => return Err(error),
    }
    let mut ciphertext = [0; CIPHERTEXT_BYTES];
    let count = tcp.read(&mut ciphertext)?;
    let mut arrived = ciphertext.get(..count).unwrap_or_default();
    let mut bytes = 0;
    loop {
        // An empty read tells the session that there is no more.
        if tls.read_tls(&mut arrived)? == 0 && count > 0 {
            // The client has said that it is done: what follows that is nothing.
            return Ok(Taken { bytes, more: bytes > 0 });
        }
        let state = tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        bytes += match tls.reader().read(buffer.get_mut(bytes..).unwrap_or_default()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => return Ok(Taken { bytes, more: bytes > 0 }),
        };
        if arrived.is_empty() {
            // The end is told alone, by the next read.
            let ends = count == 0 || state.peer_has_closed();
            let more = if ends { bytes > 0 } else { bytes == 0 || count == CIPHERTEXT_BYTES };
            return Ok(Taken { bytes, more });
        }
    }
}

fn flush(tls: &mut ServerConnection, tcp: &impl Unwaiting) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut Writer(tcp))?;
    }
    Ok(())
}

/// Writes what goes without waiting.
trait Unwaiting {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl Unwaiting for TcpStream {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        Self::try_write(self, bytes)
    }
}

impl Unwaiting for Among {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = self;
        socket.write(bytes)
    }
}

struct Writer<'a, S>(&'a S);

impl<S: Unwaiting> io::Write for Writer<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
