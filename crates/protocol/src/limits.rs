//! Limits that both ends of a connection must agree on, each with its reason.

use std::time::Duration;

/// Default maximum bytes of a client message. An SDP offer with many candidates has 10 KiB.
pub const DEFAULT_MESSAGE_BYTES: usize = 64 * 1024;
/// Maximum of the setting for message size, in bytes: the capacity of a frame between servers.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Maximum `data` of a room member, in bytes. Every other member receives it.
pub const MAX_MEMBER_DATA_BYTES: usize = 4 * 1024;
/// Maximum `id` of a request: the largest exact integer in JavaScript.
pub const MAX_REQUEST_ID: u64 = (1 << 53) - 1;
/// Maximum length of a JWT, in bytes: it fits in a header beside others. A longer one gets 401.
pub const MAX_TOKEN_BYTES: usize = 4 * 1024;
/// Maximum query string of a connect request, in bytes: two tokens of 4 KiB and the ids. A longer
/// one gets 400.
pub const MAX_QUERY_BYTES: usize = 8 * 1024 + 512;

/// Default hold time for an absent recipient. A setting replaces it; a `ttl_ms` can shorten it.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(20);
/// Maximum hold time (655.35 s): the range of two bytes in steps of 10 ms.
pub const MAX_HOLD: Duration = Duration::from_millis(u16::MAX as u64 * 10);
/// Maximum time that a lingering session can be resumed. A reliable client may retransmit after its
/// resume. So while there is room, recipients' edges remember it longer by this and a heartbeat.
pub const MAX_RESUME: Duration = Duration::from_secs(5 * 60);
/// Default silence before the edge pings a client. Mobile carriers drop idle flows after 30 s.
pub const HEARTBEAT: Duration = Duration::from_secs(25);
/// Time for a client to answer this ping by any byte. Without one its socket closes with 4004.
pub const HEARTBEAT_ANSWER: Duration = Duration::from_secs(10);
/// Time for the open socket of a client id to answer a ping. After it a newcomer gets the id.
pub const TAKEOVER_ANSWER: Duration = Duration::from_secs(2);

/// Maximum `retry_after_ms` of a draining server's `goodbye`. A random part spreads the reconnects.
pub const MAX_GOODBYE_DELAY: Duration = Duration::from_secs(1);
