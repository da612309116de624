/** What a snapshot means: how each server is, what is wrong, who moved where. Nothing here touches the document. */

import { duration } from './format.js';
import { list } from './words.js';

/** Views may differ for a moment while they change. */
const VIEWS_DIFFER_MS = 3_000;
/** How long a move shows at the nodes. */
const RECENT_MS = 10_000;

/** By state: what the badge says, and its shape, which says the same as its colour. */
const STATES = {
  serving: { label: 'serving', tone: 'good', mark: '●' },
  draining: { label: 'draining', tone: 'busy', mark: '◐' },
  unready: { label: 'not ready', tone: 'busy', mark: '○' },
  silent: { label: 'no answer', tone: 'bad', mark: '✕' },
  indirect: { label: 'seen by nodes', tone: '', mark: '◌' },
  gone: { label: 'gone', tone: '', mark: '–' },
};

/** @param {object} server @returns {{label: string, tone: string, mark: string, detail: string}} */
export function stateOf(server) {
  const state = STATES[server.state] ?? { label: server.state, tone: '', mark: '?' };
  const detail = details(server).join('; ');
  if (server.state !== 'serving') return { ...state, detail };
  if (server.suspected_by.length > 0) return { label: 'suspect', tone: 'bad', mark: '▲', detail };
  if (server.is_stale) return { label: 'stale view', tone: 'busy', mark: '◔', detail };
  return { ...state, detail };
}

function details(server) {
  const said = [];
  if (server.state === 'silent') said.push(`for ${duration(server.silent_ms)}: ${server.why}`);
  if (server.state === 'gone') said.push(`for ${duration(server.silent_ms)}`);
  if (server.state === 'unready') said.push(server.why);
  if (server.state === 'indirect') said.push('it does not answer this server itself');
  if (server.suspected_by.length > 0) said.push(`not relied on by ${list(server.suspected_by)}`);
  if (server.is_stale) said.push(`discovery last read ${duration(server.discovery_age_ms)} ago`);
  if (server.other_view_ms >= VIEWS_DIFFER_MS) said.push('sees another set of nodes');
  return said;
}

/** What is wrong now, worst first, in words. @param {object} snapshot @returns {string[]} */
export function troubles({ by, servers }) {
  const those = (is) => servers.filter(is);
  const names = (found) => list(found.map(({ id }) => id));
  const said = those(({ state }) => state === 'silent').map(({ id, silent_ms }) => `${id} has not answered for ${duration(silent_ms)}.`);
  for (const { id, suspected_by } of those(({ state, suspected_by }) => state !== 'gone' && suspected_by.length > 0)) {
    said.push(`${id} is not relied on by ${list(suspected_by)}.`);
  }
  const stale = those(({ is_stale }) => is_stale);
  if (stale.length > 0) {
    const oldest = Math.max(...stale.map(({ discovery_age_ms }) => discovery_age_ms));
    said.push(`Discovery is stale at ${names(stale)}: last read ${duration(oldest)} ago. The last view stays in use.`);
  }
  const others = those(({ other_view_ms }) => other_view_ms >= VIEWS_DIFFER_MS);
  if (others.length > 0) said.push(`Views differ: ${names(others)} ${others.length > 1 ? 'see' : 'sees'} other nodes than ${by}.`);
  const unready = those(({ state }) => state === 'unready');
  for (const { id, why } of unready) said.push(`${id} takes no work: ${why}.`);
  return said;
}

/**
 * Who came to and left each node lately.
 * @returns {Map<string, {came: number, went: number}>}
 */
export function recentMoves({ at_ms, stories }) {
  const moves = new Map();
  const at = (id) => moves.get(id) ?? moves.set(id, { came: 0, went: 0 }).get(id);
  for (const { what, at_ms: then, from, to, clients } of stories) {
    if (what !== 'moved' || at_ms - then > RECENT_MS) continue;
    at(from).went += clients;
    at(to).came += clients;
  }
  return moves;
}

/** The values that have a line. @param {object} snapshot @returns {Map<string, number | null>} */
export function lines({ mesh, servers }) {
  const sums = ['clients', 'messages_per_s', 'p99_us', 'seats'].map((key) => [`mesh ${key}`, mesh[key]]);
  return new Map([...sums, ...servers.map(({ id, messages_per_s }) => [`server ${id}`, messages_per_s])]);
}
