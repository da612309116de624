//! What comes behind the answer to an upgrade, for whoever takes the socket over from the one that asked.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What ends the head of an answer.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A socket that keeps all that is read from it.
pub(super) struct Overheard {
    tcp: TcpStream,
    read: Vec<u8>,
}

impl Overheard {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, read: Vec::new() }
    }

    /// The socket, and what was read behind the head of the answer, which has no body.
    pub(super) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        let Self { tcp, mut read } = self;
        let head = read.windows(HEAD_END.len()).position(|window| window == HEAD_END);
        let behind = head.map_or(Vec::new(), |at| read.split_off(at + HEAD_END.len()));
        (tcp, behind)
    }
}

impl AsyncRead for Overheard {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        self.read.extend_from_slice(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Overheard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
