/** Part of the server's rate that requests use. The rest is for acknowledgements and pings. */
const TENTHS = 9;
/** A message or byte of a bucket, in its units. Tenths per millisecond stay whole numbers. */
const UNIT = 10_000;
/** Bytes that the server counts for each message in addition to its text. */
const OVERHEAD = 64;

/** Sends requests within the rate of `welcome`, counted as the server does. */
export class Pacer {
  /** For messages and for their bytes; none before `start`. */
  #buckets = /** @type {ReturnType<typeof makeBucket>[]} */ ([]);
  /** Time at which the refused request may be sent; Infinity if none was refused. */
  freeAt = Infinity;

  /**
   * Starts with the server's limits and their present levels.
   *
   * @param {number} now
   * @param {Record<string, number>} rate
   */
  start(now, rate) {
    this.#buckets = [
      makeBucket(now, rate.messages, rate.burst, rate.now),
      makeBucket(now, rate.bytes, rate.byte_burst, rate.bytes_now),
    ];
  }

  /** Returns `true` if a text of this size may be sent now, and counts it. */
  take(now, bytes) {
    const costs = [UNIT, (bytes + OVERHEAD) * UNIT];
    const times = this.#buckets.map(({ gain, capacity, fullAt }, at) =>
      Math.ceil((fullAt - Math.max(0, capacity - costs[at])) / gain));
    const freeAt = Math.max(...times);
    this.freeAt = freeAt > now ? freeAt : Infinity;
    if (freeAt > now) return false;
    this.#buckets.forEach((bucket, at) => {
      bucket.fullAt = Math.max(bucket.fullAt, now * bucket.gain) + costs[at];
    });
    return true;
  }
}

/**
 * Returns a bucket: what it gains in 1 ms, what it holds at most, and the time when it is full,
 * times `gain`.
 *
 * @param {number} now
 * @param {number} [rate]
 * @param {number} [burst]
 * @param {number} [level]
 */
function makeBucket(now, rate = 0, burst = 0, level = burst) {
  // No limit.
  if (!(rate > 0 && burst > 0)) return { gain: 1, capacity: Infinity, fullAt: 0 };
  // Nine tenths of each limit, in units.
  const gain = rate * TENTHS;
  return { gain, capacity: burst * TENTHS * 1_000, fullAt: now * gain + (burst - level) * TENTHS * 1_000 };
}
