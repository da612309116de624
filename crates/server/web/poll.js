/** Requests to the server of the page, for `app.js`. */

/** Time without an answer, in milliseconds, after which the page is not live. */
export const SILENCE_MS = 3_500;
/** Time limit of a request in milliseconds. Servers answer sooner. */
const TIMEOUT_MS = 6_000;
/** Key of the token in sessionStorage. */
const TOKEN_KEY = 'signaling-admin-token';

/** Events: `answer` (`detail` is the answer) and `state` (a field or the time has changed). */
export class Poll extends EventTarget {
  /** Whether the latest request succeeded, at most `SILENCE_MS` ago. */
  isLive = false;
  /** Whether the server refused the latest request by 401. Requests stop until `useToken`. */
  needsToken = false;
  /** Whether that request had a token. */
  hasWrongToken = false;
  /** Error message of the latest answer; empty if it is no error or there is no answer. */
  refusal = '';
  /** Time of the latest answer, or null. */
  #lastAt = null;
  #path;
  #fetch;
  #now;
  #storage;

  /**
   * @param {string} path of the URL that is requested
   * @param {object} [world] replacements for tests
   */
  constructor(path, { fetch, now = () => performance.now(), storage = sessionStorage } = {}) {
    super();
    this.#path = path;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#now = now;
    this.#storage = storage;
  }

  /** Sends one request, unless a token is needed. Resolves after its answer or failure. */
  async request() {
    if (this.needsToken) return;
    try {
      const token = this.#storage.getItem(TOKEN_KEY);
      const headers = token ? { authorization: `Bearer ${token}` } : {};
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await this.#fetch(this.#path, { headers, cache: 'no-store', signal });
      const answer = await response.json();
      if (response.ok) this.#answered(answer);
      else this.#refused(response.status, answer.error?.message ?? `status ${response.status}`, token);
    } catch {
      this.isLive = false;
      this.refusal = '';
    }
    this.dispatchEvent(new Event('state'));
  }

  /** Sends this token with all requests of this tab from now on. @param {string} token */
  useToken(token) {
    this.#storage.setItem(TOKEN_KEY, token);
    this.needsToken = false;
    this.dispatchEvent(new Event('state'));
  }

  /** Checks the time since the latest answer. Call it once a second. */
  tick() {
    if (this.silenceMs > SILENCE_MS) this.isLive = false;
    this.dispatchEvent(new Event('state'));
  }

  /** Time since the latest answer without an error, in milliseconds; null before the first. */
  get silenceMs() {
    return this.#lastAt === null ? null : this.#now() - this.#lastAt;
  }

  #answered(answer) {
    this.isLive = true;
    this.refusal = '';
    this.#lastAt = this.#now();
    this.dispatchEvent(new CustomEvent('answer', { detail: answer }));
  }

  #refused(status, message, token) {
    this.isLive = false;
    this.refusal = message;
    if (status !== 401) return;
    this.hasWrongToken = token !== null;
    this.#storage.removeItem(TOKEN_KEY);
    this.needsToken = true;
  }
}
