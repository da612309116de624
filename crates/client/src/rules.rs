//! Times and limits of both SDKs, with reasons. Times ([`Ms`]) are in milliseconds.

use crate::core::Ms;

/// Maximum wait before the first attempt after a loss. Each further maximum is twice the last one,
/// or twice the time since the loss if that is less, but never below this.
pub(crate) const FIRST_BACKOFF: Ms = 1_000;
/// Maximum wait that a client chooses itself.
pub(crate) const MAX_BACKOFF: Ms = 30_000;
/// Maximum wait that a server can ask for: an operator's mistake must not lose clients for good.
pub(crate) const MAX_HINT: Ms = 3_600_000;
/// Minimum wait after a policy violation (close code 1008).
pub(crate) const MIN_POLICY_WAIT: Ms = 30_000;
/// Time after `welcome` from which a connection resets the backoff.
pub(crate) const STABLE_AFTER: Ms = 10_000;

/// Time limit from the opening of a connection to `welcome`.
pub(crate) const WELCOME_TIMEOUT: Ms = 10_000;
/// Time limit from the start of an attempt to the open socket: a dead machine behind a load
/// balancer swallows attempts for a minute.
pub(crate) const OPEN_TIMEOUT: Ms = 4_000;
/// Every such attempt in a row may take [`WELCOME_TIMEOUT`] to open, for slow paths.
pub(crate) const PATIENT_ATTEMPT: u32 = 4;
/// Time after which a request of ICE servers without an answer is repeated.
pub(crate) const ICE_RETRY: Ms = 60_000;
/// Minimum time from ICE servers to the request of the next ones.
pub(crate) const MIN_ICE_WAIT: Ms = 1_000;

/// Time limit of the token callback, and time until a failed renewal is repeated.
pub(crate) const TOKEN_TIMEOUT: Ms = 30_000;
/// Time between renewal and expiry of a token; a tenth of its validity if that is less.
pub(crate) const RENEW_BEFORE: Ms = 30_000;

/// Time from `welcome` or the last ping to the next ping.
pub(crate) const PING_INTERVAL: Ms = 10_000;
/// Time from a ping to any input, after which the socket counts as dead.
pub(crate) const PONG_TIMEOUT: Ms = 5_000;
/// Delay of a timer from which this process counts as paused, instead of the server as silent.
pub(crate) const PAUSE_TOLERANCE: Ms = 5_000;

/// Delay of `received` after the first message that it acknowledges.
pub(crate) const RECEIVED_DELAY: Ms = 200;
/// Number of unacknowledged messages at which `received` is sent at once.
pub(crate) const MAX_UNACKNOWLEDGED: u64 = 64;
/// Time that a message's name is kept. No duplicate comes later, with any settings of the mesh.
pub(crate) const NAME_LIFETIME: Ms = 17 * 60 * 1_000;
/// Maximum names kept. At 500 messages/s they last about 2 minutes, enough for the default times.
pub(crate) const MAX_NAMES: usize = 65_536;
/// Maximum names in a saved session: as many messages as a server sends without a `received`.
pub(crate) const MAX_SAVED_NAMES: usize = 4_096;

/// Maximum requests without an answer, as PROTOCOL.md requires. A server keeps twice as many.
pub(crate) const MAX_UNANSWERED: usize = 128;
/// Size of unanswered requests, in bytes, at which no further request is sent.
pub(crate) const MAX_UNANSWERED_BYTES: usize = 128 * 1024;
/// Tenths of the server's rate that requests use. The rest is for `received` and pings.
pub(crate) const RATE_TENTHS: i128 = 9;
/// Bytes that the server counts for each message in addition to its text.
pub(crate) const MESSAGE_OVERHEAD: usize = 64;
/// Maximum characters of a server's text that are kept as a reason.
pub(crate) const MAX_REASON: usize = 200;
/// Minimum wait before a refused rejoin is repeated, and between repetitions without success: a
/// client in many rooms must not exceed the server's rate of messages.
pub(crate) const MIN_REJOIN_WAIT: Ms = 100;
/// Maximum wait before a refused rejoin is repeated.
pub(crate) const MAX_REJOIN_WAIT: Ms = 30_000;
/// Maximum rooms that a client is in or waits for.
pub(crate) const MAX_ROOMS: usize = 256;
