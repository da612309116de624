/** Draws the page, except tiles and nodes. Texts of clients are set as textContent, never HTML. */

const MAX_LOG_ENTRIES = 500;
const MAX_MOVES = 50;
const TONES = { connected: 'good', connecting: 'busy', reconnecting: 'busy', disconnected: 'bad' };

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

/** Shows one part of the page. @param {'outside' | 'queue' | 'stage'} part */
export function showPart(part) {
  for (const id of ['outside', 'queue', 'stage']) element(id).hidden = id !== part;
  element('chat').hidden = part !== 'stage';
}

/** Capacity of larger rooms is not shown, because the page speaks of calls of 8 people. */
const MAX_SHOWN_CAPACITY = 8;

/** Shows a room with `count` members, of which this client is one. A null capacity: no limit. */
export function showRoom({ name, state, capacity }, count) {
  setText('stage-title', `Room ${name}`);
  const here = count === 1 ? 'You are alone here' : `${count} are here`;
  const limit = capacity === null || capacity > MAX_SHOWN_CAPACITY ? '' : `, of ${capacity} at most`;
  setText('count', state === 'member' ? here + limit : 'Entering …');
  document.title = `${name} (${count}) · Signaling mesh`;
}

/** Returns the address that leads into the room, which the button of a second window opens too. */
export function showLink() {
  const link = location.origin + location.pathname + location.hash;
  element('open-button').href = link;
  return link;
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
  element('moves-frame').hidden = false;
}

/**
 * Calls `actions` when the user presses buttons and sends forms: `rename` with a name, `sendChat`
 * with a text, `drain` and `kill` with a node's id; `reconnect`, `enter`, `leave`, `camera`,
 * `sound`, `share` and `addNode` with the click.
 */
export function listen(actions) {
  showLink();
  // The mesh is folded on a phone.
  element('mesh').open = matchMedia('(min-width: 60rem)').matches;
  element('reconnect-button').addEventListener('click', actions.reconnect);
  element('enter-button').addEventListener('click', actions.enter);
  element('give-up-button').addEventListener('click', actions.leave);
  element('leave-button').addEventListener('click', actions.leave);
  element('camera-button').addEventListener('click', actions.camera);
  element('sound-button').addEventListener('click', actions.sound);
  element('share-button').addEventListener('click', actions.share);
  element('name').addEventListener('change', () => actions.rename(element('name').value.trim()));
  element('add-node-button').addEventListener('click', actions.addNode);
  element('nodes').addEventListener('click', ({ target }) => {
    const button = target.closest('button[data-act]');
    if (button) actions[button.dataset.act](button.closest('li').dataset.id);
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
