/** Draws the page, except tiles and nodes. Texts of clients are set as textContent, never HTML. */

import { roomLink } from './identity.js';

const MAX_LOG_ENTRIES = 500;
const MAX_MOVES = 50;
const TONES = { connected: 'good', connecting: 'busy', waiting: 'busy', closed: 'bad' };

export const element = (id) => document.getElementById(id);

/** Sets a text if it differs: screen readers announce each change. */
export function setText(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text;
}

/** Shows a client's id and its node; a null node is unknown or not revealed. */
export function showSelf({ clientId, node, state }) {
  setText('me', clientId);
  const unknown = state === 'connected' ? 'not revealed' : '–';
  setText('my-node', node ?? unknown);
}

/** Shows the state of a client, a key of `TONES`, and a text about its trouble; empty: none. */
export function showSignaling(state, explanation) {
  setText('signaling-state', state);
  element('signaling-state').dataset.tone = TONES[state] ?? '';
  setText('signaling-detail', explanation);
  element('trouble').hidden = explanation === '';
}

/** Shows one part of the page. @param {'lobby' | 'queue' | 'stage'} part */
export function showPart(part) {
  for (const id of ['lobby', 'queue', 'stage']) element(id).hidden = id !== part;
  element('chat').hidden = part !== 'stage';
}

/** Shows a room with `count` members, of which this client is one. A null capacity: no limit. */
export function showRoom({ name, state, capacity }, count) {
  setText('stage-title', `Room ${name}`);
  const here = count === 1 ? 'You are alone here' : `${count} are here`;
  const limit = capacity === null ? '' : `, of ${capacity} at most`;
  setText('count', state === 'joining' ? 'Entering …' : here + limit);
  element('invite-open').href = roomLink(name);
  document.title = `${name} (${count}) · Signaling mesh`;
}

/** Adds a chat message; drops the oldest of more than 500. @param {'me' | 'peer'} from */
export function addMessage(from, name, text) {
  const entry = document.createElement('li');
  entry.dataset.from = from;
  entry.append(make('span', 'who', name), make('span', 'text', text));
  append('log', entry, MAX_LOG_ENTRIES);
  element('log-frame').scrollTop = element('log-frame').scrollHeight;
}

export function clearMessages() {
  element('log').replaceChildren();
}

/** Adds a move of a client between nodes; drops the oldest of more than 50. */
export function addMove(name, from, to) {
  const entry = document.createElement('li');
  entry.append(make('time', '', new Date().toTimeString().slice(0, 8)), ` ${name}: ${from} → ${to}`);
  append('moves', entry, MAX_MOVES);
  element('moves').scrollTop = element('moves').scrollHeight;
  element('moves-title').hidden = false;
}

/**
 * Calls `actions` when the user presses buttons and sends forms: `enter` with room and name,
 * `sendChat` with a text, `drain` and `kill` with a node's id; `reconnect`, `leave`, `camera`,
 * `sound`, `copy` and `addNode` with the click.
 */
export function listen(actions) {
  element('reconnect-button').addEventListener('click', actions.reconnect);
  element('give-up-button').addEventListener('click', actions.leave);
  element('leave-button').addEventListener('click', actions.leave);
  element('camera-button').addEventListener('click', actions.camera);
  element('sound-button').addEventListener('click', actions.sound);
  element('copy-button').addEventListener('click', actions.copy);
  element('add-node-button').addEventListener('click', actions.addNode);
  element('nodes').addEventListener('click', ({ target }) => {
    const button = target.closest('button[data-act]');
    if (button) actions[button.dataset.act](button.closest('li').dataset.id);
  });
  onSubmit('lobby-form', () => {
    actions.enter(element('room').value.trim(), element('name').value.trim());
  });
  onSubmit('chat-form', () => {
    if (element('send-button').disabled) return;
    actions.sendChat(element('message').value);
    element('message').value = '';
  });
}

/** Shows the button with this id as pressed or not. */
export function press(id, isPressed) {
  element(id).setAttribute('aria-pressed', String(isPressed));
}

/** Calls `action` when the user sends a form, which does not leave the page. */
export function onSubmit(formId, action) {
  element(formId).addEventListener('submit', (event) => {
    event.preventDefault();
    action();
  });
}

function append(listId, entry, maxEntries) {
  const list = element(listId);
  list.append(entry);
  if (list.childElementCount > maxEntries) list.firstElementChild.remove();
}

function make(kind, className, text) {
  return Object.assign(document.createElement(kind), { className, textContent: text });
}
