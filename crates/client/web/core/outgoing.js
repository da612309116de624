/** Encodes messages of the client. */

const NAME = /^[A-Za-z0-9._~:@-]{1,128}$/;

/** Returns `true` for a valid client id or room name. @param {unknown} name */
export const isName = (name) => typeof name === 'string' && NAME.test(name);

/** Returns the size of a text in UTF-8. @param {string} text without lone surrogates */
export function bytesOf(text) {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    // Both halves of a surrogate pair count 2 bytes.
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
  }
  return bytes;
}

/**
 * Throws a TypeError if `data` has no JSON form. JSON.stringify throws for cycles and BigInt.
 *
 * @param {unknown} data
 */
export function assertJson(data) {
  const isMissing = ['undefined', 'function', 'symbol'].includes(typeof data);
  if (isMissing || (typeof data === 'number' && !Number.isFinite(data))) {
    throw new TypeError(`data: has no JSON form: ${String(data)}`);
  }
}

/** Returns the text of a message, `type` first. @param {{type: string}} message */
export const encode = ({ type, ...fields }) => JSON.stringify({ type, ...fields });

/** Returns an encoded request with its number. @param {string} type @param {string} text */
export function numbered(type, text, id) {
  const at = '{"type":""'.length + type.length;
  return `${text.slice(0, at)},"id":${id}${text.slice(at)}`;
}
