//! A client's socket once it is upgraded, in the clear or under TLS: a half that one task reads, and one that everybody writes to
//! without waiting.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use rustls::ServerConnection;
use signaling_server::http::{UpgradeError, upgraded_from};
use socket2::SockRef;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::server::TlsStream;

/// What one read of ciphertext takes; less than what is left of the reader's buffer, so that its plaintext fits.
const CIPHERTEXT_BYTES: usize = 16 * 1024;
/// What one turn encrypts: one record.
const RECORD_BYTES: usize = 16 * 1024;

type Session = Rc<RefCell<ServerConnection>>;

/// The half that is read.
pub(super) struct WireReader {
    tcp: OwnedReadHalf,
    tls: Option<Session>,
}

/// The half that is written.
pub(super) struct WireWriter {
    tcp: OwnedWriteHalf,
    tls: Option<Session>,
}

/// Takes the socket back after an upgrade, with what was read behind the request's head.
pub(super) fn split(upgraded: Upgraded) -> Result<(WireReader, WireWriter, Bytes), UpgradeError> {
    match upgraded_from::<TcpStream>(upgraded) {
        Ok((stream, early)) => Ok(halves(stream, None, early)),
        Err(upgraded) => {
            let (stream, early) = upgraded_from::<TlsStream<TcpStream>>(upgraded).map_err(|_| UpgradeError)?;
            let (tcp, session) = stream.into_inner();
            Ok(halves(tcp, Some(Rc::new(RefCell::new(session))), early))
        }
    }
}

fn halves(tcp: TcpStream, tls: Option<Session>, early: Bytes) -> (WireReader, WireWriter, Bytes) {
    let (reader, writer) = tcp.into_split();
    (WireReader { tcp: reader, tls: tls.clone() }, WireWriter { tcp: writer, tls }, early)
}

impl WireReader {
    /// Reads what there is; nothing at the end. `buffer` must have room for a record.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(tls) = &self.tls else { return Pin::new(&mut self.tcp).poll_read(cx, buffer) };
        let mut session = tls.borrow_mut();
        loop {
            match session.reader().read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection has ended without the end of TLS: so do those of pages that are left.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            let mut ciphertext = [0; CIPHERTEXT_BYTES];
            let mut read = ReadBuf::new(&mut ciphertext);
            ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut read))?;
            let mut arrived = read.filled();
            // An empty read tells the session that there is no more.
            let is_end = arrived.is_empty();
            while is_end || !arrived.is_empty() {
                if session.read_tls(&mut arrived)? == 0 && !is_end {
                    // The client has said that it is done: what follows that is nothing.
                    return Poll::Ready(Ok(()));
                }
                session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let count = match session.reader().read(buffer.initialize_unfilled()) {
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(_) => return Poll::Ready(Ok(())),
                };
                buffer.advance(count);
                if is_end {
                    return Poll::Ready(Ok(()));
                }
            }
            if !buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl WireWriter {
    /// Writes what goes without waiting. Under TLS, what is accepted may still wait here in the end: see [`Self::owes`].
    ///
    /// # Errors
    /// `WouldBlock` if nothing was accepted; all else is the connection's end.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.tcp.try_write(bytes) };
        let mut session = tls.borrow_mut();
        self.flush(&mut session)?;
        let accepted = session.writer().write(bytes.get(..RECORD_BYTES).unwrap_or(bytes))?;
        match self.flush(&mut session) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(accepted),
        }
    }

    /// Whether the socket has not taken all that was accepted: write again, nothing if need be, when it is [writable](Self::writable).
    pub(super) fn owes(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.borrow().wants_write())
    }

    /// Waits until the socket takes more, or has ended.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.tcp.writable().await
    }

    /// Says that nothing more will be written, behind all that was.
    pub(super) async fn finish(&self) -> io::Result<()> {
        if let Some(tls) = &self.tls {
            tls.borrow_mut().send_close_notify();
            loop {
                let flushed = self.flush(&mut tls.borrow_mut());
                match flushed {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.tcp.writable().await?,
                    other => break other?,
                }
            }
        }
        SockRef::from(self.stream()).shutdown(std::net::Shutdown::Write)
    }

    /// The bare socket.
    pub(super) fn stream(&self) -> &TcpStream {
        self.tcp.as_ref()
    }

    fn flush(&self, session: &mut ServerConnection) -> io::Result<()> {
        while session.wants_write() {
            session.write_tls(&mut Unwaiting(&self.tcp))?;
        }
        Ok(())
    }
}

/// Writes what goes without waiting.
struct Unwaiting<'a>(&'a OwnedWriteHalf);

impl io::Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
