import assert from 'node:assert/strict';
import { test } from 'node:test';

import { lines, problems, recentMoves, stateOf } from './status.js';

const server = (id, more = {}) => ({
  id,
  state: 'serving',
  suspected_by: [],
  is_stale: false,
  discovery_age_ms: 100,
  other_view_ms: null,
  clients: 0,
  messages_per_s: 5,
  ...more,
});
const snapshot = (...servers) => ({ at_ms: 100_000, by: 'node-0', mesh: {}, servers, events: [] });

test('each state has its own label and mark', () => {
  const names = ['serving', 'draining', 'unready', 'silent', 'indirect', 'gone'];
  const states = names.map((state) => stateOf(server('a', { state, silent_ms: 1 })));
  states.push(stateOf(server('a', { suspected_by: ['b'] })), stateOf(server('a', { is_stale: true })));
  for (const key of ['label', 'mark']) {
    assert.equal(new Set(states.map((state) => state[key])).size, states.length, key);
  }
});

test('unknown state is its own label', () => {
  assert.equal(stateOf(server('a', { state: 'singing' })).label, 'singing');
});

test('each problem of a server has a sentence', () => {
  const silent = { state: 'silent', silent_ms: 4_200, why: 'late' };
  const texts = problems(snapshot(
    server('node-0'),
    server('node-1', { ...silent, suspected_by: ['node-0', 'balancer-0'] }),
    server('node-2', { is_stale: true, discovery_age_ms: 61_000 }),
    server('node-3', { other_view_ms: 5_000 }),
    server('node-4', { state: 'unready', why: 'starting' }),
  ));
  assert.deepEqual(texts, [
    'node-1 has not answered for 4 s.',
    'node-1 is suspected by node-0 and balancer-0.',
    'Discovery is stale at node-2: last read 1 min 1 s ago. The last view stays in use.',
    'Views differ: node-3 has other nodes than node-0.',
    'node-4 accepts no clients: starting.',
  ]);
});

test('changing view and departed node are no problems', () => {
  const gone = server('node-2', { state: 'gone', silent_ms: 9_000, suspected_by: ['node-0'] });
  const changing = server('node-1', { other_view_ms: 900 });
  assert.deepEqual(problems(snapshot(server('node-0'), changing, gone)), []);
});

test('recent moves are summed at both nodes', () => {
  const move = (at_ms, from, to, clients) => ({ kind: 'moved', at_ms, from, to, clients });
  const events = [
    move(80_000, 'a', 'b', 100),
    move(95_000, 'a', 'b', 3),
    move(99_000, 'c', 'b', 4),
    { kind: 'left', at_ms: 99_000, node: 'c' },
  ];
  const moves = Object.fromEntries(recentMoves({ ...snapshot(), events }));
  assert.deepEqual(moves, {
    a: { arrived: 0, left: 3 },
    b: { arrived: 7, left: 0 },
    c: { arrived: 0, left: 4 },
  });
});

test('each server and each sum has a line', () => {
  const mesh = { clients: 3, messages_per_s: null, p99_us: null, seats: 0 };
  assert.deepEqual(Object.fromEntries(lines({ ...snapshot(server('a')), mesh })), {
    'mesh clients': 3,
    'mesh messages_per_s': null,
    'mesh p99_us': null,
    'mesh seats': 0,
    'server a': 5,
  });
});
