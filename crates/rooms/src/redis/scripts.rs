//! The scripts, each loaded once and called by its hash.

use std::sync::LazyLock;

use redis::Cmd;

/// A script and its hash.
pub(super) struct Script {
    code: &'static str,
    hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }
}

macro_rules! room_script {
    ($name:literal) => {
        LazyLock::new(|| Script::new(concat!(include_str!("room.lua"), include_str!($name), include_str!("end.lua"))))
    };
}

pub(super) static JOIN: LazyLock<Script> = room_script!("join.lua");
pub(super) static LEAVE: LazyLock<Script> = room_script!("leave.lua");
pub(super) static DROP: LazyLock<Script> = room_script!("drop.lua");
pub(super) static REFRESH: LazyLock<Script> = room_script!("refresh.lua");
pub(super) static RESTORE: LazyLock<Script> = room_script!("restore.lua");
pub(super) static LIST: LazyLock<Script> = room_script!("list.lua");
pub(super) static FIND: LazyLock<Script> = room_script!("find.lua");
pub(super) static CAPACITY: LazyLock<Script> = room_script!("capacity.lua");
pub(super) static FORGET_CLIENT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("forget_client.lua")));
pub(super) static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("claim.lua")));

/// Starts a call of a script by its hash. The caller adds the number of keys, the keys and the
/// arguments.
pub(super) fn by_hash(script: &Script) -> Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(&script.hash);
    call
}

/// Returns commands that load all scripts, a few KiB.
pub(super) fn load_all() -> Vec<Cmd> {
    let room = [&JOIN, &LEAVE, &DROP, &REFRESH, &RESTORE, &LIST, &FIND, &CAPACITY];
    let all = room.into_iter().chain([&FORGET_CLIENT, &CLAIM]);
    all.map(|script| {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script.code);
        load
    })
    .collect()
}
