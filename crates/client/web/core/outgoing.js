/** Encodes messages of the client. */

import { MeshError, refuse } from './mesh_error.js';

export const NAME = /^[\w.~:@-]{1,128}$/;

/** @param {unknown} value */
export const isText = (value) => typeof value === 'string';

/** Returns `true` for a valid client id or room name. @param {any} name */
export const isName = (name) => isText(name) && NAME.test(name);

/** Throws a MeshError for an invalid room name or client id. */
export function assertName(name) {
  if (!isName(name)) throw new MeshError('bad_name', { message: `name "${name}": not ${NAME}` });
}

/**
 * Returns the size of a text in UTF-8. Some platforms have no TextEncoder.
 *
 * @param {string} text without lone surrogates
 */
export const bytesOf = (text) => encodeURI(text).replace(/%../g, '.').length;

/**
 * Throws a TypeError if `data` has no JSON form, like NaN. JSON.stringify throws for cycles.
 *
 * @param {unknown} data
 */
export function assertJson(data) {
  const text = JSON.stringify(data) ?? 'null';
  if (text === 'null' && data !== null) refuse('data', data, 'a JSON form');
}
