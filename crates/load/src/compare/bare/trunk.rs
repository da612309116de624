use std::io::{ErrorKind, Result, Write as _};
use std::net::{SocketAddr, TcpStream};

use mio::net::TcpStream as Socket;

use super::frame::{Kind, write};
use super::upgrade::without_waiting;

/// What may wait to be written. Texts past it are left out.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// A front's connection to a node.
pub(super) struct Trunk {
    pub(super) socket: Socket,
    /// What has been read and not looked at.
    pub(super) input: Vec<u8>,
    /// What is written at the end of the turn.
    out: Vec<u8>,
}

impl Trunk {
    pub(super) fn connect(node: SocketAddr) -> Result<Self> {
        Ok(Self { socket: without_waiting(TcpStream::connect(node)?)?, input: Vec::new(), out: Vec::new() })
    }

    pub(super) fn push(&mut self, client: usize, kind: Kind, bytes: &[u8]) {
        // There are fewer sockets than that.
        let client = u32::try_from(client).unwrap_or(u32::MAX);
        if self.out.len() + bytes.len() <= MAX_WAITING_BYTES {
            write(&mut self.out, client, kind, &[bytes]);
        }
    }

    /// What the node does not take now it is offered again at the end of each turn, and of the one that it has room in.
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        match self.socket.write(&self.out) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            count => drop(self.out.drain(..count?)),
        }
        Ok(())
    }
}
