/** Who this tab is: a name from the address, or a random one that the tab keeps through reloads. */

const STORAGE_KEY = 'signaling-client-id';
const LETTERS = '23456789abcdefghjkmnpqrstuvwxyz';

/** Six letters that are hard to mistake for one another. */
export function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join('');
}

/** A fresh id, kept for this tab. */
export function drawClientId() {
  const id = `peer-${randomName()}`;
  sessionStorage.setItem(STORAGE_KEY, id);
  return id;
}

/**
 * @param {URLSearchParams} query the page's own
 * @returns {{clientId: string, chosen: boolean}} `chosen`: the user named it, so it is not ours to change
 */
export function identify(query) {
  const chosen = query.get('id');
  if (chosen) return { clientId: chosen, chosen: true };
  return { clientId: sessionStorage.getItem(STORAGE_KEY) ?? drawClientId(), chosen: false };
}

/** The link that calls `clientId` from another window. */
export function inviteLink(clientId) {
  return `${location.origin}/?call=${encodeURIComponent(clientId)}`;
}
