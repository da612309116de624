/** Part of the server's rate that requests use. The rest is for acknowledgements and pings. */
const TENTHS = 9;
/** A message or byte of a bucket, in its units. Tenths per millisecond stay whole numbers. */
const UNIT = 10_000;
/** Bytes that the server counts for each message in addition to its text. */
const OVERHEAD = 64;

/** Sends requests within the rate of `welcome`, counted as the server does. */
export class Pacer {
  #messages = makeBucket(0);
  #bytes = makeBucket(0);
  /** Time at which the refused request may be sent; Infinity if none was refused. */
  freeAt = Infinity;

  /**
   * Starts with the server's limits and their present levels.
   *
   * @param {number} now
   * @param {Record<string, number>} [rate]
   */
  start(now, rate) {
    this.#messages = makeBucket(now, rate?.messages, rate?.burst, rate?.now);
    this.#bytes = makeBucket(now, rate?.bytes, rate?.byte_burst, rate?.bytes_now);
    this.freeAt = Infinity;
  }

  /** Returns `true` if a text of this size may be sent now, and counts it. */
  take(now, bytes) {
    const parts = [[this.#messages, 1], [this.#bytes, bytes + OVERHEAD]].filter(([bucket]) => bucket);
    const wait = Math.max(0, ...parts.map(([bucket, cost]) => waitOf(bucket, now, cost * UNIT)));
    this.freeAt = wait > 0 ? now + wait : Infinity;
    if (wait === 0) for (const [bucket, cost] of parts) bucket.level -= cost * UNIT;
    return wait === 0;
  }
}

/**
 * Returns null for a limit that is absent.
 *
 * @param {number} now
 * @param {number} [rate]
 * @param {number} [burst]
 * @param {number} [level]
 */
function makeBucket(now, rate = 0, burst = 0, level = burst) {
  if (!(rate > 0 && burst > 0)) return null;
  const perUnit = (UNIT * TENTHS) / 10;
  return { at: now, level: level * perUnit, capacity: burst * perUnit, refill: rate * TENTHS };
}

/** Refills a bucket. Returns the wait until it has this much, or is full, in milliseconds. */
function waitOf(bucket, now, cost) {
  bucket.level = Math.min(bucket.capacity, bucket.level + (now - bucket.at) * bucket.refill);
  bucket.at = now;
  return Math.ceil(Math.max(0, Math.min(cost, bucket.capacity) - bucket.level) / bucket.refill);
}
