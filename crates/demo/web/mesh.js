/**
 * The nodes and their clients, for `app.js`. With `--demo-control` on this machine, buttons add,
 * drain and kill nodes.
 */

/** Interval of status requests in milliseconds while the page is visible. */
const INTERVAL_MS = 1_000;
const PATH = '/demo/mesh';

/** Events: `change` (`nodes` may have changed) and `problem` (`detail` is a text). */
export class MeshControl extends EventTarget {
  /** `{id, state}` of each node, by `mesh-dev`. Null before an answer, or without controls. */
  nodes = null;
  /** Whether the server has answered. */
  #hasAnswer = false;

  /**
   * Requests the status once a second, until the server answers that it has no controls.
   *
   * @param {() => boolean} isReachable whether the server can answer now
   */
  constructor(isReachable) {
    super();
    const poll = async () => {
      if (!document.hidden && isReachable()) await this.#request();
      if (this.nodes !== null || !this.#hasAnswer) setTimeout(poll, INTERVAL_MS);
    };
    poll();
  }

  /** Starts one more node. Needs `nodes`. A failure, also of other commands, is a `problem`. */
  add() {
    const isStopping = ({ state }) => state === 'draining' || state === 'being killed';
    const isRunning = (node) => !node.state.startsWith('down') && !isStopping(node);
    return this.#control({ command: 'scale', nodes: this.nodes.filter(isRunning).length + 1 });
  }

  /** Drains a node and stops it. */
  drain(id) {
    return this.#control({ command: 'drain', id });
  }

  /** Kills a node. */
  kill(id) {
    return this.#control({ command: 'kill', id });
  }

  async #request() {
    try {
      const { servers } = await send({ command: 'status' });
      const nodes = servers?.filter(({ id }) => id.startsWith('node-'));
      this.#hasAnswer = true;
      this.nodes = nodes?.map(({ id, phase }) => ({ id, state: phase })) ?? null;
      this.dispatchEvent(new Event('change'));
    } catch (error) {
      // Other errors show in the state of the connection.
      this.#hasAnswer ||= error instanceof Refused;
    }
  }

  async #control(command) {
    try {
      await send(command);
    } catch (error) {
      this.dispatchEvent(new CustomEvent('problem', { detail: error.message }));
    }
    await this.#request();
  }
}

/** The server refused a command. */
class Refused extends Error {}

async function send(command) {
  const headers = { 'content-type': 'application/json', 'x-signaling-demo': '1' };
  const response = await fetch(PATH, { method: 'POST', headers, body: JSON.stringify(command) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(answer.error?.message ?? `the server answered ${response.status}`);
  return answer;
}

/**
 * Draws the nodes, each with the names of its clients.
 *
 * @param {HTMLElement} list
 * @param {{id: string, state: string, members: object[]}[]} nodes members: `{id, name, isSelf}`
 * @param {boolean} hasButtons whether nodes can be drained and killed
 */
export function showNodes(list, nodes, hasButtons) {
  const cardById = new Map([...list.children].map((card) => [card.dataset.id, card]));
  for (const [at, node] of nodes.entries()) {
    const card = cardById.get(node.id) ?? makeCard(node.id);
    if (list.children[at] !== card) list.insertBefore(card, list.children[at] ?? null);
    fillCard(card, node, hasButtons);
  }
  while (list.children.length > nodes.length) list.lastElementChild.remove();
}

function makeCard(id) {
  const card = document.createElement('li');
  card.dataset.id = id;
  const head = make('div', 'head', '');
  head.append(make('span', 'name', id), make('span', 'badge', ''));
  for (const [act, label, className] of [['drain', 'Drain', ''], ['kill', 'Kill', 'danger']]) {
    const button = Object.assign(make('button', className, label), { type: 'button' });
    button.dataset.act = act;
    button.setAttribute('aria-label', `${label} ${id}`);
    head.append(button);
  }
  card.append(head, make('ul', 'served', ''));
  return card;
}

function fillCard(card, { state, members }, hasButtons) {
  const isUp = state === 'ready' || state === '';
  const badge = card.querySelector('.badge');
  const text = state.startsWith('down') ? 'down' : state;
  const isDown = text === 'down' || text === 'being killed';
  if (badge.textContent !== text) badge.textContent = text;
  badge.hidden = state === '';
  if (isUp) badge.dataset.tone = 'good';
  else badge.dataset.tone = isDown ? 'bad' : 'busy';
  for (const button of card.querySelectorAll('button')) {
    button.hidden = !hasButtons;
    button.disabled = !isUp;
  }
  const served = card.querySelector('.served');
  const key = JSON.stringify(members.map(({ id, name }) => [id, name]));
  if (served.dataset.members === key) return;
  served.dataset.members = key;
  const items = members.map(({ name, isSelf }) =>
    isSelf ? make('li', 'self', `${name} (you)`) : make('li', '', name),
  );
  served.replaceChildren(...items);
}

function make(kind, className, text) {
  return Object.assign(document.createElement(kind), { className, textContent: text });
}
