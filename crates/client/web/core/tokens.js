import { RENEW_BEFORE, TOKEN_TIMEOUT } from './rules.js';

/** The client's token, and the time of its renewal. */
export class Tokens {
  #hasSource;
  /** @type {string | undefined} */
  #token;
  /** Number of attempts with the token. */
  #attempts = 0;
  /** When the token needs a renewal; Infinity for one without an end, and without a token. */
  #renewAt = Infinity;
  /** Time limit of the renewal in progress, or null. */
  #renewingUntil = /** @type {number | null} */ (null);

  /** @param {boolean} hasSource whether the application has a callback for tokens */
  constructor(hasSource) {
    this.#hasSource = hasSource;
  }

  /**
   * Stores a token from the callback.
   *
   * @param {number} now time of the core, in ms
   * @param {{token: string, validMs?: number}} token without `validMs` it does not expire
   */
  set(now, { token, validMs = Infinity }) {
    this.#token = token;
    this.#attempts = 0;
    this.#renewAt = now + validMs - Math.min(RENEW_BEFORE, Math.floor(validMs / 10));
    this.#renewingUntil = null;
  }

  /** Drops a token due for renewal. Returns `true` if the next attempt needs a new one first. */
  isMissing(now) {
    if (this.#renewAt <= now) this.#drop();
    return this.#hasSource && this.#token === undefined;
  }

  /** Returns the token for an attempt, which it counts. Undefined: the client uses no tokens. */
  use() {
    this.#attempts += 1;
    return this.#token;
  }

  /**
   * Drops a rejected token. Returns `true` if a new one from the callback may help: it may not if
   * the rejected one was made for this attempt.
   *
   * @param {boolean} wasWelcome `true` if the server had accepted the token
   */
  reject(wasWelcome) {
    this.#drop();
    return this.#hasSource && (wasWelcome || this.#attempts > 1);
  }

  #drop() {
    this.#token = undefined;
    this.#renewAt = Infinity;
  }

  /**
   * Time when an open connection needs a new token, or the time limit of the renewal in progress.
   * Infinity: never.
   */
  get deadline() {
    return this.#renewingUntil ?? this.#renewAt;
  }

  /** Returns `true` if a renewal is due at `now`, and starts its time limit. */
  due(now) {
    if (!this.#hasSource || this.deadline > now) return false;
    this.#renewingUntil = now + TOKEN_TIMEOUT;
    return true;
  }
}
