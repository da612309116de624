//! A network namespace of its own for one test, and a packet filter in it that parts two nodes, or clients from balancers.
//!
//! Every node runs in a group of its own (`setpriv --regid`), by which the filter knows whose packets they are: what a
//! parted node sends to the other's listener is dropped without a word, and what it sends to anybody else passes. The
//! namespace and all rules end with the process.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use signaling_devmesh::{BalancerEntry, MeshOptions, NodeEntry};

use crate::again::again;

/// Set in the process that runs inside.
const INSIDE: &str = "DRILL_INSIDE_NAMESPACE";
/// Set by those who want relays instead, to try them.
const RELAYS: &str = "DRILL_RELAYS";
/// The group of node-0; the others follow.
const FIRST_GROUP: u32 = 64_000;
/// What this machine must let us do.
const PREPARE: &str = "ip link set lo up && nft add table inet drill && nft add chain inet drill sent \
                       '{ type filter hook output priority 0; }' && setpriv --regid 64000 --keep-groups true";

/// Where a test finds itself.
pub enum Place {
    /// In a namespace of its own: go on, with [`parted_by_group`] and [`Parting`].
    Inside,
    /// The test has run inside, and passed or not.
    Ran(bool),
    /// Such a namespace cannot be made here, for this reason.
    Impossible(String),
}

/// Runs the test with this path (`file::function`) again in a new namespace, unless this is that run.
pub fn enter(test: &str) -> Place {
    if std::env::var_os(INSIDE).is_some() {
        return Place::Inside;
    }
    if std::env::var_os(RELAYS).is_some() {
        return Place::Impossible(format!("{RELAYS} is set"));
    }
    let probe = Command::new("unshare").args(["--net", "--", "sh", "-c", PREPARE]).stdin(Stdio::null()).output();
    match probe {
        Ok(probe) if probe.status.success() => {}
        Ok(probe) => return Place::Impossible(String::from_utf8_lossy(&probe.stderr).trim().to_owned()),
        Err(error) => return Place::Impossible(format!("unshare: {error}")),
    }
    let run = Command::new("unshare")
        .args(["--net", "--", "sh", "-c", &format!("{PREPARE} && exec \"$@\""), "sh"])
        .args(again(test))
        .env(INSIDE, "1")
        .status();
    Place::Ran(run.unwrap().success())
}

/// Has every node of a mesh to be run in a group of its own.
pub fn parted_by_group(options: &mut MeshOptions) {
    let script = options.dir.join("node-in-its-group");
    let text = format!(
        "#!/bin/sh\nexec setpriv --regid $(({FIRST_GROUP} + ${{2#node-}})) --keep-groups --pdeathsig KILL {} \"$@\"\n",
        quoted(&options.binaries.node)
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    options.binaries.node = script;
}

/// Packets between two parties that the filter drops, for as long as this lives.
pub struct Parting(());

impl Parting {
    /// Parts two nodes.
    pub fn of(one: &NodeEntry, other: &NodeEntry) -> Self {
        for (from, to) in [(one, other), (other, one)] {
            let port = to.internal.rsplit(':').next().unwrap();
            drop_packets(&["meta", "skgid", &group(from).to_string(), "tcp", "dport", port]);
        }
        Self(())
    }

    /// Parts clients from the public listeners of these balancers.
    pub fn of_clients(balancers: &[BalancerEntry]) -> Self {
        for port in balancers.iter().filter_map(|balancer| balancer.url.rsplit(':').next()) {
            ["dport", "sport"].iter().for_each(|direction| drop_packets(&["tcp", direction, port]));
        }
        Self(())
    }

    /// Packets dropped so far.
    pub fn dropped(&self) -> u64 {
        let rules = nft(&["list", "chain", "inet", "drill", "sent"]);
        let counts = rules.split("counter packets ").skip(1);
        counts.filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok()).sum()
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        nft(&["flush", "chain", "inet", "drill", "sent"]);
    }
}

fn drop_packets(rule: &[&str]) {
    nft(&[&["add", "rule", "inet", "drill", "sent"], rule, &["counter", "drop"]].concat());
}

fn group(node: &NodeEntry) -> u32 {
    FIRST_GROUP + node.id.trim_start_matches("node-").parse::<u32>().unwrap()
}

fn nft(arguments: &[&str]) -> String {
    let run = Command::new("nft").args(arguments).output().unwrap();
    assert!(run.status.success(), "nft {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn quoted(path: &Path) -> String {
    format!("'{}'", PathBuf::from(path).display().to_string().replace('\'', "'\\''"))
}
