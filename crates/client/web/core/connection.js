import { MAX_UNACKNOWLEDGED, PING_INTERVAL, PONG_TIMEOUT, RECEIVED_DELAY } from './rules.js';

/** State of one welcomed socket: keep-alive, and message numbers. `core.js` keeps it. */
export class Connection {
  start;
  /** Time limit of the answer to a ping; Infinity if something arrived since. */
  answerBy = Infinity;
  /** When `received` is due; Infinity if all messages are acknowledged. */
  ackAt = Infinity;
  #pingAt;
  /** Latest message number received. */
  #received = 0;
  /** Latest message number acknowledged. */
  #acknowledged = 0;

  constructor(now) {
    this.start = now;
    this.#pingAt = now + PING_INTERVAL;
  }

  /** Returns the time since the latest ping, in milliseconds. */
  pong(now) {
    return now - this.#pingAt + PING_INTERVAL;
  }

  /** Counts a message. Returns `false` if an earlier one is missing. */
  receive(now, n) {
    this.#received += 1;
    this.ackAt = Math.min(this.ackAt, now + RECEIVED_DELAY);
    return n === this.#received;
  }

  /** Returns `true` if 64 messages are unacknowledged. */
  get mustAcknowledge() {
    return this.#received - this.#acknowledged >= MAX_UNACKNOWLEDGED;
  }

  /** Returns the message that acknowledges all received ones. */
  received() {
    this.#acknowledged = this.#received;
    this.ackAt = Infinity;
    return { type: 'received', n: this.#received };
  }

  /** Returns a ping, and starts the wait for its answer. */
  ping(now) {
    this.#pingAt = now + PING_INTERVAL;
    this.answerBy = now + PONG_TIMEOUT;
    return { type: 'ping' };
  }

  /** Time at which `due` has something. */
  get deadline() {
    return Math.min(this.answerBy, this.#pingAt, this.ackAt);
  }

  /**
   * Returns the next message to send, `silent` if the server does not answer a ping, or null. Call
   * it until null.
   */
  due(now) {
    if (now >= this.ackAt) return this.received();
    // Also if a ping has no answer: `PAUSE_TOLERANCE` after its limit, the page was paused.
    if (now >= this.#pingAt) return this.ping(now);
    return now >= this.answerBy ? 'silent' : null;
  }
}
