//! The two scripts of a journal, called by their hashes.

use std::sync::LazyLock;

use redis::{Cmd, Script};

static APPLY: LazyLock<Script> = LazyLock::new(|| Script::new(APPLY_CODE));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(RELEASE_CODE));
const APPLY_CODE: &str = include_str!("apply.lua");
const RELEASE_CODE: &str = include_str!("release.lua");

/// Returns the call that applies `commands` to the room with this key. `after`: the number of the
/// write before it, or empty.
pub(crate) fn apply(meta: &str, (epoch, number): (&str, u64), after: &str, commands: &[u8]) -> Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(APPLY.get_hash()).arg(1).arg(meta).arg(epoch).arg(number).arg(after).arg(commands);
    call
}

/// Returns the call that removes these clients of a process from the registry.
pub(crate) fn release(registry: &str, clients_key: &str, process: &str, clients: &[impl AsRef<str>]) -> Cmd {
    let mut call = release_of(registry, clients_key, process);
    call.arg("these");
    for client in clients {
        call.arg(client.as_ref());
    }
    call
}

/// Returns the call that removes up to `max` clients of a process from the registry.
pub(crate) fn release_all(registry: &str, clients_key: &str, process: &str, max: usize) -> Cmd {
    let mut call = release_of(registry, clients_key, process);
    call.arg("all").arg(max);
    call
}

fn release_of(registry: &str, clients_key: &str, process: &str) -> Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(RELEASE.get_hash()).arg(2).arg(registry).arg(clients_key).arg(process);
    call
}

/// Returns commands that load both scripts.
pub(crate) fn load() -> [Cmd; 2] {
    [APPLY_CODE, RELEASE_CODE].map(|code| redis::cmd("SCRIPT").arg("LOAD").arg(code).to_owned())
}
