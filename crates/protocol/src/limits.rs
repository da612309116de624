//! The numbers that both ends of a wire must agree on, each with its reason.

use std::time::Duration;

/// Largest client message unless a setting says otherwise: an SDP offer with many candidates has 10 KiB.
pub const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024;
/// Largest value of that setting: what a frame between two servers can carry.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Largest `data` of a member in a room: it is shown to every other member.
pub const MAX_MEMBER_DATA_BYTES: usize = 4 * 1024;
/// Largest `id` that a client may give a request: JavaScript counts exactly up to here.
pub const MAX_REQUEST_ID: u64 = (1 << 53) - 1;
/// Longest token, of either kind: what fits a header beside others.
pub const MAX_TOKEN_BYTES: usize = 4 * 1024;
/// Longest query string of a connect request: two tokens of 4 KiB and the ids.
pub const MAX_QUERY_BYTES: usize = 8 * 1024 + 512;

/// How long a message waits for an absent recipient, unless a setting or the message's `ttl_ms` says otherwise.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(20);
/// Longest hold time: what two bytes express in steps of 10 ms.
pub const MAX_HOLD: Duration = Duration::from_millis(u16::MAX as u64 * 10);
/// Longest time that a session waits for its client to come back: recipients' edges remember for so long what they have written.
pub const MAX_RESUME: Duration = Duration::from_secs(5 * 60);
/// After this silence of a client the edge pings it. Shorter than the 30 s at which mobile carriers drop idle flows.
pub const HEARTBEAT: Duration = Duration::from_secs(25);
/// How long a client has to answer that ping.
pub const HEARTBEAT_ANSWER: Duration = Duration::from_secs(10);
/// How long the open socket of an id has to answer before a newcomer gets the id.
pub const TAKEOVER_ANSWER: Duration = Duration::from_secs(2);

/// Most that a client which is sent elsewhere is told to wait, so that not all come at once.
pub const COME_BACK_WITHIN: Duration = Duration::from_secs(1);
