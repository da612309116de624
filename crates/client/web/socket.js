/** WebSockets of the client. `client.js` opens them, one at a time. */

import { NO_FRAME, SOCKET_LEFT } from './core/ending.js';
import { CLOSE_FOLLOWS, MAX_CLOSING } from './core/rules.js';

/**
 * Opens a socket. Throws if a token does not fit a subprotocol.
 *
 * @param {typeof globalThis.WebSocket} WebSocket
 * @param {string} url of the balancer's `/v1/connect`
 * @param {string} clientId
 * @param {{resume?: string, token?: string}} session
 * @param {(input: 'opened' | 'text' | 'lost', value?: any) => void} report passes an input to the
 *   core. `text` also has binary messages, as a `Blob`; `lost` has 1006 for any end without a close
 *   frame
 */
export function openSocket(WebSocket, url, clientId, { resume, token }, report) {
  const protocols = ['signaling.v1'];
  if (resume) protocols.push(`resume.${resume}`);
  if (token) protocols.push(`bearer.${token}`);
  const socket = new WebSocket(`${url}${url.includes('?') ? '&' : '?'}client_id=${clientId}&reliable=1`, protocols);
  let fault;
  let timer;
  const end = (/** @type {any} */ { code, reason }) => {
    detach(socket);
    clearTimeout(timer);
    report('lost', { code, reason: reason || fault });
  };
  socket.onopen = () => report('opened');
  socket.onmessage = ({ data }) => report('text', data);
  socket.onclose = end;
  socket.onerror = (/** @type {any} */ { message, error }) => {
    fault ||= message || error?.message;
    timer ??= setTimeout(() => socket.onmessage && end({ code: NO_FRAME }), CLOSE_FOLLOWS);
  };
  return socket;
}

/**
 * Closes a socket, which reports nothing from now on.
 *
 * @param {number} [code] the default keeps the session
 * @returns {Promise<void>} resolves once it is closed, or after 2 s
 */
export function leaveSocket(socket, code = SOCKET_LEFT) {
  detach(socket);
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, MAX_CLOSING);
    socket.onclose = () => {
      clearTimeout(timer);
      resolve();
    };
    socket.close(code);
  });
}

/** The listener of `error` stays: without one the class of `ws` ends the process. */
function detach(socket) {
  socket.onopen = socket.onmessage = socket.onclose = null;
  socket.onerror = () => {};
}
