//! The scripts of the store, each loaded once and called by its hash.

use std::sync::LazyLock;

use redis::Cmd;

use crate::Op;

/// A script and its hash.
pub(super) struct Script {
    code: &'static str,
    hash: String,
}

macro_rules! scripts {
    ($($name:ident: $($part:literal)+,)+) => {
        $(pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            let code = concat!($(include_str!($part)),+);
            Script { code, hash: redis::Script::new(code).get_hash().to_owned() }
        });)+

        static ALL: &[&LazyLock<Script>] = &[$(&$name),+];
    };
}

scripts! {
    JOIN: "room.lua" "join.lua" "end.lua",
    LEAVE: "room.lua" "leave.lua" "end.lua",
    DROP: "room.lua" "drop.lua" "end.lua",
    REFRESH: "room.lua" "refresh.lua" "end.lua",
    RESTORE: "room.lua" "restore.lua" "end.lua",
    LIST: "room.lua" "list.lua" "end.lua",
    FIND: "room.lua" "find.lua" "end.lua",
    CAPACITY: "room.lua" "capacity.lua" "end.lua",
}

impl Script {
    /// Returns the script of an operation.
    pub(super) fn of(op: &Op) -> &'static Self {
        match op {
            Op::Join { .. } => &JOIN,
            Op::Leave { .. } => &LEAVE,
            Op::Drop { .. } => &DROP,
            Op::Refresh { .. } => &REFRESH,
            Op::Restore { .. } => &RESTORE,
            Op::List { .. } => &LIST,
            Op::Find { .. } => &FIND,
            Op::SetCapacity { .. } => &CAPACITY,
        }
    }

    /// Starts a call by the hash. The caller adds the number of keys, the keys and the arguments.
    pub(super) fn call(&self) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash);
        call
    }
}

/// Returns commands that load all scripts, a few KiB.
pub(super) fn load_all() -> Vec<Cmd> {
    let load = |script: &&LazyLock<Script>| redis::cmd("SCRIPT").arg("LOAD").arg(script.code).to_owned();
    ALL.iter().map(load).collect()
}
