//! The times and bounds that both SDKs keep, each with its reason. Times are in milliseconds.

use crate::core::Ms;

/// The first try after a loss waits at most this; each further one twice as long, or twice the time since that loss if
/// this is less.
pub(crate) const BACKOFF_BASE: Ms = 1_000;
/// No wait that a client chooses itself is longer.
pub(crate) const BACKOFF_CAP: Ms = 30_000;
/// The longest wait that a server can ask for: a slip there must not lose its clients for good.
pub(crate) const MAX_HINT: Ms = 3_600_000;
/// After a breach of policy (1008) nobody comes back sooner.
pub(crate) const AFTER_POLICY: Ms = 30_000;
/// A connection that lasted so long makes the next loss the first of a row.
pub(crate) const SETTLED: Ms = 10_000;

/// From the start of a try to `welcome`.
pub(crate) const WELCOME_WITHIN: Ms = 10_000;
/// How long the callback for tokens may take: it may ask a server of its own.
pub(crate) const TOKEN_WITHIN: Ms = 30_000;
/// A token is renewed so long before it expires, or a tenth of its life if that is less.
pub(crate) const RENEW_BEFORE: Ms = 30_000;

/// How often an open socket is asked for a sign of life.
pub(crate) const PING_EVERY: Ms = 10_000;
/// How long it has to give one.
pub(crate) const ANSWER_WITHIN: Ms = 5_000;
/// A timer that comes so much too late says that this process slept, not that the server did.
pub(crate) const OVERSLEPT: Ms = 5_000;

/// `received` is said so long after the first message that it is for.
pub(crate) const SAY_WITHIN: Ms = 200;
/// When so many messages are unsaid, it is said at once.
pub(crate) const MOST_UNSAID: u64 = 64;
/// How long a message's name is known: with the longest times that an operator can set, no repeat comes later.
pub(crate) const NAME_KNOWN: Ms = 17 * 60 * 1_000;
/// Names known at most. At 500 messages a second they last two minutes, which the usual times need.
pub(crate) const MAX_NAMES: usize = 65_536;
/// Names that a stored session takes along: more than this nobody can have sent without a `received`.
pub(crate) const MAX_SAVED_NAMES: usize = 4_096;

/// Requests without an answer: the mesh keeps so many of one client.
pub(crate) const MAX_UNANSWERED: usize = 128;
/// No further request is sent while those have so many bytes.
pub(crate) const MAX_UNANSWERED_BYTES: usize = 128 * 1024;
/// Rooms that a client is in, or waits for, at a time.
pub(crate) const MAX_ROOMS: usize = 256;
