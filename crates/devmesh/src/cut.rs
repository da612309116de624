//! Cuts of lanes: resets of TCP connections between nodes.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use procfs::process::{FDTarget, Process};
use rustix::io::Errno;
use rustix::net::{connect_unspec, getpeername};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::files::Server;

/// Matches every node, in place of an id.
const ANY: &str = "any";

/// Resets all connections that node `from` has opened to the internal listener of node `to`. Their
/// unsent and unread bytes are lost. Either name is an id or [`ANY`]. One of several matching pairs
/// of nodes is drawn at random.
///
/// # Errors
/// If no connection matches, a process has ended, or the system gives no access to its sockets.
pub(crate) fn cut_lane(nodes: &[Server], from: &str, to: &str) -> Result<()> {
    let is = |name: &str, node: &Server| name == ANY || name == node.id;
    let mut connections = Vec::new();
    for node in nodes.iter().filter(|node| is(from, node)) {
        for socket in sockets(node)? {
            let socket = socket?;
            let Some(remote) = getpeername(&socket).ok().flatten().and_then(|any| SocketAddr::try_from(any).ok())
            else {
                continue;
            };
            let internal = format!("http://{remote}");
            let peer = nodes.iter().find(|peer| is(to, peer) && peer.internal == internal);
            connections.extend(peer.map(|peer| (&node.id, &peer.id, socket)));
        }
    }
    // A remainder by 0 would panic. Without connections the next line fails.
    let drawn = getrandom::u32()? as usize % connections.len().max(1);
    let &(node, peer, _) = connections.get(drawn).with_context(|| format!("no lane from {from} to {to}"))?;
    for (_, _, socket) in connections.iter().filter(|(from, to, _)| (*from, *to) == (node, peer)) {
        // Linux resets a TCP connection whose socket connects to no address.
        connect_unspec(socket)?;
    }
    Ok(())
}

/// Copies the sockets of a node's process, one at a time. Skips a socket that it closes meanwhile.
fn sockets(node: &Server) -> Result<impl Iterator<Item = Result<OwnedFd>>> {
    let pid = node.pid.cast_signed();
    let pidfd = pidfd_open(Pid::from_raw(pid).context("no process")?, PidfdFlags::empty())?;
    let files = Process::new(pid)?.fd()?.flatten().filter(|file| matches!(file.target, FDTarget::Socket(_)));
    let copies = files.map(move |file| pidfd_getfd(&pidfd, file.fd, PidfdGetfdFlags::empty()));
    let open = copies.filter(|copy| !matches!(copy, Err(Errno::BADF)));
    Ok(open.map(|copy| copy.with_context(|| format!("the system gives no access to the sockets of {}", node.id))))
}
