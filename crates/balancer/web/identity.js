/** Who this tab is, and which room its address names. */

const ID_KEY = 'signaling-client-id';
const NAME_KEY = 'signaling-name';
const LETTERS = '23456789abcdefghjkmnpqrstuvwxyz';

/** Six letters that are hard to mistake for one another. */
export function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join('');
}

/** A fresh id, kept for this tab through reloads. */
export function drawClientId() {
  const id = `peer-${randomName()}`;
  sessionStorage.setItem(ID_KEY, id);
  return id;
}

/**
 * @param {URLSearchParams} query the page's own
 * @returns {{clientId: string, chosen: boolean}} `chosen`: the user named it, so it is not ours to change
 */
export function identify(query) {
  const chosen = query.get('id');
  if (chosen) return { clientId: chosen, chosen: true };
  return { clientId: sessionStorage.getItem(ID_KEY) ?? drawClientId(), chosen: false };
}

/** What the user is called, '' for nothing. */
export const storedName = () => sessionStorage.getItem(NAME_KEY) ?? '';
export const storeName = (name) => sessionStorage.setItem(NAME_KEY, name);

/** The room that the address names, or ''. */
export function roomOf({ hash, search }) {
  return decodeURIComponent(hash.slice(1)) || (new URLSearchParams(search).get('room') ?? '');
}

/** The link that leads others into a room. */
export const roomLink = (room) => `${location.origin}/#${encodeURIComponent(room)}`;
