import { FIRST_BACKOFF, MAX_BACKOFF } from './rules.js';

/** Attempts in a row without a lasting connection, and the longest wait before the next one. */
export class RetryState {
  #attempts = 0;
  /** Time of the first loss in the row, if any. */
  #since = /** @type {number | undefined} */ (undefined);

  /**
   * Counts a loss and returns the longest wait before the next attempt, in milliseconds. It doubles
   * with each attempt, up to twice the time since the first loss: several short waits in a short
   * outage must not lead to a long one.
   */
  window(now) {
    const since = (this.#since ??= now);
    const doubled = FIRST_BACKOFF * 2 ** this.#attempts++;
    return Math.min(MAX_BACKOFF, doubled, Math.max(FIRST_BACKOFF, 2 * (now - since)));
  }
}
