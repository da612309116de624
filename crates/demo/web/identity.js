/** The client id and the name of this tab, and the room of its address. */

const ID_KEY = 'signaling-client-id';
const NAME_KEY = 'signaling-name';
const CHARACTERS = '23456789abcdefghjkmnpqrstuvwxyz';

const isName = (text) => /^(?!~)[A-Za-z0-9._~:@-]{1,128}$/.test(text ?? '');

/** Returns six random letters or digits, never 0, 1, i, l or o, for a room or a client id. */
export function randomName() {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return Array.from(bytes, (byte) => CHARACTERS[byte % CHARACTERS.length]).join('');
}

/** Returns a new client id, which this tab keeps across reloads. */
export function newClientId() {
  const id = `peer-${randomName()}`;
  sessionStorage.setItem(ID_KEY, id);
  return id;
}

/**
 * Returns the client id of this tab: that of `?id=` if it is valid, or else the stored one.
 * Without both it creates and stores one.
 *
 * @param {URLSearchParams} query of the page
 * @returns {{clientId: string, chosen: boolean}} `chosen`: the user set it by `?id=`
 */
export function tabClientId(query) {
  const chosen = query.get('id');
  if (isName(chosen)) return { clientId: chosen, chosen: true };
  return { clientId: sessionStorage.getItem(ID_KEY) ?? newClientId(), chosen: false };
}

/** Returns the name that the user of this tab entered; empty for none. */
export const storedName = () => sessionStorage.getItem(NAME_KEY) ?? '';
/** Keeps the name for this tab, across reloads. */
export const storeName = (name) => sessionStorage.setItem(NAME_KEY, name);

/**
 * Returns the room in an address: `#room=NAME`, or else the whole fragment. Empty: it has none. A
 * fragment with invalid percent-encoding is kept unchanged.
 */
export const roomOf = ({ hash }) => decoded(hash.slice(1).replace(/^room=/, ''));

/** Returns the room of this tab. An address without a valid room gets a new one. */
export function tabRoom() {
  const named = roomOf(location);
  const room = isName(named) ? named : randomName();
  history.replaceState(null, '', `${location.search}#room=${encodeURIComponent(room)}`);
  return room;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
