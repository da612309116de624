use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::sleep;
use tracing::warn;

use crate::files::MeshFile;
use crate::folder::Folder;

/// Ends servers that a killed `mesh-dev` without `setpriv` left behind in this folder. This
/// process holds the folder's lock, so no other process manages them.
pub(crate) async fn end_leftovers(folder: &Folder) {
    let Ok(earlier) = MeshFile::read(folder.root()) else { return };
    let balancers = earlier.balancers.into_iter().map(|entry| (entry.id, entry.pid));
    for (id, pid) in balancers.chain(earlier.nodes.into_iter().map(|entry| (entry.id, entry.pid))) {
        let Ok(raw) = i32::try_from(pid) else { continue };
        if is_ours(&command_line(pid), &id, &folder.discovery_file())
            && kill(Pid::from_raw(raw), Signal::SIGKILL).is_ok()
        {
            warn!(%id, pid, "ended a server that an earlier run left behind");
            until_gone(pid).await;
        }
    }
}

/// Returns the command line; empty if there is no such process.
fn command_line(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Waits until the process is gone and its ports are free.
async fn until_gone(pid: u32) {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        // A zombie has an empty command line.
        if command_line(pid).is_empty() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns `true` if a process is the server `id` of this folder's mesh. The kernel reuses process
/// ids, so the id alone is no proof.
fn is_ours(command_line: &[u8], id: &str, discovery_file: &Path) -> bool {
    let arguments: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let has = |flag: &str, value: &str| {
        arguments.windows(2).any(|pair| pair[0] == flag.as_bytes() && pair[1] == value.as_bytes())
    };
    has("--id", id) && has("--discovery", &format!("file:{}", discovery_file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"/bin/signaling-node\0--id\0node-1\0--discovery\0file:/tmp/a/nodes.json\0";

    #[test]
    fn a_server_of_this_folder_is_known_by_its_command_line() {
        assert!(is_ours(LINE, "node-1", Path::new("/tmp/a/nodes.json")));
    }

    #[test]
    fn another_server_another_folder_and_no_process_at_all_are_let_alone() {
        assert!(!is_ours(LINE, "node-0", Path::new("/tmp/a/nodes.json")));
        assert!(!is_ours(LINE, "node-1", Path::new("/tmp/b/nodes.json")));
        assert!(!is_ours(b"", "node-1", Path::new("/tmp/a/nodes.json")));
    }
}
