//! Listening sockets, which survive a shortage of descriptors. The servers' `run` binds them; the
//! edge, the node's shell and `http` accept from them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use signaling_protocol::Backoff;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::metrics::METRICS;

/// Connections that the kernel queues before accept. It may cap this (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A bound TCP socket. Accepted sockets send without delay (`TCP_NODELAY`).
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
    local: SocketAddr,
    pause: Backoff,
}

impl Listener {
    /// Binds and listens. Port 0 selects any free port. Panics outside a Tokio runtime with I/O.
    ///
    /// # Errors
    /// If the address is in use, not local or not permitted, or no descriptor is free. The error
    /// names the address.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        named(address, bound(address, false).and_then(Self::listen))
    }

    fn listen(socket: Socket) -> io::Result<Self> {
        socket.listen(BACKLOG)?;
        let inner = TcpListener::from_std(socket.into())?;
        Ok(Self { local: inner.local_addr()?, inner, pause: Backoff::new(MIN_PAUSE, MAX_PAUSE) })
    }

    /// Stops to listen. Returns the connections that the kernel had queued, which it would reset:
    /// at most 4,096. One that arrives within microseconds of the end is lost.
    pub fn close(self) -> Vec<(TcpStream, SocketAddr)> {
        let Ok(listener) = self.inner.into_std() else { return Vec::new() };
        let mut queued = Vec::new();
        for _ in 0..BACKLOG {
            let accepted = listener.accept().and_then(|(stream, peer)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok((TcpStream::from_std(stream)?, peer))
            });
            match accepted {
                Ok(accepted) => queued.push(accepted),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_of_the_peer(&error) => {
                    METRICS.accept_errors.inc();
                }
                Err(error) => {
                    METRICS.accept_errors.inc();
                    warn!(local = %self.local, %error, "cannot accept the queued connections, they are reset");
                    break;
                }
            }
        }
        queued
    }

    /// Returns the bound address, with the selected port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for the next connection, and returns it with the peer's address. Cancel-safe.
    /// Errors are counted. Errors of one connection have no other effect. Others, such as a
    /// shortage of descriptors, cause a pause that grows from 50 ms to 1 s, and are logged once
    /// until the next connection.
    pub async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.inner.accept().await {
                Ok((stream, peer)) => {
                    if !self.pause.is_fresh() {
                        self.pause.reset();
                        info!(local = %self.local, "accepting connections again");
                    }
                    if let Err(error) = stream.set_nodelay(true) {
                        debug!(%peer, %error, "connection ended before it was accepted");
                        continue;
                    }
                    return (stream, peer);
                }
                Err(error) => {
                    METRICS.accept_errors.inc();
                    if is_of_the_peer(&error) {
                        continue;
                    }
                    if self.pause.is_fresh() {
                        warn!(local = %self.local, %error, "cannot accept connections");
                    }
                    sleep(self.pause.next_limit()).await;
                }
            }
        }
    }
}

/// A bound port that processes of this user may share (`SO_REUSEPORT`). The kernel gives each new
/// connection to one of the listening processes.
#[derive(Debug)]
pub struct SharedPort {
    socket: Socket,
    local: SocketAddr,
}

impl SharedPort {
    /// Binds the address, and does not listen yet. Port 0 selects any free port.
    ///
    /// # Errors
    /// As for [`Listener::bind`]. A socket that does not share the port has the address in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        named(
            address,
            bound(address, true).and_then(|socket| {
                let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(Self { socket, local })
            }),
        )
    }

    /// Returns the bound address, with the selected port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Listens: the kernel gives new connections to this process too. Panics outside a Tokio
    /// runtime with I/O.
    ///
    /// # Errors
    /// As for [`Listener::bind`].
    pub fn listen(self) -> io::Result<Listener> {
        named(self.local, Listener::listen(self.socket))
    }
}

fn bound(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn named<T>(address: SocketAddr, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
}

/// Returns `true` if one connection ended before it was accepted. The next may succeed.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: &str = "127.0.0.1:0";

    #[tokio::test]
    async fn accepted_sockets_send_without_delay() {
        let mut listener = Listener::bind(LOOPBACK.parse().unwrap()).unwrap();
        let client = TcpStream::connect(listener.local_addr()).await.unwrap();
        let (accepted, peer) = listener.accept().await;
        assert!(accepted.nodelay().unwrap());
        assert_eq!(peer, client.local_addr().unwrap());
    }

    #[tokio::test]
    async fn port_just_left_can_be_bound_again() {
        let mut listener = Listener::bind(LOOPBACK.parse().unwrap()).unwrap();
        let address = listener.local_addr();
        let mut client = TcpStream::connect(address).await.unwrap();
        // The side that closes first keeps the port in TIME_WAIT.
        drop(listener.accept().await);
        drop(listener);
        tokio::io::AsyncReadExt::read(&mut client, &mut [0; 1]).await.unwrap();
        drop(client);
        assert_eq!(Listener::bind(address).unwrap().local_addr(), address);
    }

    #[tokio::test]
    async fn closed_listener_returns_its_queue_and_another_serves() {
        let port = SharedPort::bind(LOOPBACK.parse().unwrap()).unwrap();
        let address = port.local_addr();
        let listener = port.listen().unwrap();
        assert!(Listener::bind(address).is_err(), "only sockets that share it can bind the port");
        let (mut clients, mut queued) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let client = TcpStream::connect(address).await.unwrap();
            queued.push(client.local_addr().unwrap());
            clients.push(client);
        }
        let mut next = SharedPort::bind(address).unwrap().listen().unwrap();
        let peers: Vec<_> = listener.close().into_iter().map(|(_, peer)| peer).collect();
        assert_eq!(peers, queued);
        let client = TcpStream::connect(address).await.unwrap();
        assert_eq!(next.accept().await.1, client.local_addr().unwrap());
    }
}
