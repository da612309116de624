/** WebSockets of the client. `client.js` opens them, one at a time. */

const SUBPROTOCOL = 'signaling.v1';
/** Close code that keeps the session. */
const SOCKET_LEFT = 4001;

/**
 * Opens a socket. Throws if the URL is invalid, or a token does not fit a subprotocol.
 *
 * @param {typeof WebSocket} WebSocket
 * @param {string} url of the balancer's `/v1/connect`
 * @param {{clientId: string, resume?: string, token?: string}} session
 * @param {{text: (text: string) => void, closed: (code: number) => void}} on `text` also gets
 *   binary messages, as a `Blob`; `closed` gets 1006 for any end without a close frame
 */
export function openSocket(WebSocket, url, { clientId, resume, token }, on) {
  const address = new URL(url);
  address.searchParams.set('client_id', clientId);
  address.searchParams.set('reliable', '1');
  const protocols = [SUBPROTOCOL];
  if (resume) protocols.push(`resume.${resume}`);
  if (token) protocols.push(`bearer.${token}`);
  const socket = new WebSocket(address.href, protocols);
  socket.onmessage = ({ data }) => on.text(data);
  socket.onclose = ({ code }) => on.closed(code);
  return socket;
}

/** Closes a socket, which reports nothing from now on. Unless given, the code keeps the session. */
export function leaveSocket(socket, code = SOCKET_LEFT) {
  socket.onmessage = null;
  socket.onclose = null;
  socket.close(code);
}
