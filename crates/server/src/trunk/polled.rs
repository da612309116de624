//! The stream of an outbound trunk among the sockets of an edge's event loop.

use std::io::{self, Read, Write};

use mio::net::TcpStream;

/// A socket under an edge-triggered poll. It is read at first, and again after an event; other
/// reads return `WouldBlock` without a system call.
pub struct PolledStream {
    tcp: TcpStream,
    may_have_input: bool,
    /// `true` if the peer has ended its write side. The end is still to be read.
    has_ended: bool,
}

impl PolledStream {
    /// Creates a stream that may have input already. `tcp` must be non-blocking.
    pub fn new(tcp: TcpStream) -> Self {
        Self { tcp, may_have_input: true, has_ended: false }
    }

    /// Returns the socket, to register it with the poll.
    pub fn source(&mut self) -> &mut TcpStream {
        &mut self.tcp
    }

    /// Records a readable event. `has_ended`: the peer has ended its write side for good.
    pub fn on_event(&mut self, has_ended: bool) {
        self.may_have_input = true;
        self.has_ended |= has_ended;
    }
}

impl Read for PolledStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.may_have_input {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let read = self.tcp.read(buffer);
        // A short read empties the socket. Later input causes an event of its own.
        self.may_have_input = match &read {
            Ok(count) => *count == buffer.len() || self.has_ended,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        read
    }
}

impl Write for PolledStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
