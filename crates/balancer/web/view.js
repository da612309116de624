/** All that touches the document, but for tiles and nodes. Text from others enters by textContent alone. */

import { roomLink } from './identity.js';

const MAX_LOG_ENTRIES = 500;
const MAX_MOVES = 50;
const TONES = { connected: 'good', connecting: 'busy', waiting: 'busy', closed: 'bad' };

export const element = (id) => document.getElementById(id);

export function setText(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text;
}

export function showSelf({ clientId, node, state }) {
  setText('me', clientId);
  setText('my-node', node ?? (state === 'connected' ? 'not revealed' : '–'));
}

export function showSignaling(state, explanation) {
  setText('signaling-state', state);
  element('signaling-state').dataset.tone = TONES[state] ?? '';
  setText('signaling-detail', explanation);
  element('trouble').hidden = explanation === '';
}

/** @param {'lobby' | 'line' | 'stage'} part */
export function showPart(part) {
  for (const id of ['lobby', 'line', 'stage']) element(id).hidden = id !== part;
  element('chat').hidden = part !== 'stage';
}

export function showRoom({ name, state, capacity }, count) {
  setText('stage-title', `Room ${name}`);
  const here = `${count === 1 ? 'You are alone here' : `${count} are here`}${capacity === null ? '' : `, of ${capacity} at most`}`;
  setText('count', state === 'joining' ? 'Entering …' : here);
  element('invite-open').href = roomLink(name);
  document.title = `${name} (${count}) · Signaling mesh`;
}

/** @param {'me' | 'peer'} from */
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

export function addMove(name, from, to) {
  const entry = document.createElement('li');
  entry.append(make('time', '', new Date().toTimeString().slice(0, 8)), ` ${name}: ${from} → ${to}`);
  append('moves', entry, MAX_MOVES);
  element('moves').scrollTop = element('moves').scrollHeight;
  element('moves-title').hidden = false;
}

/** Hands what the user does to `actions`. */
export function listen(actions) {
  for (const [id, action] of [
    ['reconnect-button', actions.reconnect], ['give-up-button', actions.leave], ['leave-button', actions.leave],
    ['camera-button', actions.camera], ['sound-button', actions.sound], ['copy-button', actions.copy],
    ['add-node-button', actions.addNode],
  ]) element(id).addEventListener('click', action);
  element('nodes').addEventListener('click', ({ target }) => {
    const button = target.closest('button[data-act]');
    if (button) actions[button.dataset.act](button.closest('li').dataset.id);
  });
  onSubmit('lobby-form', () => actions.enter(element('room').value.trim(), element('name').value.trim()));
  onSubmit('chat-form', () => {
    if (element('send-button').disabled) return;
    actions.say(element('message').value);
    element('message').value = '';
  });
}

export function press(id, isPressed) {
  element(id).setAttribute('aria-pressed', String(isPressed));
}

function onSubmit(formId, action) {
  element(formId).addEventListener('submit', (event) => {
    event.preventDefault();
    action();
  });
}

function append(listId, entry, most) {
  const list = element(listId);
  list.append(entry);
  if (list.childElementCount > most) list.firstElementChild.remove();
}

function make(kind, className, text) {
  return Object.assign(document.createElement(kind), { className, textContent: text });
}
