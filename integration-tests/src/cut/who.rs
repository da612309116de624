use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Whether this process has the socket at the local end of a connection, as far as the kernel's tables tell. IPv4
/// only. The local end alone would not do: connections to different remotes, closed ones too, may share it.
pub(super) fn has_socket(pid: u32, local: SocketAddr, remote: SocketAddr) -> bool {
    let (Some(local), Some(remote)) = (in_table(local), in_table(remote)) else { return false };
    let Ok(table) = fs::read_to_string(format!("/proc/{pid}/net/tcp")) else { return false };
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        (*fields.get(1)? == local && *fields.get(2)? == remote)
            .then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    });
    let Some(inode) = inode else { return false };
    let wanted = format!("socket:[{inode}]");
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link.as_os_str() == wanted.as_str())
}

/// An address as `/proc/net/tcp` writes it (proc_net_tcp in the kernel's documentation).
fn in_table(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use tokio::net::TcpSocket;

    use super::*;

    #[test]
    fn a_process_has_its_own_sockets_and_no_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let near = TcpStream::connect(remote).unwrap();

        assert!(has_socket(std::process::id(), near.local_addr().unwrap(), remote));
        assert!(!has_socket(std::process::id(), "127.0.0.1:1".parse().unwrap(), remote));
    }

    #[tokio::test]
    async fn closed_connections_from_the_same_port_are_not_taken_for_the_one_that_is_open() {
        let mut local = "127.0.0.1:0".parse().unwrap();
        let listeners: Vec<_> = (0..32).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let mut open = Vec::new();
        for listener in &listeners {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind(local).unwrap();
            let near = socket.connect(listener.local_addr().unwrap()).await.unwrap();
            local = near.local_addr().unwrap();
            open.push((near, listener.accept().unwrap().0));
        }
        let (last, _far) = open.pop().unwrap();
        drop(open);

        assert!(has_socket(std::process::id(), local, last.peer_addr().unwrap()));
    }
}
