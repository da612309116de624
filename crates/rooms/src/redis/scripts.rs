//! The scripts of the store, each called by its hash. `store` calls them, `connection` loads them.

use std::sync::LazyLock;

use redis::Cmd;

use crate::Op;

/// A script and its hash.
pub(super) struct Script {
    code: &'static str,
    hash: String,
}

macro_rules! scripts {
    ($($op:ident $name:ident $file:literal,)+) => {
        $(static $name: LazyLock<Script> = LazyLock::new(|| {
            let code = concat!(include_str!("room.lua"), include_str!($file), include_str!("end.lua"));
            Script { code, hash: redis::Script::new(code).get_hash().to_owned() }
        });)+

        static ALL: &[&LazyLock<Script>] = &[$(&$name),+];

        impl Script {
            /// Returns the script of an operation.
            pub(super) fn of(op: &Op) -> &'static Self {
                match op {
                    $(Op::$op { .. } => &$name,)+
                }
            }
        }
    };
}

scripts! {
    Join JOIN "join.lua",
    Leave LEAVE "leave.lua",
    Remove REMOVE "remove.lua",
    Drop DROP "drop.lua",
    Refresh REFRESH "refresh.lua",
    Restore RESTORE "restore.lua",
    List LIST "list.lua",
    Find FIND "find.lua",
    SetCapacity CAPACITY "capacity.lua",
}

impl Script {
    /// Starts a call by the hash. The caller adds the number of keys, the keys and the arguments.
    pub(super) fn call(&self) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash);
        call
    }
}

/// Returns commands that load all scripts, about 90 KiB.
pub(super) fn load_all() -> Vec<Cmd> {
    let load = |script: &&LazyLock<Script>| redis::cmd("SCRIPT").arg("LOAD").arg(script.code).to_owned();
    ALL.iter().map(load).collect()
}
