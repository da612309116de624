/** All that touches the document, but for cards. Text from others enters by textContent alone. */

import { setText, showCards, showLine } from './cards.js';
import { clock, count, duration, micros, rate } from './format.js';
import { recentMoves, troubles } from './reading.js';
import { tell } from './words.js';

/** Values of each line: two minutes. */
export const LENGTH = 120;

const TITLE = document.title;

const element = (id) => document.getElementById(id);

/** @param {object} snapshot @param {import('./history.js').History} history */
export function show(snapshot, history) {
  setText(element('by'), snapshot.by);
  showSums(snapshot.mesh, history);
  showTroubles(troubles(snapshot));
  const lately = { history, moves: recentMoves(snapshot), length: LENGTH };
  const of = (role) => snapshot.servers.filter((server) => server.role === role);
  showCards(element('nodes'), of('node'), lately);
  showCards(element('balancers'), of('balancer'), lately);
  element('no-balancers').hidden = of('balancer').length > 0;
  showStories(snapshot.stories);
}

/** @param {import('./poll.js').Poll} poll */
export function showPoll({ isLive, needsToken, refusal, silenceMs }) {
  const live = element('live');
  setText(live, isLive ? '● live' : needsToken ? '○ no token' : silenceMs === null && !refusal ? '○ connecting' : '✕ not live');
  live.dataset.tone = isLive ? 'good' : 'bad';
  element('token').hidden = !needsToken;
  setText(element('token-refusal'), needsToken ? refusal : '');
  const isLost = !isLive && !needsToken && (silenceMs !== null || refusal !== '');
  element('lost').hidden = !isLost;
  document.body.classList.toggle('is-lost', isLost);
  if (isLost) {
    const what = refusal ? `This server refuses: ${refusal}.` : `Nothing has come from this server for ${duration(silenceMs)}: what is shown is that old.`;
    setText(element('lost-text'), `${what} The page goes on asking; any other server's internal address serves it too.`);
  }
}

/** Calls `take` with each token that its user gives. @param {(token: string) => void} take */
export function onToken(take) {
  element('token').addEventListener('submit', (event) => {
    event.preventDefault();
    const field = element('token-field');
    const token = field.value.trim();
    field.value = '';
    // What no header can hold is no token.
    if (/^[\x21-\x7e]+$/.test(token)) take(token);
  });
}

/** From now on news are read out; what had happened before the page was opened is there to be read. */
export function announce() {
  element('log-frame').setAttribute('aria-live', 'polite');
}

function showSums(mesh, history) {
  setText(element('clients'), count(mesh.clients));
  setText(element('lingering'), mesh.lingering ? `${count(mesh.lingering)} away for a moment` : '');
  setText(element('messages'), rate(mesh.messages_per_s));
  const lost = mesh.unavailable_per_s ? `, ${rate(mesh.unavailable_per_s)}/s had no recipient` : '';
  setText(element('delivered'), `${rate(mesh.delivered_per_s)}/s delivered${lost}`);
  setText(element('p99'), micros(mesh.p99_us));
  setText(element('seats'), count(mesh.seats));
  setText(element('waiting'), mesh.waiting ? `${count(mesh.waiting)} in line` : 'nobody in line');
  for (const [id, key] of [['clients', 'clients'], ['messages', 'messages_per_s'], ['p99', 'p99_us'], ['seats', 'seats']]) {
    showLine(element(id).parentElement, history.of(`mesh ${key}`), LENGTH);
  }
}

function showTroubles(said) {
  document.title = said.length === 0 ? TITLE : `(${said.length}) ${TITLE}`;
  element('troubles').hidden = said.length === 0;
  const list = element('troubles-list');
  while (list.children.length > said.length) list.lastElementChild.remove();
  while (list.children.length < said.length) list.append(document.createElement('li'));
  for (const [at, text] of said.entries()) setText(list.children[at], text);
}

/** The newest on top. What was told already stays where it is, so that nothing is read out twice. */
function showStories(stories) {
  const log = element('log');
  const told = stories.map((story) => ({ key: keyOf(story), at: story.at_ms, said: tell(story) })).filter(({ said }) => said);
  const keys = new Set(told.map(({ key }) => key));
  for (const item of [...log.children].filter(({ dataset }) => !keys.has(dataset.key))) item.remove();
  const known = new Map([...log.children].map((item) => [item.dataset.key, item]));
  let after = null;
  for (const { key, at, said } of told) {
    const item = known.get(key) ?? makeItem(key, at);
    item.dataset.tone = said.tone;
    setText(item.querySelector('.mark'), said.mark);
    setText(item.querySelector('.text'), said.text);
    if (!item.isConnected || item.nextElementSibling !== after) log.insertBefore(item, after);
    after = item;
  }
  element('no-happenings').hidden = log.childElementCount > 0;
}

/** The same story, whoever else has seen it meanwhile, and however many more have moved. */
function keyOf({ at_ms, what, node, from, to, by }) {
  return [at_ms, what, node ?? '', from ?? '', to ?? '', node || from ? '' : by[0]].join(' ');
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
