/** Draws the page, except the cards. Texts of servers are set as textContent, never as HTML. */

import { setText, showCards, showLine } from './cards.js';
import { describe } from './event_text.js';
import { clock, count } from './format.js';
import { duration, micros, rate } from './format.js';
import { problems, recentMoves } from './status.js';

/** Values of each line, one per second. */
export const LENGTH = 120;

const TITLE = document.title;

const element = (id) => document.getElementById(id);

/** Draws a snapshot. @param {object} snapshot @param {import('./history.js').History} history */
export function show(snapshot, history) {
  setText(element('by'), snapshot.by);
  showSums(snapshot.mesh, history);
  showProblems(problems(snapshot));
  const recent = { history, moves: recentMoves(snapshot) };
  const of = (role) => snapshot.servers.filter((server) => server.role === role);
  showCards(element('nodes'), of('node'), recent);
  showCards(element('balancers'), of('balancer'), recent);
  element('no-balancers').hidden = of('balancer').length > 0;
  showEvents(snapshot.events);
}

/** Draws whether requests succeed, or why not. @param {import('./poll.js').Poll} poll */
export function showPoll({ isLive, needsToken, hasWrongToken, refusal, silenceMs }) {
  const live = element('live');
  const isConnecting = silenceMs === null && !refusal;
  if (isLive) setText(live, '● live');
  else if (needsToken) setText(live, hasWrongToken ? '✕ wrong token' : '○ no token');
  else setText(live, isConnecting ? '○ connecting' : '✕ not live');
  live.dataset.tone = isLive ? 'good' : 'bad';
  element('token').hidden = !needsToken;
  setText(element('token-refusal'), needsToken ? refusal : '');
  const isLost = !isLive && !needsToken && !isConnecting;
  element('lost').hidden = !isLost;
  document.body.classList.toggle('is-lost', isLost);
  if (isLost) {
    const why = refusal
      ? `This server refuses the request: ${refusal}.`
      : `This server has not answered for ${duration(silenceMs)}. The values are from before.`;
    const next = 'The page retries. The internal address of any other server has this page too.';
    setText(element('lost-text'), `${why} ${next}`);
  }
}

/** Calls `use` with each valid token that the user enters. @param {(token: string) => void} use */
export function onToken(use) {
  element('token').addEventListener('submit', (event) => {
    event.preventDefault();
    const field = element('token-field');
    const token = field.value.trim();
    field.value = '';
    // A token fits in a header.
    if (/^[\x21-\x7e]+$/.test(token)) use(token);
  });
}

/** Lets screen readers announce events from now on. */
export function announceEvents() {
  element('log-frame').setAttribute('aria-live', 'polite');
}

function showSums(mesh, history) {
  setText(element('clients'), count(mesh.clients));
  setText(element('lingering'), mesh.lingering ? `${count(mesh.lingering)} without a socket` : '');
  setText(element('messages'), rate(mesh.messages_per_s));
  const unavailable = mesh.unavailable_per_s;
  const lost = unavailable ? `, ${rate(unavailable)}/s without a recipient` : '';
  setText(element('delivered'), `${rate(mesh.delivered_per_s)}/s delivered${lost}`);
  setText(element('p99'), micros(mesh.p99_us));
  setText(element('seats'), count(mesh.seats));
  setText(element('waiting'), `${count(mesh.waiting)} in waiting queues`);
  const lines = { clients: 'clients', messages: 'messages_per_s', p99: 'p99_us', seats: 'seats' };
  for (const [id, key] of Object.entries(lines)) {
    showLine(element(id).parentElement, history.of(`mesh ${key}`));
  }
}

function showProblems(texts) {
  document.title = texts.length === 0 ? TITLE : `(${texts.length}) ${TITLE}`;
  element('problems').hidden = texts.length === 0;
  const list = element('problems-list');
  while (list.children.length > texts.length) list.lastElementChild.remove();
  while (list.children.length < texts.length) list.append(document.createElement('li'));
  for (const [at, text] of texts.entries()) setText(list.children[at], text);
}

/** Draws events, the newest on top. Known ones keep their element, so none is announced twice. */
function showEvents(events) {
  const log = element('log');
  const known = events.filter((event) => describe(event) !== null);
  const keys = new Set(known.map(keyOf));
  for (const item of [...log.children]) if (!keys.has(item.dataset.key)) item.remove();
  const itemByKey = new Map([...log.children].map((item) => [item.dataset.key, item]));
  let after = null;
  for (const event of known) {
    const description = describe(event);
    const key = keyOf(event);
    const item = itemByKey.get(key) ?? makeItem(key, event.at_ms);
    item.dataset.tone = description.tone;
    setText(item.querySelector('.mark'), description.mark);
    setText(item.querySelector('.text'), description.text);
    if (!item.isConnected || item.nextElementSibling !== after) log.insertBefore(item, after);
    after = item;
  }
  element('no-events').hidden = log.childElementCount > 0;
}

/** Returns a key that stays while more servers report the event and more clients move. */
function keyOf({ at_ms, kind, node, ...event }) {
  const { from, to, by } = event;
  const subject = node || from ? '' : by[0];
  return [at_ms, kind, node ?? '', from ?? '', to ?? '', subject].join(' ');
}

function makeItem(key, at) {
  const item = document.createElement('li');
  item.dataset.key = key;
  const time = document.createElement('time');
  time.dateTime = new Date(at).toISOString();
  time.textContent = clock(at);
  const mark = document.createElement('span');
  mark.className = 'mark';
  mark.setAttribute('aria-hidden', 'true');
  const text = document.createElement('span');
  text.className = 'text';
  item.append(time, mark, text);
  return item;
}
