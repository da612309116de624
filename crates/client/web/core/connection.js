import { MAX_UNACKNOWLEDGED, RECEIVED_DELAY, STABLE_AFTER } from './rules.js';
import { PAUSE_TOLERANCE, PING_INTERVAL, PONG_TIMEOUT } from './rules.js';

/** State of one welcomed socket: keep-alive, and message numbers. `core.js` keeps it. */
export class Connection {
  #welcomedAt;
  #pingAt;
  /** Time limit of the answer to a ping, or null. */
  #answerBy = /** @type {number | null} */ (null);
  /** Time of the latest ping without a pong, or null. */
  #pingedAt = /** @type {number | null} */ (null);
  /** Time from the latest ping to its pong, in milliseconds; null before it. */
  roundTripMs = /** @type {number | null} */ (null);
  /** Latest message number received. */
  #received = 0;
  /** Latest message number acknowledged. */
  #acknowledged = 0;
  /** When `received` is due, or null. */
  #acknowledgeAt = /** @type {number | null} */ (null);

  constructor(now) {
    this.#welcomedAt = now;
    this.#pingAt = now + PING_INTERVAL;
  }

  /** Returns `true` if the socket has lasted 10 s, which resets the backoff. */
  isStable(now) {
    return now - this.#welcomedAt >= STABLE_AFTER;
  }

  get awaitsAnswer() {
    return this.#answerBy !== null;
  }

  /** Ends the wait for an answer: something arrived. */
  inputArrived() {
    this.#answerBy = null;
  }

  /** Measures the round trip. */
  pongArrived(now) {
    if (this.#pingedAt !== null) this.roundTripMs = now - this.#pingedAt;
    this.#pingedAt = null;
  }

  /** Counts a message. Returns `false` if an earlier one is missing. */
  receive(now, n) {
    if (n !== this.#received + 1) return false;
    this.#received = n;
    this.#acknowledgeAt ??= now + RECEIVED_DELAY;
    return true;
  }

  get hasUnacknowledged() {
    return this.#acknowledgeAt !== null;
  }

  get mustAcknowledge() {
    return this.#received - this.#acknowledged >= MAX_UNACKNOWLEDGED;
  }

  /** Returns the message that acknowledges all received ones. */
  acknowledge() {
    this.#acknowledged = this.#received;
    this.#acknowledgeAt = null;
    return { type: 'received', n: this.#received };
  }

  /** Returns a ping, and starts the wait for its answer. */
  ping(now) {
    this.#pingAt = now + PING_INTERVAL;
    this.#pingedAt = now;
    this.#answerBy = now + PONG_TIMEOUT;
    return { type: 'ping' };
  }

  /** Time at which `due` has something. */
  get deadline() {
    return Math.min(this.#answerBy ?? this.#pingAt, this.#acknowledgeAt ?? Infinity);
  }

  /**
   * Returns the next message to send, `silent` if the server does not answer a ping, or null. Call
   * it until null.
   */
  due(now) {
    if (this.#acknowledgeAt !== null && this.#acknowledgeAt <= now) return this.acknowledge();
    if (this.#answerBy === null) return now >= this.#pingAt ? this.ping(now) : null;
    if (now >= this.#answerBy + PAUSE_TOLERANCE) return this.ping(now);
    return now >= this.#answerBy ? 'silent' : null;
  }
}
