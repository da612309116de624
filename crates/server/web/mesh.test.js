import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Mesh } from './mesh.js';

const totals = (messages, delivered = 0) => ({ messages, delivered, unavailable: 0 });
const report = (id, more = {}) => ({
  id,
  obstacle: null,
  view: { hash: 'h', nodes: 2 },
  view_age_ms: 0,
  view_is_stale: false,
  clients: 0,
  lingering: 0,
  rooms: 0,
  seats: 0,
  waiting: 0,
  started_ms: 1,
  suspects: [],
  totals: totals(0),
  latency_us: [],
  flows: [],
  cpu_us: 0,
  resident_bytes: 7,
  ...more,
});
/** Rows of an answer; the server of a row is null if `more` is. */
const node = (name, more = {}, row = {}) => {
  const draining = more?.obstacle === 'draining';
  return { node: name, draining, server: more && report(name, more), ...row };
};
const balancer = (name, more = {}, row = {}) => {
  const counts = { clients: 0, trunks: 2, messages: 0 };
  return { balancer: name, ...counts, server: more && report(name, more), ...row };
};

/** Returns a function that handles one answer per second. */
function begin() {
  const mesh = new Mesh();
  let at = 1_000_000;
  return (nodes, balancers = [], more = {}) => {
    at += 1_000;
    const view = { hash: 'h' };
    return mesh.update(at, { asked: 'a', view, nodes, balancers, missing: [], ...more });
  };
}
const server = ({ servers }, id) => servers.find((one) => one.id === id);
const kinds = ({ events }) => events.map(({ kind, node }) => (node ? `${kind} ${node}` : kind));
const missing = (id, why = 'no answer within 700ms') => ({ missing: [{ node: id, why }] });

test('rate is the increase of a count per second', () => {
  const update = begin();
  const first = update([node('a', { totals: totals(100, 90) }), node('b', { totals: totals(5) })]);
  assert.deepEqual([first.mesh.messages_per_s, server(first, 'a').cpu], [null, null]);
  const busy = { totals: totals(150, 130), cpu_us: 250_000 };
  const second = update([node('a', busy), node('b', { totals: totals(15) })]);
  assert.deepEqual([second.mesh.messages_per_s, second.mesh.delivered_per_s], [60, 40]);
  assert.deepEqual([server(second, 'b').messages_per_s, server(second, 'a').cpu], [10, 0.25]);
});

test('rates ignore the counts before a restart', () => {
  const update = begin();
  const b = (started_ms, messages) => [node('a'), node('b', { started_ms, totals: totals(messages) })];
  update(b(1, 1_000));
  const after = update(b(2, 3));
  assert.deepEqual([server(after, 'b').messages_per_s, kinds(after)], [null, ['restarted b']]);
  assert.equal(server(update(b(2, 10)), 'b').messages_per_s, 7);
});

test('silent node is gone when the view drops it', () => {
  const update = begin();
  update([node('a'), node('b')]);
  const why = 'it does not accept connections';
  const silent = server(update([node('a'), node('b', null)], [], missing('b', why)), 'b');
  assert.deepEqual([silent.state, silent.silent_ms, silent.why], ['silent', 1_000, why]);
  const longer = update([node('a'), node('b', null)], [], missing('b'));
  assert.deepEqual(kinds(longer), ['silent b']);
  const gone = update([node('a')]);
  assert.deepEqual([server(gone, 'b').state, server(gone, 'b').silent_ms], ['gone', 3_000]);
  const back = update([node('a'), node('b')]);
  assert.equal(server(back, 'b').state, 'serving');
  assert.deepEqual(kinds(back), ['silent b', 'left b', 'joined b']);
});

test('silence is an event after two missing answers', () => {
  const update = begin();
  update([node('a'), node('b')]);
  const late = update([node('a'), node('b', null)], [], missing('b'));
  assert.deepEqual([server(late, 'b').state, kinds(late)], ['silent', []]);
  update([node('a'), node('b', null)], [], missing('b'));
  assert.deepEqual(kinds(update([node('a'), node('b')])), ['silent b', 'answers b']);
});

test('server is dropped 30 s after it left', () => {
  const update = begin();
  update([node('a'), node('b')]);
  let last;
  for (let second = 0; second < 30; second += 1) last = update([node('a')]);
  assert.equal(server(last, 'b'), undefined);
});

