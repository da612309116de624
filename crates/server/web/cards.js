/** One card per server. Texts of servers are set as textContent, never as HTML. */

import { bytes, count, cpu } from './format.js';
import { duration, micros, rate } from './format.js';
import { path } from './spark.js';
import { stateOf } from './status.js';

const SVG = 'http://www.w3.org/2000/svg';
/** Size of a line, in units of its view box. */
const WIDTH = 100;
const HEIGHT = 30;

/** Values on the card by role, each with its label. */
const FIGURES = {
  node: [
    ['Clients', ({ clients }) => count(clients)],
    ['Messages/s', ({ messages_per_s }) => rate(messages_per_s)],
    ['CPU', (server) => cpu(server.cpu)],
    ['Memory', ({ resident_bytes }) => bytes(resident_bytes)],
    ['Rooms', ({ rooms }) => count(rooms)],
    ['Up', ({ up_ms }) => duration(up_ms)],
  ],
  balancer: [
    ['Clients', ({ clients }) => count(clients)],
    ['Messages/s', ({ messages_per_s }) => rate(messages_per_s)],
    ['CPU', (server) => cpu(server.cpu)],
    ['Memory', ({ resident_bytes }) => bytes(resident_bytes)],
    ['p99', ({ p99_us }) => micros(p99_us)],
    ['Up', ({ up_ms }) => duration(up_ms)],
  ],
};

/**
 * Draws the servers of a role, one card each in this order. Removes the cards of other servers.
 *
 * @param {HTMLElement} list that contains only cards
 * @param {object[]} servers of a snapshot
 * @param {object} recent
 * @param {import('./history.js').History} recent.history messages/s by `server ID`
 * @param {Map<string, {arrived: number, left: number}>} recent.moves by server id
 */
export function showCards(list, servers, recent) {
  const most = Math.max(1, ...servers.map(({ clients }) => clients));
  const cardById = new Map([...list.children].map((card) => [card.dataset.id, card]));
  for (const [at, server] of servers.entries()) {
    const card = cardById.get(server.id) ?? makeCard(server);
    cardById.delete(server.id);
    if (list.children[at] !== card) list.insertBefore(card, list.children[at] ?? null);
    showCard(card, server, most, recent);
  }
  for (const card of cardById.values()) card.remove();
}

/**
 * Draws values as a line, which the first call adds to `parent`.
 *
 * @param {Element} parent
 * @param {(number | null)[]} values oldest first
 */
export function showLine(parent, values) {
  const svg = parent.querySelector('.spark') ?? addLine(parent);
  svg.firstElementChild.setAttribute('d', path(values, { width: WIDTH, height: HEIGHT }));
}

function addLine(parent) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', 'spark');
  svg.setAttribute('viewBox', `0 -1 ${WIDTH} ${HEIGHT + 2}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('aria-hidden', 'true');
  svg.append(document.createElementNS(SVG, 'path'));
  parent.append(svg);
  return svg;
}

function makeCard({ id, role }) {
  const card = make('li', 'card');
  card.dataset.id = id;
  const head = make('div', 'head');
  head.append(make('h3', '', id), make('span', 'badge'));
  const share = make('div', 'share');
  share.setAttribute('aria-hidden', 'true');
  share.append(make('div', ''));
  const figures = make('dl', 'figures');
  for (const [name] of FIGURES[role]) {
    const row = make('div', '');
    row.append(make('dt', '', name), make('dd', ''));
    figures.append(row);
  }
  card.append(head, make('p', 'detail'), share, figures, make('p', 'moves'));
  return card;
}

function showCard(card, server, most, { history, moves }) {
  const { label, tone, mark, detail } = stateOf(server);
  card.dataset.tone = tone;
  card.dataset.state = server.state;
  const badge = card.querySelector('.badge');
  badge.dataset.tone = tone;
  setText(badge, `${mark} ${label}`);
  setText(card.querySelector('.detail'), detail);
  const isGone = server.state === 'gone';
  card.querySelector('.share div').style.width = isGone ? '0' : `${(100 * server.clients) / most}%`;
  const values = card.querySelectorAll('.figures dd');
  for (const [at, [, value]] of FIGURES[server.role].entries()) {
    setText(values[at], isGone ? '–' : value(server));
  }
  setText(card.querySelector('.moves'), movesText(moves.get(server.id)));
  showLine(card, history.of(`server ${server.id}`));
}

function movesText(moves) {
  const texts = [];
  if (moves?.arrived) texts.push(`↘ ${count(moves.arrived)} arrived`);
  if (moves?.left) texts.push(`↗ ${count(moves.left)} left`);
  return texts.join(', ');
}

function make(tag, className, text = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}

/** Sets a text if it differs: screen readers announce each change. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
