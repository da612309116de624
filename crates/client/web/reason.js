/** Turns the end of a connection into an error for the application. */

import { NO_FRAME } from './core/ending.js';
import { MeshError } from './core/mesh_error.js';

const TEXT_BY_FAULT = {
  unreachable: 'no connection in time',
  no_welcome: 'no welcome within 10 s',
  no_token: 'the token function took 30 s',
  silent: 'the server does not answer',
  protocol_error: 'a message of the server breaks the protocol',
};

/**
 * @param {import('./core/ending.js').Ending} why
 * @param {{wasWelcome: boolean, tokenError?: unknown}} context `wasWelcome`: a server has accepted
 *   the client before
 * @returns {MeshError | undefined} undefined: the application closed the client
 */
export function reasonOf({ code, status, fault, reason }, { wasWelcome, tokenError }) {
  if (fault === 'no_token') {
    const text = tokenError === undefined ? TEXT_BY_FAULT[fault] : `the token function failed: ${textOf(tokenError)}`;
    return new MeshError('token_failed', text, { cause: tokenError });
  }
  if (fault) return new MeshError('connection_lost', TEXT_BY_FAULT[fault]);
  if (code === undefined && status === undefined) return undefined;
  const number = code === undefined ? `HTTP status ${status}` : `close code ${code}`;
  const hint = code === NO_FRAME && !wasWelcome ? ': check host, port and path' : '';
  const text = `${reason || 'the connection failed'} (${number})${hint}`;
  return new MeshError('connection_lost', text, { closeCode: code, status });
}

const textOf = (error) => (error instanceof Error ? error.message : String(error));
