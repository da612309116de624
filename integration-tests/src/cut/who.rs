use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Whether this process has the socket at this end of a connection, as far as the kernel's tables tell. IPv4 only.
pub(super) fn has_socket(pid: u32, local: SocketAddr) -> bool {
    let IpAddr::V4(ip) = local.ip() else { return false };
    let address = format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), local.port());
    let Ok(table) = fs::read_to_string(format!("/proc/{pid}/net/tcp")) else { return false };
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        (*fields.get(1)? == address).then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    });
    let Some(inode) = inode else { return false };
    let wanted = format!("socket:[{inode}]");
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link.as_os_str() == wanted.as_str())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_process_has_its_own_sockets_and_no_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();

        assert!(has_socket(std::process::id(), near.local_addr().unwrap()));
        assert!(!has_socket(std::process::id(), "127.0.0.1:1".parse().unwrap()));
    }
}
