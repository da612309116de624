/** The stream of snapshots, and whether it can be relied on. */

/** Snapshots come every second; after so long something is wrong. */
export const SILENCE_MS = 3_500;
/** A browser gives up on a stream that is refused; this page does not. */
const REOPEN_MS = 3_000;

/** Events: `snapshot` (`detail` is it), `state` (`isLive` may have changed, or more time have passed since the last). */
export class Stream extends EventTarget {
  isLive = false;
  /** When the last snapshot came, by `now`. */
  lastAt = null;
  #path;
  #open;
  #now;
  #source = null;
  #reopenAt = null;

  /**
   * @param {string} path
   * @param {{open?: (path: string) => EventSource, now?: () => number}} [world] other ones for tests
   */
  constructor(path, { open = (path) => new EventSource(path), now = () => performance.now() } = {}) {
    super();
    [this.#path, this.#open, this.#now] = [path, open, now];
    this.#connect();
  }

  /** Looks at the time; call it once a second. */
  look() {
    const now = this.#now();
    if (this.lastAt !== null && now - this.lastAt > SILENCE_MS) this.isLive = false;
    if (this.#reopenAt !== null && now >= this.#reopenAt) this.#connect();
    this.dispatchEvent(new Event('state'));
  }

  /** @returns {number | null} since when there has been no snapshot */
  get silenceMs() {
    return this.lastAt === null ? null : this.#now() - this.lastAt;
  }

  #connect() {
    this.#source?.close();
    this.#reopenAt = null;
    const source = this.#open(this.#path);
    this.#source = source;
    source.addEventListener('message', ({ data }) => this.#take(data));
    source.addEventListener('error', () => {
      if (source !== this.#source) return;
      this.isLive = false;
      // 2 is CLOSED: it was refused, and the browser will not ask again.
      if (source.readyState === 2) this.#reopenAt = this.#now() + REOPEN_MS;
      this.dispatchEvent(new Event('state'));
    });
  }

  #take(data) {
    this.isLive = true;
    this.lastAt = this.#now();
    this.dispatchEvent(new CustomEvent('snapshot', { detail: JSON.parse(data) }));
    this.dispatchEvent(new Event('state'));
  }
}
