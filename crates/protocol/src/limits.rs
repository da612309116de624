//! The numbers that both ends of a wire must agree on, each with its reason.

use std::time::Duration;

/// Largest client message unless a setting says otherwise: an SDP offer with many candidates has 10 KiB.
pub const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024;
/// Largest value of that setting: what a trunk frame must be able to carry.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Largest frame inside a batch: a client message of the largest size, its ids, and room to spare.
pub const MAX_FRAME_BYTES: usize = MAX_MESSAGE_BYTES + 64 * 1024;
/// A writer starts another batch past this size, so that one big batch does not delay what follows it.
pub const BATCH_TARGET_BYTES: usize = 256 * 1024;
/// Largest batch that a writer cuts: one that was just below the target before its last frame. A message on a trunk holds two
/// at most, the second of what may wait.
pub const MAX_BATCH_BYTES: usize = BATCH_TARGET_BYTES + MAX_FRAME_BYTES;
/// Largest `data` of a member in a room: it is shown to every other member.
pub const MAX_MEMBER_DATA_BYTES: usize = 4 * 1024;
/// Most nodes that an envelope passes through: past that, views are too far apart to chase the client.
pub const MAX_HOPS: usize = 4;
/// Largest `id` that a client may give a request: JavaScript counts exactly up to here.
pub const MAX_REQUEST_ID: u64 = (1 << 53) - 1;
/// Longest token, of either kind: what fits a header beside others.
pub const MAX_TOKEN_BYTES: usize = 4 * 1024;
/// Longest query string of a connect request: two tokens of 4 KiB and the ids.
pub const MAX_QUERY_BYTES: usize = 8 * 1024 + 512;

/// How long a message waits for an absent recipient, unless a setting or the message's `ttl_ms` says otherwise.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(20);
/// Longest hold time: what [`Left`](crate::Left) can express.
pub const MAX_HOLD: Duration = Duration::from_millis(u16::MAX as u64 * 10);
/// How long a session waits for its client to come back, unless a setting says otherwise.
pub const DEFAULT_RESUME: Duration = Duration::from_secs(30);
/// Longest value of that setting: recipients' edges remember for so long what they have written.
pub const MAX_RESUME: Duration = Duration::from_secs(5 * 60);
/// After this silence of a client the edge pings it. Shorter than the 30 s at which mobile carriers drop idle flows.
pub const HEARTBEAT: Duration = Duration::from_secs(25);
/// How long a client has to answer that ping.
pub const HEARTBEAT_ANSWER: Duration = Duration::from_secs(10);
/// How long the open socket of an id has to answer before a newcomer gets the id.
pub const TAKEOVER_ANSWER: Duration = Duration::from_secs(2);

/// After this silence a server pings the other: four times before it is suspect.
pub const PING_AFTER: Duration = Duration::from_millis(500);
/// After this silence a server gives the other up: clients wait no longer than for a repeat.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(2);
/// Most that a client which is sent elsewhere is told to wait, so that not all come at once.
pub const COME_BACK_WITHIN: Duration = Duration::from_secs(1);
