/** The demo page: joins signaling, calls and the document together. */

import { Calls } from './calls.js';
import { explainEnd, explainError, explainState } from './explain.js';
import { drawClientId, identify } from './identity.js';
import { Signaling } from './signaling.js';
import * as view from './view.js';

const ID_IN_USE = 4409;
/** A duplicated tab starts with its original's id and has to draw another. */
const MAX_DRAWS = 3;
const ROUND_TRIP_EVERY_MS = 2_000;

const query = new URLSearchParams(location.search);
const { clientId, chosen } = identify(query);
const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
const signaling = new Signaling({ endpoint: `${scheme}://${location.host}/v1/connect`, clientId });
const calls = new Calls(signaling);
let wasConnected = false;
let draws = 0;

function dial(peerId) {
  if (peerId === signaling.clientId) {
    view.showCallNotice('That is this very window. Open the invite link in another one.');
    return;
  }
  calls.dial(peerId);
  view.showCallNotice(`Calling ${peerId} …`, 'plain');
}

function say(text) {
  calls.sendText(text);
  view.addMessage('me', 'you', text);
}

async function copy(field) {
  try {
    await navigator.clipboard.writeText(field.value);
    view.showCopyResult('Copied.');
  } catch {
    field.select();
    view.showCopyResult('The browser does not let this page copy: press Ctrl+C or ⌘C.');
  }
}

function showSelf() {
  view.showSelf(signaling);
  view.showPath(signaling, calls.current);
}

signaling.addEventListener('statechange', ({ detail }) => {
  if (detail.code === ID_IN_USE && !chosen && !wasConnected && draws < MAX_DRAWS) {
    draws += 1;
    signaling.clientId = drawClientId();
    signaling.connect();
    return;
  }
  view.showSignaling(detail.state, explainState(detail, wasConnected));
  showSelf();
});
signaling.addEventListener('welcome', () => {
  wasConnected = true;
  showSelf();
});
signaling.addEventListener('node', showSelf);
signaling.addEventListener('problem', ({ detail }) => view.showCallNotice(explainError(detail, 'the peer')));

calls.addEventListener('change', () => {
  const call = calls.current;
  view.showCall(call);
  view.showPath(signaling, call);
  if (call?.channelState === 'open') view.showCallNotice('');
});
calls.addEventListener('text', ({ detail }) => view.addMessage('peer', detail.peerId, detail.text));
calls.addEventListener('ended', ({ detail }) => {
  view.showRoundTrip(null);
  view.showCallNotice(explainEnd(detail) ?? '');
});

view.listen({ reconnect: () => signaling.connect(), call: dial, hangUp: () => calls.hangUp(), say, copy });
setInterval(async () => view.showRoundTrip(await calls.roundTripMs()), ROUND_TRIP_EVERY_MS);
addEventListener('pagehide', () => calls.hangUp());

const invitation = query.get('call');
if (invitation) signaling.addEventListener('welcome', () => dial(invitation), { once: true });
signaling.connect();
