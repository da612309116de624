import { RENEW_BEFORE, TOKEN_TIMEOUT } from './rules.js';

/** The client's token, and the time of its renewal. */
export class Tokens {
  #hasSource;
  /** `{text, renewAt, attempts}` or null; `renewAt` is Infinity for a token without an end. */
  #current = /** @type {{text: string, renewAt: number, attempts: number} | null} */ (null);
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
   * @param {{token: string, valid_ms?: number | null}} token `valid_ms` null: it does not expire
   */
  set(now, { token, valid_ms: validMs = null }) {
    this.#renewingUntil = null;
    const valid = validMs ?? Infinity;
    const renewAt = now + valid - Math.min(RENEW_BEFORE, Math.floor(valid / 10));
    this.#current = { text: token, renewAt, attempts: 0 };
  }

  /** Drops a token due for renewal. Returns `true` if the next attempt needs a new one first. */
  isMissing(now) {
    if (this.#current && this.#current.renewAt <= now) this.#current = null;
    return this.#hasSource && this.#current === null;
  }

  /** Returns the token for an attempt, which it counts. Undefined: the client uses no tokens. */
  useForAttempt() {
    if (this.#current === null) return undefined;
    this.#current.attempts += 1;
    return this.#current.text;
  }

  /**
   * Drops a rejected token. Returns `true` if a new one from the callback may help: it may not if
   * the rejected one was made for this attempt.
   *
   * @param {boolean} wasWelcome `true` if the server had accepted the token
   */
  reject(wasWelcome) {
    const isUsed = wasWelcome || (this.#current?.attempts ?? 0) > 1;
    this.#current = null;
    return this.#hasSource && isUsed;
  }

  /**
   * Time when an open connection needs a new token, or the time limit of the renewal in progress.
   * Infinity: never.
   */
  get deadline() {
    return this.#renewingUntil ?? this.#current?.renewAt ?? Infinity;
  }

  /** Returns `true` if a renewal is due at `now`, and starts its time limit. */
  startDueRenewal(now) {
    if (!this.#hasSource || this.deadline > now) return false;
    this.#renewingUntil = now + TOKEN_TIMEOUT;
    return true;
  }
}
