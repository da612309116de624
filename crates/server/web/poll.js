/** The requests to the server that serves the page, and whether its answers can be relied on. */

/** Answers come every second; after this time without one something is wrong. */
export const SILENCE_MS = 3_500;
/** Above the time in which a server answers. */
const TIMEOUT_MS = 6_000;
/** Where the token stays until the tab is closed. */
const TOKEN = 'signaling-admin-token';

/** Events: `answer` (`detail` is it) and `state` (another field has changed, or time has passed). */
export class Poll extends EventTarget {
  isLive = false;
  /** Whether the server asks for a token. Until it has one it is asked for nothing. */
  needsToken = false;
  /** Why the server refuses; empty if it does not. */
  refusal = '';
  #lastAt = null;
  #path;
  #fetch;
  #now;
  #storage;

  /**
   * @param {string} path
   * @param {object} [world] other ones for tests
   */
  constructor(path, { fetch = (...given) => globalThis.fetch(...given), now = () => performance.now(), storage = sessionStorage } = {}) {
    super();
    [this.#path, this.#fetch, this.#now, this.#storage] = [path, fetch, now, storage];
  }

  /** Asks once. Resolves when there is an answer, or will be none. */
  async ask() {
    if (this.needsToken) return;
    try {
      const token = this.#storage.getItem(TOKEN);
      const headers = token ? { authorization: `Bearer ${token}` } : {};
      const response = await this.#fetch(this.#path, { headers, cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) });
      const answer = await response.json();
      if (response.ok) this.#take(answer);
      else this.#refused(response.status, answer.error?.message ?? `status ${response.status}`);
    } catch {
      [this.isLive, this.refusal] = [false, ''];
    }
    this.dispatchEvent(new Event('state'));
  }

  /** Shows this token from now on. @param {string} token */
  showToken(token) {
    this.#storage.setItem(TOKEN, token);
    this.needsToken = false;
    this.dispatchEvent(new Event('state'));
  }

  /** Compares the time; call it once a second. */
  look() {
    if (this.silenceMs > SILENCE_MS) this.isLive = false;
    this.dispatchEvent(new Event('state'));
  }

  /** @returns {number | null} time since the last answer */
  get silenceMs() {
    return this.#lastAt === null ? null : this.#now() - this.#lastAt;
  }

  #take(answer) {
    [this.isLive, this.refusal, this.#lastAt] = [true, '', this.#now()];
    this.dispatchEvent(new CustomEvent('answer', { detail: answer }));
  }

  #refused(status, message) {
    [this.isLive, this.refusal] = [false, message];
    if (status !== 401) return;
    // A token that was refused once is not shown again.
    this.#storage.removeItem(TOKEN);
    this.needsToken = true;
  }
}
