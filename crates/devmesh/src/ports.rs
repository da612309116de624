//! Addresses of servers, fixed while the mesh runs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::net::TcpSocket;

use crate::id::ServerId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) internal: SocketAddr,
    pub(crate) public: SocketAddr,
}

/// Chooses the addresses of a server, with `public` if its port is not 0. The sockets hold its
/// ports also while it is down; connections are refused then.
pub(crate) fn hold_ports(id: ServerId, public: SocketAddr) -> Result<(Addresses, Vec<TcpSocket>)> {
    let public_socket = hold_port(public).with_context(|| format!("{id} cannot listen on {public}"))?;
    let (addresses, mut sockets) = hold_internal_port(public_socket.local_addr()?)?;
    sockets.push(public_socket);
    Ok((addresses, sockets))
}

/// Chooses the addresses of a server whose address `public` another server's sockets hold.
pub(crate) fn hold_internal_port(public: SocketAddr) -> Result<(Addresses, Vec<TcpSocket>)> {
    let socket = hold_port((Ipv4Addr::LOCALHOST, 0).into()).context("no free port")?;
    Ok((Addresses { internal: socket.local_addr()?, public }, vec![socket]))
}

/// Holds a port, until the returned socket is dropped, by a socket that is bound and never listens.
/// Port 0 takes any free one. A server can listen on the port if it sets `SO_REUSEADDR` too, as all
/// usual servers do.
///
/// # Errors
/// If another process listens there, the address is not local, or the system refuses the port.
pub fn hold_port(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn held_port_refuses_connections_until_a_server_listens() {
        let (addresses, _ports) = hold_ports(ServerId::Node(0), (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        assert_ne!(addresses.internal, addresses.public);

        for _ in 0..2 {
            assert!(TcpStream::connect(addresses.internal).is_err());
            let listener = TcpListener::bind(addresses.internal).unwrap();
            let client = TcpStream::connect(addresses.internal).unwrap();
            drop(listener.accept().unwrap());
            drop(client);
        }
    }

    #[test]
    fn port_in_use_is_named_in_the_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();

        let error = hold_ports(ServerId::Balancer(0), taken.local_addr().unwrap()).unwrap_err();

        assert!(error.to_string().contains("balancer-0 cannot listen on 127.0.0.1:"), "{error}");
    }
}
