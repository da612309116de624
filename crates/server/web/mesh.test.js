import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Mesh } from './mesh.js';

const totals = (messages, delivered = 0) => ({ messages, delivered, unavailable: 0 });
const report = (id, more = {}) => ({
  id, obstacle: null, view: { hash: 'h', nodes: 2 }, clients: 0, lingering: 0, rooms: 0, seats: 0, waiting: 0, started_ms: 1, view_age_ms: 0,
  view_is_stale: false, suspects: [], totals: totals(0), latency_us: [], flows: [], cpu_us: 0, resident_bytes: 7, ...more,
});
const node = (name, more = {}, row = {}) => ({ node: name, draining: more?.obstacle === 'draining', server: more && report(name, more), ...row });
const balancer = (name, more = {}, row = {}) => ({ balancer: name, clients: 0, trunks: 2, messages: 0, server: more && report(name, more), ...row });

/** Takes an answer a second. */
function begin() {
  const mesh = new Mesh();
  let at = 1_000_000;
  return (nodes, balancers = [], more = {}) => mesh.take((at += 1_000), { asked: 'a', view: { hash: 'h' }, nodes, balancers, missing: [], ...more });
}
const server = ({ servers }, id) => servers.find((one) => one.id === id);
const told = ({ stories }) => stories.map(({ what, node }) => (node ? `${what} ${node}` : what));
const missing = (id, why = 'no answer within 700ms') => ({ missing: [{ node: id, why }] });

test('rates are the increase of counts per second', () => {
  const take = begin();
  const first = take([node('a', { totals: totals(100, 90) }), node('b', { totals: totals(5) })]);
  assert.deepEqual([first.mesh.messages_per_s, server(first, 'a').cpu], [null, null]);
  const second = take([node('a', { totals: totals(150, 130), cpu_us: 250_000 }), node('b', { totals: totals(15) })]);
  assert.deepEqual([second.mesh.messages_per_s, second.mesh.delivered_per_s], [60, 40]);
  assert.deepEqual([server(second, 'b').messages_per_s, server(second, 'a').cpu], [10, 0.25]);
});

test('a restart begins the counts anew and is told', () => {
  const take = begin();
  const b = (started_ms, messages) => [node('a'), node('b', { started_ms, totals: totals(messages) })];
  take(b(1, 1_000));
  const after = take(b(2, 3));
  assert.deepEqual([server(after, 'b').messages_per_s, told(after)], [null, ['restarted b']]);
  assert.equal(server(take(b(2, 10)), 'b').messages_per_s, 7);
});

test('a silent node is named with its silence, and is gone when the view drops it', () => {
  const take = begin();
  take([node('a'), node('b')]);
  const silent = server(take([node('a'), node('b', null)], [], missing('b', 'it does not accept connections')), 'b');
  assert.deepEqual([silent.state, silent.silent_ms, silent.why], ['silent', 1_000, 'it does not accept connections']);
  const longer = take([node('a'), node('b', null)], [], missing('b'));
  assert.deepEqual(told(longer), ['silent b']);
  const gone = take([node('a')]);
  assert.deepEqual([server(gone, 'b').state, server(gone, 'b').silent_ms], ['gone', 3_000]);
  const back = take([node('a'), node('b')]);
  assert.equal(server(back, 'b').state, 'serving');
  assert.deepEqual(told(back), ['silent b', 'left b', 'joined b']);
});

test('one late answer is shown and not told, and an answer after silence is told', () => {
  const take = begin();
  take([node('a'), node('b')]);
  const late = take([node('a'), node('b', null)], [], missing('b'));
  assert.deepEqual([server(late, 'b').state, told(late)], ['silent', []]);
  take([node('a'), node('b', null)], [], missing('b'));
  assert.deepEqual(told(take([node('a'), node('b')])), ['silent b', 'answers b']);
});

test('a server that is gone is forgotten after half a minute', () => {
  const take = begin();
  take([node('a'), node('b')]);
  let last;
  for (let second = 0; second < 30; second += 1) last = take([node('a')]);
  assert.equal(server(last, 'b'), undefined);
});

test('a node drains by its own report or by the view, and its end is no failure', () => {
  const take = begin();
  take([node('a'), node('b'), node('c')]);
  const both = take([node('a'), node('b', { obstacle: 'draining' }), node('c', {}, { draining: true })]);
  assert.deepEqual([server(both, 'b').state, server(both, 'c').state], ['draining', 'draining']);
  const end = take([node('a'), node('c')]);
  assert.deepEqual(told(end), ['drains b', 'drains c', 'stopped b', 'serves c']);
});

