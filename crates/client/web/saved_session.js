/**
 * The session that a page leaves to the next page of its tab. `client.js` stores and takes it.
 *
 * A browser copies the sessionStorage of a tab that it duplicates. So a saved session names a
 * claim, an entry of the localStorage that all tabs share. The first page that takes the session
 * removes the claim. A copy without its claim is void.
 */

import { isName } from './core/outgoing.js';
import { randomId } from './random_id.js';

/** Prefix of the key of a stored session, before the client id. */
const STORED = 'signaling-mesh:';
/** Prefix of the key of a claim, before random numbers. Its value is the time of its creation. */
const CLAIM = 'signaling-mesh-claim:';
/** Time that a claim is kept, in milliseconds: twice as long as any server keeps a session. */
const CLAIM_KEPT = 600_000;

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
  #storage;
  #key;

  /**
   * @param {import('./types.js').ClientOptions['storage']} storage of this tab; null: nothing is
   *   stored
   * @param {string} clientId
   */
  constructor(storage, clientId) {
    this.#storage = storage;
    this.#key = STORED + clientId;
  }

  /**
   * Stores a session in place of the last one, with a new claim.
   *
   * @param {Session} session
   * @returns {string | null} the stored text; null if the storage is null or refuses it
   */
  put(session) {
    if (this.#storage === null) return null;
    try {
      const text = JSON.stringify({ ...session, claim: makeClaim() });
      this.#storage.setItem(this.#key, text);
      return text;
    } catch {
      return null;
    }
  }

  /**
   * Removes the stored text and its claim. `parseSession` checks the text.
   *
   * @returns {string | null} the text; null if there is none, another page has taken it, its claim
   *   is gone or unreadable, or it is no JSON
   */
  take() {
    const text = this.#storage?.getItem(this.#key) ?? null;
    this.#storage?.removeItem(this.#key);
    return text !== null && takeClaim(text) ? text : null;
  }
}

/** Returns the key of a new claim; undefined where pages share no storage. */
function makeClaim() {
  try {
    const claims = globalThis.localStorage;
    removeOldClaims(claims);
    const claim = CLAIM + randomId();
    claims.setItem(claim, String(Date.now()));
    return claim;
  } catch {
    return undefined;
  }
}

function removeOldClaims(claims) {
  const keys = Array.from({ length: claims.length }, (_, at) => claims.key(at));
  for (const key of keys.filter((key) => key.startsWith(CLAIM))) {
    if (Date.now() - Number(claims.getItem(key)) >= CLAIM_KEPT) claims.removeItem(key);
  }
}

/** Removes the claim of a stored session. Returns `true` if this page may use the session. */
function takeClaim(text) {
  try {
    const { claim } = JSON.parse(text);
    if (claim === undefined) return true;
    const isFree = globalThis.localStorage.getItem(claim) !== null;
    globalThis.localStorage.removeItem(claim);
    return isFree;
  } catch {
    return false;
  }
}

/**
 * Parses a stored session.
 *
 * @param {string} text
 * @param {string} clientId
 * @returns {Session | undefined} undefined: it is damaged, empty, or of another client
 */
export function parseSession(text, clientId) {
  try {
    const session = JSON.parse(text);
    const { unanswered, queued, rooms } = session;
    const requests = [...unanswered.map(({ request }) => request), ...queued];
    const isWhole =
      session.client_id === clientId &&
      (session.resume === null || typeof session.resume === 'string') &&
      Number.isSafeInteger(session.next_id) &&
      [unanswered, queued, rooms, session.names].every(Array.isArray) &&
      unanswered.every(({ id }) => Number.isSafeInteger(id)) &&
      requests.every(({ type }) => typeof type === 'string') &&
      rooms.every(({ room }) => isName(room));
    return isWhole ? session : undefined;
  } catch {
    return undefined;
  }
}
