/** Encodes messages of the client. */

const NAME = /^[A-Za-z0-9._~:@-]{1,128}$/;

/** Returns `true` for a valid client id or room name. */
export const isName = (name) => typeof name === 'string' && NAME.test(name);

/** Returns the size of a text in UTF-8. */
export const bytesOf = (text) => new TextEncoder().encode(text).length;

/** Returns the text of a message, with the number of a request if given. */
export function encode({ type, ...fields }, id) {
  return JSON.stringify(id === undefined ? { type, ...fields } : { type, id, ...fields });
}
