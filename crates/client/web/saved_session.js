/**
 * The session that a page leaves to the next page of its tab. `client.js` stores and takes it.
 *
 * A browser copies the sessionStorage of a tab that it duplicates. So a saved session names a
 * claim, an entry of the localStorage that all tabs share. The first page that takes the session
 * removes the claim. A copy without its claim is void.
 */

import { isName } from './core/outgoing.js';

const STORED = 'signaling-mesh:';
const CLAIM = 'signaling-mesh-claim:';
/** Time that a claim is kept, in milliseconds: twice as long as any server keeps a session. */
const CLAIM_KEPT = 600_000;

/** The stored session of one client. */
export class SavedSession {
  #storage;
  #key;

  /**
   * @param {Storage | null} storage null: nothing is stored
   * @param {string} clientId
   */
  constructor(storage, clientId) {
    this.#storage = storage;
    this.#key = STORED + clientId;
  }

  /** Stores a session. Returns the stored text, or null if it could not be stored. */
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

  /** Removes the stored text and returns it; null if there is none or another page has it. */
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
    const claim = CLAIM + crypto.getRandomValues(new Uint32Array(4)).join('-');
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

/** Returns `true` if this page may use a stored session. */
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

/** Parses a stored session. Undefined: it is damaged, or of another client. */
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
