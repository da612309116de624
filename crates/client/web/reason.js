/** Turns the end of a connection into an error for the application. */

import { NO_FRAME } from './core/ending.js';
import { MeshError, TEXT_BY_CODE } from './core/mesh_error.js';

/**
 * @param {import('./core/ending.js').Ending} why
 * @param {boolean} wasWelcome whether a server has accepted the client before
 * @param {any} [cause] error of the token function
 * @returns {MeshError | undefined} undefined: the application closed the client
 */
export function reasonOf({ code, fault = '', reason }, wasWelcome, cause = 'no result in time') {
  if (!fault && !code) return undefined;
  if (fault === 'no_token') return new MeshError('token_failed', { cause });
  const advice = code === NO_FRAME && !wasWelcome ? ': check host, port and path' : '';
  const message = TEXT_BY_CODE[fault] ?? `${reason || 'the connection failed'} (${code})${advice}`;
  return new MeshError('connection_lost', { message, closeCode: code });
}
