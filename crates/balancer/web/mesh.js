/**
 * The mesh at work: which node serves whom, and buttons to add, drain and kill nodes where a local mesh lets this page.
 * Asks for the nodes every second while somebody looks.
 */

const EVERY_MS = 1_000;
const PATH = '/demo/mesh';

/** Events: `change` (`nodes` may be others), `problem` with a text. */
export class MeshControl extends EventTarget {
  /** `{id, state}` of each, or null where this page may not ask. */
  nodes = null;
  /** Whether the server has told if there are buttons. */
  #isKnown = false;

  /** @param {() => boolean} isReachable whether asking makes sense now */
  constructor(isReachable) {
    super();
    const look = async () => {
      if (!document.hidden && isReachable()) await this.#look();
      if (this.nodes !== null || !this.#isKnown) setTimeout(look, EVERY_MS);
    };
    look();
  }

  add() {
    const running = this.nodes.filter(({ state }) => !state.startsWith('down') && state !== 'draining' && state !== 'being killed');
    return this.#press({ command: 'scale', nodes: running.length + 1 });
  }

  drain(id) {
    return this.#press({ command: 'drain', id });
  }

  kill(id) {
    return this.#press({ command: 'kill', id });
  }

  async #look() {
    try {
      const { servers } = await ask({ command: 'status' });
      this.#isKnown = true;
      this.nodes = servers && servers.filter(({ id }) => id.startsWith('node-')).map(({ id, phase }) => ({ id, state: phase }));
      this.dispatchEvent(new Event('change'));
    } catch (error) {
      // Without an answer the balancer is away; the connection's own state says so.
      this.#isKnown ||= error instanceof Refused;
    }
  }

  async #press(command) {
    try {
      await ask(command);
    } catch (error) {
      this.dispatchEvent(new CustomEvent('problem', { detail: error.message }));
    }
    await this.#look();
  }
}

/** The server has answered, and said no. */
class Refused extends Error {}

async function ask(command) {
  const headers = { 'content-type': 'application/json', 'x-signaling-demo': '1' };
  const response = await fetch(PATH, { method: 'POST', headers, body: JSON.stringify(command) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(answer.error?.message ?? `the server answered ${response.status}`);
  return answer;
}

/**
 * Draws the nodes, each with the names of those that it serves.
 * @param {HTMLElement} list
 * @param {{id: string, state: string, members: {id: string, name: string, isSelf: boolean}[]}[]} nodes
 * @param {boolean} hasButtons
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
  const head = document.createElement('div');
  head.className = 'head';
  head.append(make('span', 'name', id), make('span', 'badge', ''));
  const row = make('div', 'row', '');
  for (const [act, word, look] of [['drain', 'Drain', ''], ['kill', 'Kill', 'danger']]) {
    const button = Object.assign(make('button', look, word), { type: 'button' });
    button.dataset.act = act;
    button.setAttribute('aria-label', `${word} ${id}`);
    row.append(button);
  }
  card.append(head, make('ul', 'served', ''), row);
  return card;
}

function fillCard(card, { state, members }, hasButtons) {
  const isUp = state === 'ready' || state === '';
  const badge = card.querySelector('.badge');
  const text = state.startsWith('down') ? 'down' : state;
  if (badge.textContent !== text) badge.textContent = text;
  badge.hidden = state === '';
  badge.dataset.tone = isUp ? 'good' : text === 'down' || text === 'being killed' ? 'bad' : 'busy';
  card.querySelector('.row').hidden = !hasButtons;
  for (const button of card.querySelectorAll('button')) button.disabled = !(isUp && hasButtons);
  const served = card.querySelector('.served');
  const wanted = JSON.stringify(members.map(({ id, name }) => [id, name]));
  if (served.dataset.members === wanted) return;
  served.dataset.members = wanted;
  served.replaceChildren(...members.map(({ name, isSelf }) => make('li', isSelf ? 'self' : '', isSelf ? `${name} (you)` : name)));
}

function make(kind, className, text) {
  return Object.assign(document.createElement(kind), { className, textContent: text });
}
