/** Turns the end of a connection into an error for the application. */

import { NO_FRAME } from './core/ending.js';
import { MeshError } from './core/mesh_error.js';

/** @type {Record<string, string>} */
const TEXT_BY_FAULT = {
  unreachable: 'no connection in time',
  no_welcome: 'no welcome within 10 s',
  no_token: 'the token function failed',
  silent: 'the server does not answer',
  protocol_error: 'a message of the server breaks the protocol',
};

/**
 * @param {import('./core/ending.js').Ending} why
 * @param {boolean} wasWelcome whether a server has accepted the client before
 * @param {any} [cause] error of the token function
 * @returns {MeshError | undefined} undefined: the application closed the client
 */
export function reasonOf({ code, fault = '', reason }, wasWelcome, cause = 'no result within 30 s') {
  if (!fault && !code) return undefined;
  let message = TEXT_BY_FAULT[fault] ?? `${reason || 'the connection failed'} (${code})`;
  if (fault === 'no_token') return new MeshError('token_failed', { message, cause });
  if (code === NO_FRAME && !wasWelcome) message += ': check host, port and path';
  return new MeshError('connection_lost', { message, closeCode: code });
}
