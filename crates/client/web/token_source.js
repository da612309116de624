/** Calls the application's source of tokens. */

import { refuse } from './core/mesh_error.js';
import { isText } from './core/outgoing.js';
import { CLOCK_TOLERANCE_S } from './core/rules.js';

/**
 * @param {string | (() => any)} source a JWT, or a function that returns one, `{token, validMs}` or
 *   null, or a promise of one of them
 * @returns {Promise<{token: string, validMs?: number} | null>} null: the client has to close
 */
export async function fetchToken(source) {
  if (isText(source)) return { token: source };
  const result = await source();
  if (result === null) return result;
  const token = result?.token ?? result;
  if (!isText(token)) refuse('token', typeof token, 'a JWT, {token, validMs} or null');
  const validMs = result.validMs ?? validMsOf(token);
  const isRight = validMs === undefined || (typeof validMs === 'number' && validMs > 0);
  if (!isRight) refuse('validMs', validMs, 'a positive number');
  return { token, validMs };
}

/**
 * Returns the remaining validity of a JWT by this device's clock, or its whole validity if the
 * clock is not within it. Undefined without these claims.
 */
function validMsOf(token) {
  try {
    const text = token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/');
    const { exp, iat } = JSON.parse(atob(text));
    const now = Date.now() / 1_000;
    const isPlausible = now < exp && !(now < iat - CLOCK_TOLERANCE_S);
    const seconds = exp - (isPlausible ? now : iat);
    if (seconds > 0) return Math.floor(seconds * 1_000);
  } catch {}
}
