/**
 * Times and limits. Those of the core have the names and values of the Rust SDK:
 * `../../src/rules.rs` has the reasons. Times are in milliseconds.
 */

/** Maximum wait before the first attempt after a loss, and minimum of later maxima. */
export const FIRST_BACKOFF = 1_000;
/** Maximum wait that a client chooses itself. */
export const MAX_BACKOFF = 30_000;
/** Maximum wait that a server can ask for. */
export const MAX_HINT = 3_600_000;
/** Minimum wait after a policy violation (close code 1008). */
export const MIN_POLICY_WAIT = 30_000;
/** Lifetime of a connection that resets the backoff. */
export const STABLE_AFTER = 10_000;

/** Time limit from the start of an attempt to `welcome`. */
export const WELCOME_TIMEOUT = 10_000;
/** Time limit from the start of an attempt to the open socket. */
export const OPEN_TIMEOUT = 4_000;
/** Every such attempt in a row may take `WELCOME_TIMEOUT` to open, for slow paths. */
export const PATIENT_ATTEMPT = 4;

/** Time limit of the token callback, after which a renewal is repeated. */
export const TOKEN_TIMEOUT = 30_000;
/** Time between renewal and expiry of a token; a tenth of its validity if that is less. */
export const RENEW_BEFORE = 30_000;

/** Time after which a request of ICE servers without an answer is repeated. */
export const ICE_RETRY = 60_000;
/** Minimum time from ICE servers to the request of the next ones. */
export const MIN_ICE_WAIT = 1_000;

/** Interval of pings on an open socket. */
export const PING_INTERVAL = 10_000;
/** Time limit of any input after a ping. */
export const PONG_TIMEOUT = 5_000;
/** A timer this late means that the page was paused, not that the server is silent. */
export const PAUSE_TOLERANCE = 5_000;

/** Delay of `received` after the first message that it acknowledges. */
export const RECEIVED_DELAY = 200;
/** Number of unacknowledged messages at which `received` is sent at once. */
export const MAX_UNACKNOWLEDGED = 64;
/** Time that a message's name is kept. */
export const NAME_LIFETIME = 1_020_000;
/** Maximum names kept. */
export const MAX_NAMES = 65_536;
/** Maximum names in a saved session. */
export const MAX_SAVED_NAMES = 4_096;

/** Size limit of a message before the first `welcome`, in bytes. */
export const DEFAULT_MESSAGE_BYTES = 65_536;
/** Maximum requests without an answer. */
export const MAX_UNANSWERED = 128;
/** Size of unanswered requests, in bytes, at which no further request is sent. */
export const MAX_UNANSWERED_BYTES = 131_072;
/** Minimum wait before a refused rejoin is repeated, and between repetitions without success. */
export const MIN_REJOIN_WAIT = 100;
/** Maximum wait before a refused rejoin is repeated. */
export const MAX_REJOIN_WAIT = 30_000;
/** Maximum rooms that a client is in or waits for. */
export const MAX_ROOMS = 256;

/** Maximum UTF-16 units of a server's text that are kept as a reason. */
export const MAX_REASON = 200;
/** Maximum requests that are not sent yet, unless given. */
export const QUEUE = 4_096;
/** Maximum bytes of requests that are not sent yet, unless given. */
export const QUEUE_BYTES = 2_097_152;
/** Bytes that each request counts in addition to its text without a number. */
export const MAX_HEAD = 48;
/** Time limit of a request, unless given. */
export const REQUEST_TIMEOUT = 60_000;

/** Longest timer of a browser. */
export const MAX_TIMER = 2_147_483_647;
/** Time limit of the promise of `connect`, unless given. */
export const CONNECT_TIMEOUT = 20_000;
/** Time in which `close` of a socket follows `error`. Node.js may fire `error` alone. */
export const CLOSE_FOLLOWS = 50;
/** Time limit of a closing handshake. */
export const MAX_CLOSING = 2_000;
/** Maximum seconds that a right clock is behind the one of the issuer of a token. */
export const CLOCK_TOLERANCE_S = 60;
/** Time that the claim of a saved session is kept: twice as long as any server keeps a session. */
export const CLAIM_KEPT = 600_000;

/** Maximum members of a call with a direct connection, unless given. */
export const MAX_PEERS = 8;
/**
 * Maximum signals of a call kept of senders that are not members yet; the oldest are dropped, and
 * requested again. Signals can overtake the news of a member.
 */
export const MAX_EARLY = 256;
/** First wait after a refused signal of a call; doubled up to the last. */
export const FIRST_RETRY = 2_000;
export const LAST_RETRY = 30_000;
/** Maximum bytes in the buffer of a channel that takes another message. */
export const MAX_BUFFERED = 1_048_576;
/** ICE restarts without success before `failure`. */
export const MAX_RESTARTS = 3;
