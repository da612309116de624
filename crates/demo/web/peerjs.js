/** The PeerJS page: an unmodified client of PeerJS, with this mesh as its server. */

import { randomName } from './identity.js';
import { addMessage, element, onSubmit, setText, showSignaling } from './view.js';

/** Delay before a new socket replaces a lost one, in milliseconds. */
const RECONNECT_MS = 1_000;

const isSecure = location.protocol === 'https:';
const peer = new Peer(`peer-${randomName()}`, {
  host: location.hostname,
  port: location.port || (isSecure ? 443 : 80),
  path: '/peerjs/',
  secure: isSecure,
  // Windows on one network need no STUN server.
  config: { iceServers: [] },
});
/** The data connection to the other window, or null. */
let connection = null;
/** Whether this window asked for `connection`. */
let isOwn = false;

/** Handles the other window's connection. If both connect at once, that of the lesser id lasts. */
function accept(incoming) {
  const isOwnPending = isOwn && connection?.peer === incoming.peer && !connection.open;
  if (isOwnPending && peer.id < incoming.peer) incoming.close();
  else use(incoming, false);
}

/** Connects to the other window, unless its own connection is there already. */
function connect(other) {
  if (isOwn || connection?.peer !== other) use(peer.connect(other), true);
}

function use(newConnection, own) {
  const former = connection;
  connection = newConnection;
  isOwn = own;
  former?.close();
  const { peer: other } = connection;
  newConnection.on('open', () => {
    setText('notice', '');
    setText('chat-title', `Chat with ${other}`);
    element('chat').hidden = false;
  });
  newConnection.on('data', (text) => addMessage('peer', other, String(text)));
  const end = (notice) => {
    if (newConnection !== connection) return;
    connection = null;
    element('chat').hidden = true;
    setText('notice', notice);
  };
  newConnection.on('close', () => end(`The connection to ${other} is closed.`));
  newConnection.on('error', ({ message }) => end(message));
}

peer.on('open', (id) => {
  setText('me', id);
  setText('notice', '');
  showSignaling('connected', '');
  element('connect-button').disabled = false;
});
peer.on('connection', accept);
peer.on('error', ({ type, message }) => {
  if (type === 'peer-unavailable') connection = null;
  setText('notice', message);
});
// A peer that was never open cannot reconnect: it shows its error.
peer.once('open', () => {
  peer.on('disconnected', () => {
    showSignaling('reconnecting', 'Connection to the mesh lost; an open chat goes on.');
    setTimeout(() => peer.reconnect(), RECONNECT_MS);
  });
});
onSubmit('connect-form', () => connect(element('other').value.trim()));
onSubmit('chat-form', () => {
  connection.send(element('message').value);
  addMessage('me', 'you', element('message').value);
  element('message').value = '';
});
