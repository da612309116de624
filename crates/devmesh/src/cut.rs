//! Cuts of lanes: resets of TCP connections between nodes. `mesh` calls it.

use std::collections::HashMap;

use anyhow::{Context, Result};
use procfs::net::tcp;
use procfs::process::{FDTarget, Process};
use rustix::net::connect_unspec;
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
    let remote_by_inode: HashMap<_, _> =
        tcp()?.into_iter().map(|entry| (entry.inode, format!("http://{}", entry.remote_address))).collect();
    let mut connections = Vec::new();
    for node in nodes.iter().filter(|node| is(from, node)) {
        for file in Process::new(node.pid.cast_signed())?.fd()?.flatten() {
            let FDTarget::Socket(inode) = file.target else { continue };
            let remote = remote_by_inode.get(&inode);
            connections.extend(
                nodes
                    .iter()
                    .filter(|peer| is(to, peer) && remote == Some(&peer.internal))
                    .map(|peer| (node, peer, file.fd)),
            );
        }
    }
    // A remainder by 0 would panic. Without connections the next line fails.
    let drawn = getrandom::u32()? as usize % connections.len().max(1);
    let &(node, peer, _) = connections.get(drawn).with_context(|| format!("no lane from {from} to {to}"))?;
    let pidfd = pidfd_open(Pid::from_raw(node.pid.cast_signed()).context("no process")?, PidfdFlags::empty())?;
    for (_, _, fd) in connections.iter().filter(|(from, to, _)| (&from.id, &to.id) == (&node.id, &peer.id)) {
        let socket = pidfd_getfd(&pidfd, *fd, PidfdGetfdFlags::empty())
            .with_context(|| format!("the system gives no access to the sockets of {}", node.id))?;
        // Linux resets a TCP connection whose socket connects to no address.
        connect_unspec(socket)?;
    }
    Ok(())
}
