/** All that touches the document. Text from others enters by textContent alone. */

import { inviteLink } from './identity.js';
import { drawPath } from './path.js';

const MAX_LOG_ENTRIES = 500;
const NOT_REVEALED = 'not revealed';

const TONES = {
  connected: 'good',
  open: 'good',
  connecting: 'busy',
  calling: 'busy',
  waiting: 'busy',
  new: 'busy',
  disconnected: 'busy',
  closing: 'busy',
  failed: 'bad',
};

const element = (id) => document.getElementById(id);

export function showSelf({ clientId, node, state }) {
  element('me').textContent = clientId;
  element('my-node').textContent = node ?? (state === 'connected' ? NOT_REVEALED : '–');
  element('invite-link').value = inviteLink(clientId);
  element('invite-open').href = inviteLink(clientId);
  document.title = `${clientId} · Signaling mesh`;
}

export function showSignaling(state, explanation) {
  showBadge('signaling-state', state);
  element('signaling-state').dataset.tone = state === 'closed' ? 'bad' : (TONES[state] ?? '');
  element('signaling-detail').textContent = explanation;
  element('reconnect-button').hidden = state !== 'closed' && state !== 'waiting';
}

/** @param {import('./calls.js').Calls['current']} call null keeps the last names and shows them closed */
export function showCall(call) {
  element('hang-up-button').disabled = !call;
  element('send-button').disabled = call?.channelState !== 'open';
  if (!call) {
    showBadge('peer-state', element('peer-state').textContent === 'none' ? 'none' : 'closed');
    showBadge('channel-state', element('channel-state').textContent === 'none' ? 'none' : 'closed');
    return;
  }
  element('peer-id').textContent = call.peerId;
  element('peer-node').textContent = call.peerNode ?? (call.connectionState === 'calling' ? '–' : NOT_REVEALED);
  element('signal-time').textContent = call.signalMs === null ? '–' : milliseconds(call.signalMs);
  showBadge('peer-state', call.connectionState);
  showBadge('channel-state', call.channelState);
}

export function showPath(signaling, call) {
  drawPath(element('path'), {
    me: signaling.clientId,
    myNode: signaling.node,
    connected: signaling.state === 'connected',
    peer: call?.peerId ?? null,
    peerNode: call?.peerNode ?? null,
    answered: Boolean(call) && call.connectionState !== 'calling',
    direct: call?.channelState === 'open',
  });
}

export function showRoundTrip(ms) {
  element('round-trip').textContent = ms === null ? '–' : milliseconds(ms);
}

/** @param {'error' | 'plain'} tone */
export function showCallNotice(text, tone = 'error') {
  element('call-notice').textContent = text;
  element('call-notice').dataset.tone = tone;
}

export function showCopyResult(text) {
  element('copy-result').textContent = text;
}

/** @param {'me' | 'peer'} from */
export function addMessage(from, name, text) {
  const entry = document.createElement('li');
  entry.dataset.from = from;
  entry.append(span('who', name), span('text', text));
  const log = element('log');
  log.append(entry);
  if (log.childElementCount > MAX_LOG_ENTRIES) log.firstElementChild.remove();
  element('log-frame').scrollTop = element('log-frame').scrollHeight;
}

/** Hands what the user does to `actions`. */
export function listen(actions) {
  element('reconnect-button').addEventListener('click', actions.reconnect);
  element('hang-up-button').addEventListener('click', actions.hangUp);
  element('copy-button').addEventListener('click', () => actions.copy(element('invite-link')));
  onSubmit('call-form', () => actions.call(element('call-id').value.trim()));
  onSubmit('chat-form', () => {
    if (element('send-button').disabled) return;
    actions.say(element('message').value);
    element('message').value = '';
  });
}

function onSubmit(formId, action) {
  element(formId).addEventListener('submit', (event) => {
    event.preventDefault();
    action();
  });
}

function showBadge(id, text) {
  element(id).textContent = text;
  element(id).dataset.tone = TONES[text] ?? '';
}

function span(className, text) {
  const node = document.createElement('span');
  node.className = className;
  node.textContent = text;
  return node;
}

function milliseconds(ms) {
  return ms < 1 ? 'under 1 ms' : `${Math.round(ms)} ms`;
}
