/** When to come back after a lost connection. Pure: no clock, no socket. */

const BASE_MS = 1_000;
const CAP_MS = 30_000;
const POLICY_VIOLATION = 1008;
const AFTER_POLICY_MS = 30_000;
/** Protocol error, binary frame, bad UTF-8, too big: the same client would only do it again. */
const OUR_FAULT = new Set([1002, 1003, 1007, 1009]);

/** Whether a close code allows another try. */
export function mayComeBack(code) {
  return !OUR_FAULT.has(code) && !(code >= 4400 && code <= 4499);
}

/**
 * Milliseconds to wait: the server's own wish if it has one, else exponential backoff with full jitter.
 *
 * @param {{attempt: number, awayMs: number, code: number, retryAfterMs?: number | null}} loss `attempt` counts from 0, `awayMs` from the loss before that
 * @param {() => number} random in [0, 1)
 */
export function delayBeforeRetry({ attempt, awayMs, code, retryAfterMs }, random = Math.random) {
  const backoff = random() * Math.min(CAP_MS, BASE_MS * 2 ** attempt, Math.max(BASE_MS, 2 * awayMs));
  const delay = retryAfterMs ?? backoff;
  return code === POLICY_VIOLATION ? Math.max(delay, AFTER_POLICY_MS) : delay;
}
