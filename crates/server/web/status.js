/** States, problems and moves of a snapshot. Nothing here touches the document. */

import { duration } from './format.js';
import { list } from './event_text.js';

/** Time in milliseconds that views may differ while they change. */
const VIEWS_DIFFER_MS = 3_000;
/** Time in milliseconds that a move is shown at its nodes. */
const RECENT_MS = 10_000;

/** Badge of each state. The mark means the same as the tone's colour. */
const STATES = {
  serving: { label: 'serving', tone: 'good', mark: '●' },
  draining: { label: 'draining', tone: 'busy', mark: '◐' },
  unready: { label: 'not ready', tone: 'busy', mark: '○' },
  silent: { label: 'no answer', tone: 'bad', mark: '✕' },
  indirect: { label: 'seen by nodes', tone: '', mark: '◌' },
  gone: { label: 'gone', tone: '', mark: '–' },
};

/**
 * Returns the badge of a server and a text with details.
 *
 * @param {object} server of a snapshot
 * @returns {{label: string, tone: string, mark: string, detail: string}}
 */
export function stateOf(server) {
  const state = STATES[server.state] ?? { label: server.state, tone: '', mark: '?' };
  const detail = details(server).join('; ');
  if (server.state !== 'serving') return { ...state, detail };
  if (isSuspected(server)) return { label: 'suspect', tone: 'bad', mark: '▲', detail };
  if (server.is_stale) return { label: 'stale view', tone: 'busy', mark: '◔', detail };
  return { ...state, detail };
}

const isSuspected = ({ suspected_by: by }) => by.length > 0;

function details(server) {
  const texts = [];
  if (server.state === 'silent') texts.push(`for ${duration(server.silent_ms)}: ${server.why}`);
  if (server.state === 'gone') texts.push(`for ${duration(server.silent_ms)}`);
  if (server.state === 'unready') texts.push(server.why);
  if (server.state === 'indirect') texts.push('it does not answer this server');
  if (isSuspected(server)) texts.push(`suspected by ${list(server.suspected_by)}`);
  if (server.is_stale) texts.push(`discovery last read ${duration(server.discovery_age_ms)} ago`);
  if (server.other_view_ms >= VIEWS_DIFFER_MS) texts.push('its view differs');
  return texts;
}

/**
 * Returns a sentence for each present problem, the most severe first.
 *
 * @param {object} snapshot
 * @returns {string[]}
 */
export function problems({ by, servers }) {
  const names = (found) => list(found.map(({ id }) => id));
  const silent = servers.filter(({ state }) => state === 'silent');
  const suspects = servers.filter(({ state }) => state !== 'gone').filter(isSuspected);
  const stale = servers.filter(({ is_stale }) => is_stale);
  const others = servers.filter(({ other_view_ms }) => other_view_ms >= VIEWS_DIFFER_MS);
  const unready = servers.filter(({ state }) => state === 'unready');
  const texts = [];
  for (const { id, silent_ms } of silent) {
    texts.push(`${id} has not answered for ${duration(silent_ms)}.`);
  }
  for (const { id, suspected_by } of suspects) {
    texts.push(`${id} is suspected by ${list(suspected_by)}.`);
  }
  if (stale.length > 0) {
    const oldest = Math.max(...stale.map(({ discovery_age_ms }) => discovery_age_ms));
    const age = `last read ${duration(oldest)} ago`;
    texts.push(`Discovery is stale at ${names(stale)}: ${age}. The last view stays in use.`);
  }
  if (others.length > 0) {
    const have = others.length > 1 ? 'have' : 'has';
    texts.push(`Views differ: ${names(others)} ${have} other nodes than ${by}.`);
  }
  for (const { id, why } of unready) texts.push(`${id} accepts no clients: ${why}.`);
  return texts;
}

/**
 * Counts the clients that moved to and from each node in the last 10 s; other nodes are absent.
 *
 * @param {object} snapshot
 * @returns {Map<string, {arrived: number, left: number}>} by node id
 */
export function recentMoves({ at_ms, events }) {
  const moves = new Map();
  const at = (id) => moves.get(id) ?? moves.set(id, { arrived: 0, left: 0 }).get(id);
  const recent = events.filter((event) => at_ms - event.at_ms <= RECENT_MS);
  for (const { from, to, clients } of recent.filter(({ kind }) => kind === 'moved')) {
    at(from).left += clients;
    at(to).arrived += clients;
  }
  return moves;
}

/**
 * Returns the values that are drawn as lines: sums by `mesh FIELD`, messages/s by `server ID`.
 *
 * @param {object} snapshot
 * @returns {Map<string, number | null>}
 */
export function lines({ mesh, servers }) {
  const keys = ['clients', 'messages_per_s', 'p99_us', 'seats'];
  const sums = keys.map((key) => [`mesh ${key}`, mesh[key]]);
  const rates = servers.map(({ id, messages_per_s: rate }) => [`server ${id}`, rate]);
  return new Map([...sums, ...rates]);
}