test('node drains by its report or by the view, then stops', () => {
  const update = begin();
  update([node('a'), node('b'), node('c')]);
  const byReport = node('b', { obstacle: 'draining' });
  const both = update([node('a'), byReport, node('c', {}, { draining: true })]);
  assert.deepEqual([server(both, 'b').state, server(both, 'c').state], ['draining', 'draining']);
  const end = update([node('a'), node('c')]);
  assert.deepEqual(kinds(end), ['drains b', 'drains c', 'stopped b', 'serves c']);
});

test('stop is one event when a draining node is silent first', () => {
  const update = begin();
  update([node('a'), node('b', { obstacle: 'draining' })]);
  for (let second = 0; second < 2; second += 1) {
    update([node('a'), node('b', null, { draining: true })], [], missing('b'));
  }
  assert.deepEqual(kinds(update([node('a')])), ['stopped b']);
});

test('balancer is shown by reports of nodes without its answer', () => {
  const update = begin();
  const lb = (messages, more = null) => [balancer('lb', more, { clients: 15, messages })];
  update([node('a')], lb(100));
  const second = update([node('a')], lb(180));
  const { state, clients, messages_per_s } = server(second, 'lb');
  assert.deepEqual([state, clients, messages_per_s], ['indirect', 15, 80]);
  assert.deepEqual(kinds(update([node('a')], lb(180))), [], 'there may be no route to it');
  assert.equal(server(update([node('a')], lb(180, {})), 'lb').state, 'serving');
});

test('suspicion and a different view are shown at their server', () => {
  const update = begin();
  const other = { view: { hash: 'x', nodes: 1 } };
  const both = () => update([node('a', { suspects: ['b'] }), node('b', other)]);
  both();
  const second = both();
  assert.deepEqual([server(second, 'b').suspected_by, server(second, 'b').other_view_ms], [['a'], 1_000]);
  assert.deepEqual([server(second, 'a').suspected_by, server(second, 'a').other_view_ms], [[], null]);
});

test('changed readiness, suspicion and discovery are events', () => {
  const update = begin();
  update([node('a', { suspects: ['a'] }), node('b')]);
  const events = update([
    node('a', { obstacle: 'starting', view_is_stale: true, suspects: ['b'] }),
    node('b', { view_is_stale: true, suspects: ['b'] }),
  ]).events.map(({ kind, by }) => `${kind} ${by.join('+')}`);
  assert.deepEqual(events, ['unready a', 'stale a+b', 'suspects a+b', 'trusts a']);
});

test('suspect that left causes no trust event', () => {
  const update = begin();
  update([node('a', { suspects: ['b'] }), node('b')]);
  assert.deepEqual(kinds(update([node('a')])), ['left b']);
});

test('moves are counted per answer, also after a count restarts', () => {
  const update = begin();
  const flows = (...all) => ({ flows: all.map(([from, to, clients]) => ({ from, to, clients })) });
  const before = flows(['a', 'b', 10], ['b', 'c', 4], ['c', 'a', 9]);
  update([node('a')], [balancer('x', before), balancer('y')]);
  const { events } = update([node('a')], [
    balancer('x', flows(['a', 'b', 15], ['b', 'c', 4], ['c', 'a', 2])),
    balancer('y', flows(['a', 'b', 6])),
  ]);
  const moves = events.map(({ from, to, clients, by }) => [from, to, clients, by.join()]);
  assert.deepEqual(moves, [['a', 'b', 11, 'x,y'], ['c', 'a', 2, 'x']]);
});

test('p99 covers all edges and the last 10 s', () => {
  const update = begin();
  const both = (fast, slow) => {
    const latencies = { latency_us: [[100, 0], [9_000, slow]] };
    return update([node('a', { latency_us: [[100, fast]] })], [balancer('lb', latencies)]);
  };
  assert.equal(both(0, 0).mesh.p99_us, null);
  const second = both(98, 2);
  assert.deepEqual([second.mesh.p99_us, server(second, 'a').p99_us], [9_000, 100]);
  let last;
  for (let n = 1; n <= 12; n += 1) last = both(98 + n, 2);
  assert.equal(last.mesh.p99_us, 100);
});

test('sums cover answering nodes, which precede balancers', () => {
  const update = begin();
  const snapshot = update(
    [node('b', { clients: 3, seats: 2 }), node('c', { clients: 4, lingering: 1, waiting: 5 }), node('d', null)],
    [balancer('a', { clients: 9 })],
  );
  const { clients, lingering, seats, waiting } = snapshot.mesh;
  assert.deepEqual([clients, lingering, seats, waiting], [7, 1, 2, 5]);
  assert.deepEqual(snapshot.servers.map(({ id }) => id), ['b', 'c', 'd', 'a']);
});
