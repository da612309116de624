/** The y-webrtc page: an unmodified client of y-webrtc, with this mesh as its signaling server. */

import { WebrtcProvider } from 'y-webrtc';
import { Doc } from 'yjs';
import { randomName, roomOf } from './identity.js';
import { element, setText, showSignaling } from './view.js';

const room = roomOf(location) || randomName();
history.replaceState(null, '', `#${encodeURIComponent(room)}`);
const shared = new Doc().getText();
const provider = new WebrtcProvider(room, shared.doc, {
  signaling: [`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/y-webrtc`],
  // Windows of one browser connect to each other too.
  filterBcConns: false,
  // Windows on one network need no STUN server.
  peerOpts: { config: { iceServers: [] } },
});
const area = element('text');

/** Returns the length of the common start in UTF-16 code units. It splits no code point. */
function commonStart(one, other) {
  let at = 0;
  while (at < one.length && one.codePointAt(at) === other.codePointAt(at)) {
    at += one.codePointAt(at) > 0xffff ? 2 : 1;
  }
  return at;
}

area.addEventListener('input', () => {
  let before = shared.toString();
  let after = area.value;
  // The text behind the caret is usually unchanged. Others may edit it at the same time.
  const rest = after.slice(area.selectionEnd);
  if (before.endsWith(rest)) {
    [before, after] = [before, after].map((text) => text.slice(0, text.length - rest.length));
  }
  const start = commonStart(before, after);
  shared.doc.transact(() => {
    shared.delete(start, before.length - start);
    shared.insert(start, after.slice(start));
  });
});
shared.observe(({ delta, transaction }) => {
  if (transaction.local) return;
  let at = 0;
  for (const { retain = 0, insert = '', delete: deleted = 0 } of delta) {
    at += retain;
    area.setRangeText(insert, at, at + deleted, 'preserve');
    at += insert.length;
  }
});
provider.on('peers', ({ webrtcPeers }) => setText('peers', String(webrtcPeers.length)));
const [socket] = provider.signalingConns;
socket.on('connect', () => showSignaling('connected', ''));
socket.on('disconnect', () => showSignaling('reconnecting', 'Connection to the mesh lost; the text is shared still.'));

setText('room', room);
showSignaling('connecting', '');
element('invite-open').href = location.href;
area.disabled = false;