test('the end of a draining node is told once, whether or not it is silent first', () => {
  const take = begin();
  take([node('a'), node('b', { obstacle: 'draining' })]);
  for (let second = 0; second < 2; second += 1) take([node('a'), node('b', null, { draining: true })], [], missing('b'));
  assert.deepEqual(told(take([node('a')])), ['stopped b']);
});

test('a balancer that does not answer is shown by what nodes report', () => {
  const take = begin();
  const lb = (messages, more = null) => [balancer('lb', more, { clients: 15, messages })];
  take([node('a')], lb(100));
  const second = take([node('a')], lb(180));
  const { state, clients, messages_per_s } = server(second, 'lb');
  assert.deepEqual([state, clients, messages_per_s], ['indirect', 15, 80]);
  assert.deepEqual(told(take([node('a')], lb(180))), [], 'there may be no route to it');
  assert.equal(server(take([node('a')], lb(180, {})), 'lb').state, 'serving');
});

test('suspicion and another view are shown at their servers', () => {
  const take = begin();
  const both = () => take([node('a', { suspects: ['b'] }), node('b', { view: { hash: 'x', nodes: 1 } })]);
  both();
  const second = both();
  assert.deepEqual([server(second, 'b').suspected_by, server(second, 'b').other_view_ms], [['a'], 1_000]);
  assert.deepEqual([server(second, 'a').suspected_by, server(second, 'a').other_view_ms], [[], null]);
});

test('readiness, suspicion and discovery are told as they change, with the servers that see it', () => {
  const take = begin();
  take([node('a', { suspects: ['a'] }), node('b')]);
  const stories = take([
    node('a', { obstacle: 'starting', view_is_stale: true, suspects: ['b'] }),
    node('b', { view_is_stale: true, suspects: ['b'] }),
  ]).stories.map(({ what, by }) => `${what} ${by.join('+')}`);
  assert.deepEqual(stories, ['unready a', 'stale a+b', 'suspects a+b', 'trusts a']);
});

test('a suspect that has left is not said to be trusted', () => {
  const take = begin();
  take([node('a', { suspects: ['b'] }), node('b')]);
  assert.deepEqual(told(take([node('a')])), ['left b']);
});

test('moved clients are counted since the last answer, also of a pair that the balancer has forgotten', () => {
  const take = begin();
  const flows = (...all) => ({ flows: all.map(([from, to, clients]) => ({ from, to, clients })) });
  take([node('a')], [balancer('x', flows(['a', 'b', 10], ['b', 'c', 4], ['c', 'a', 9])), balancer('y')]);
  const { stories } = take([node('a')], [
    balancer('x', flows(['a', 'b', 15], ['b', 'c', 4], ['c', 'a', 2])),
    balancer('y', flows(['a', 'b', 6])),
  ]);
  assert.deepEqual(stories.map(({ from, to, clients, by }) => [from, to, clients, by.join()]), [['a', 'b', 11, 'x,y'], ['c', 'a', 2, 'x']]);
});

test('the p99 is that of the last ten seconds and of all edges together', () => {
  const take = begin();
  const both = (fast, slow) => take([node('a', { latency_us: [[100, fast]] })], [balancer('lb', { latency_us: [[100, 0], [9_000, slow]] })]);
  assert.equal(both(0, 0).mesh.p99_us, null);
  const second = both(98, 2);
  assert.deepEqual([second.mesh.p99_us, server(second, 'a').p99_us], [9_000, 100]);
  let last;
  for (let n = 1; n <= 12; n += 1) last = both(98 + n, 2);
  assert.equal(last.mesh.p99_us, 100);
});

test('sums are those of the nodes that answer, and nodes stand before balancers', () => {
  const take = begin();
  const snapshot = take(
    [node('b', { clients: 3, seats: 2 }), node('c', { clients: 4, lingering: 1, waiting: 5 }), node('d', null)],
    [balancer('a', { clients: 9 })],
  );
  const { clients, lingering, seats, waiting } = snapshot.mesh;
  assert.deepEqual([clients, lingering, seats, waiting], [7, 1, 2, 5]);
  assert.deepEqual(snapshot.servers.map(({ id }) => id), ['b', 'c', 'd', 'a']);
});
