use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::net::TcpSocket;

use crate::id::ServerId;

/// Addresses of one server's listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) internal: SocketAddr,
    pub(crate) public: SocketAddr,
}

/// The ports of each server, fixed from its first start to the end of the mesh.
///
/// While a server is down, connections are refused, but the port stays reserved: [`hold_port`].
#[derive(Default)]
pub(crate) struct Ports {
    held_by_id: BTreeMap<ServerId, Held>,
}

struct Held {
    addresses: Addresses,
    _sockets: [TcpSocket; 2],
}

impl Ports {
    /// Returns the addresses of `id`. The first call chooses them, with `public` if its port is
    /// not 0.
    pub(crate) fn of(&mut self, id: ServerId, public: SocketAddr) -> Result<Addresses> {
        if let Some(held) = self.held_by_id.get(&id) {
            return Ok(held.addresses);
        }
        let public_socket = hold_port(public).with_context(|| format!("{id} cannot listen on {public}"))?;
        let internal_socket = hold_port((Ipv4Addr::LOCALHOST, 0).into()).context("no free port")?;
        let addresses = Addresses { internal: internal_socket.local_addr()?, public: public_socket.local_addr()? };
        self.held_by_id.insert(id, Held { addresses, _sockets: [public_socket, internal_socket] });
        Ok(addresses)
    }
}

/// Holds a port by a socket that is bound and never listens. Port 0 takes any free one. A server
/// can listen on the port if it sets `SO_REUSEADDR` too, as all usual servers do.
///
/// # Errors
/// When another process listens there, or the address is not local.
pub fn hold_port(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const ANY: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

    #[test]
    fn server_keeps_its_own_ports() {
        let mut ports = Ports::default();

        let first = ports.of(ServerId::Node(0), ANY).unwrap();
        let second = ports.of(ServerId::Node(1), ANY).unwrap();

        assert_eq!(ports.of(ServerId::Node(0), ANY).unwrap(), first);
        let mut all = [first.internal, first.public, second.internal, second.public].map(|address| address.port());
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
    }

    #[test]
    fn held_port_refuses_connections_until_a_server_listens() {
        let mut ports = Ports::default();
        let address = ports.of(ServerId::Node(0), ANY).unwrap().internal;

        for _ in 0..2 {
            assert!(TcpStream::connect(address).is_err());
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(address).unwrap();
            drop(listener.accept().unwrap());
            drop(client);
        }
    }

    #[test]
    fn port_in_use_is_named_in_the_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();

        let error = Ports::default().of(ServerId::Balancer(0), taken.local_addr().unwrap()).unwrap_err();

        assert!(error.to_string().contains("balancer-0 cannot listen on 127.0.0.1:"), "{error}");
    }
}
