import assert from 'node:assert/strict';
import { test } from 'node:test';

import { lines, recentMoves, stateOf, troubles } from './reading.js';

const server = (id, more = {}) => ({
  id, state: 'serving', suspected_by: [], is_stale: false, discovery_age_ms: 100, other_view_ms: null, clients: 0, messages_per_s: 5, ...more,
});
const snapshot = (...servers) => ({ at_ms: 100_000, by: 'node-0', mesh: {}, servers, stories: [] });

test('each state has a word and a shape of its own', () => {
  const states = ['serving', 'draining', 'unready', 'silent', 'indirect', 'gone'].map((state) => stateOf(server('a', { state, silent_ms: 1 })));
  states.push(stateOf(server('a', { suspected_by: ['b'] })), stateOf(server('a', { is_stale: true })));
  for (const key of ['label', 'mark']) assert.equal(new Set(states.map((state) => state[key])).size, states.length, key);
});

test('a state that this page does not know is shown as it is', () => {
  assert.equal(stateOf(server('a', { state: 'singing' })).label, 'singing');
});

test('what is silent, suspect, stale, other or unready is said in words', () => {
  const said = troubles(snapshot(
    server('node-0'),
    server('node-1', { state: 'silent', silent_ms: 4_200, why: 'late', suspected_by: ['node-0', 'balancer-0'] }),
    server('node-2', { is_stale: true, discovery_age_ms: 61_000 }),
    server('node-3', { other_view_ms: 5_000 }),
    server('node-4', { state: 'unready', why: 'starting' }),
  ));
  assert.deepEqual(said, [
    'node-1 has not answered for 4 s.',
    'node-1 is not relied on by node-0 and balancer-0.',
    'Discovery is stale at node-2: last read 1 min 1 s ago. The last view stays in use.',
    'Views differ: node-3 sees other nodes than node-0.',
    'node-4 takes no work: starting.',
  ]);
});

test('a mesh that is well has no troubles, and neither has one whose views just change or that a node has left', () => {
  const gone = server('node-2', { state: 'gone', silent_ms: 9_000, suspected_by: ['node-0'] });
  assert.deepEqual(troubles(snapshot(server('node-0'), server('node-1', { other_view_ms: 900 }), gone)), []);
});

test('moves of the last seconds are added up at both ends', () => {
  const move = (at_ms, from, to, clients) => ({ what: 'moved', at_ms, from, to, clients, by: ['balancer-0'] });
  const stories = [move(80_000, 'a', 'b', 100), move(95_000, 'a', 'b', 3), move(99_000, 'c', 'b', 4), { what: 'left', at_ms: 99_000, node: 'c' }];
  const moves = recentMoves({ ...snapshot(), stories });
  assert.deepEqual([...moves], [['a', { came: 0, went: 3 }], ['b', { came: 7, went: 0 }], ['c', { came: 0, went: 4 }]]);
});

test('each server and each sum has a line', () => {
  const keys = [...lines({ ...snapshot(server('a')), mesh: { clients: 3, messages_per_s: null, p99_us: null, seats: 0 } })];
  assert.deepEqual(keys, [['mesh clients', 3], ['mesh messages_per_s', null], ['mesh p99_us', null], ['mesh seats', 0], ['server a', 5]]);
});
