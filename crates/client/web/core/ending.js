/**
 * Reactions to the end of a connection. WebSockets do not report HTTP answers: they end as 1006.
 *
 * @typedef {{code?: number, fault?: string, reason?: string}} Ending close code of the socket, or
 *   the fault for which the client gave up: `unreachable`, `no_welcome`, `no_token`, `silent` or
 *   `protocol_error`; text of the server
 */

/** The client ends its session. */
export const GOODBYE = 1000;
/** Close code of a socket without a close frame. */
export const NO_FRAME = 1006;
/** The server requires a longer wait. */
export const POLICY_VIOLATION = 1008;
/** The client leaves the socket, and keeps its session. */
export const SOCKET_LEFT = 4001;
const UNAUTHORIZED = 4401;
const TOKEN_EXPIRED = 4003;

/** Returns `true` if the client must not reconnect. @param {Ending} why */
export function isFinal({ code = 0 }) {
  return [GOODBYE, 1002, 1003, 1007, 1009].includes(code) || Math.floor(code / 100) === 44;
}

/** Returns `true` if the server rejected the token. @param {Ending} why */
export function isTokenRejected({ code = 0 }) {
  return [UNAUTHORIZED, TOKEN_EXPIRED].includes(code);
}
