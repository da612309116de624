/**
 * The session that a page leaves to the next page of its tab. `client.js` stores and takes it.
 *
 * A browser copies the sessionStorage of a tab that it duplicates. So a saved session names a
 * claim, an entry of the localStorage that all tabs share. The first page that takes the session
 * removes the claim. A copy without its claim is void.
 */

import { isName, isText } from './core/outgoing.js';
import { CLAIM_KEPT } from './core/rules.js';
import { randomId } from './random_id.js';

/** Prefix of the key of a claim, before random numbers. Its value is the time of its creation. */
const CLAIM = 'signaling-mesh-claim:';

/**
 * The state of a client that continues its session, as `core` saves and restores it.
 *
 * @typedef {object} Session
 * @property {string} client_id
 * @property {string | null} resume token that resumes the session; null before the first `welcome`
 * @property {number} next_id number of the next request in the session
 * @property {{id: number, request: object}[]} unanswered sent requests without an answer, in order
 * @property {object[]} queued requests that were not sent, in order
 * @property {{room: string, data?: unknown, rejoins?: boolean}[]} rooms rooms to rejoin in a new
 *   session; with `rejoins` also in this one
 * @property {string[]} names names of the latest received messages, for deduplication
 * @property {string} [claim] key of the claim; undefined if pages share no storage
 */

/** The stored session of one client. At most one is stored at a time. */
export class SavedSession {
  #clientId;
  #key;
  #storage;
  /** The text that was stored last, or null. */
  #latest = /** @type {string | null} */ (null);

  /**
   * @param {string} clientId
   * @param {import('./types.js').ClientOptions['storage']} [storage] of this tab; null: nothing is
   *   stored
   */
  constructor(clientId, storage = storageOfPage()) {
    this.#clientId = clientId;
    this.#key = `signaling-mesh:${clientId}`;
    this.#storage = storage;
  }

  /**
   * Stores a session in place of the last one, with a new claim. A storage may refuse it.
   *
   * @param {Session} session
   */
  put(session) {
    this.#latest = null;
    if (!this.#storage) return;
    const text = JSON.stringify({ ...session, claim: makeClaim() });
    try {
      this.#storage.setItem(this.#key, text);
      this.#latest = text;
    } catch {}
  }

  /**
   * Removes the stored session and its claim.
   *
   * @returns {{session: Session | undefined, isOwn: boolean}} `session` is undefined if there is
   *   none, another page has taken it, it is damaged, of another client, or its claim is gone.
   *   `isOwn`: whether the last `put` is still what this page would find
   */
  take() {
    const text = this.#storage?.getItem(this.#key) ?? null;
    this.#storage?.removeItem(this.#key);
    const session = this.#parse(text);
    const isVoid = text && !session;
    return { session, isOwn: text === this.#latest && !isVoid };
  }

  #parse(text) {
    try {
      const session = JSON.parse(text);
      const { claim } = session;
      // Another page has taken the session, and removed the claim.
      const isVoid = claim && !(claim in localStorage);
      if (claim) localStorage.removeItem(claim);
      if (!isVoid && session.client_id === this.#clientId && isWhole(session)) return session;
    } catch {}
  }
}

/** The page's sessionStorage. Undefined: there is none, or the page may not use it (a sandbox). */
function storageOfPage() {
  try {
    return sessionStorage;
  } catch {}
}

/** Removes old claims, and returns the key of a new one; undefined where pages share no storage. */
function makeClaim() {
  try {
    for (const [key, time] of Object.entries(localStorage)) {
      const isOld = key.startsWith(CLAIM) && time <= Date.now() - CLAIM_KEPT;
      if (isOld) localStorage.removeItem(key);
    }
    const claim = CLAIM + randomId();
    localStorage.setItem(claim, /** @type {any} */ (Date.now()));
    return claim;
  } catch {}
}

/** Returns `true` if a session has all its fields, of their types. It may throw if not. */
const isWhole = (session) =>
  isText(session.resume ?? '') &&
  Number.isFinite(session.next_id) &&
  session.unanswered.every(({ id, request }) => Number.isFinite(id) && isText(request.type)) &&
  session.queued.every(({ type }) => isText(type)) &&
  session.rooms.every(({ room }) => isName(room)) &&
  session.names.every(isText);
