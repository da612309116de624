/** Runs `../vectors/*.json`, which the Rust SDK passes too. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';

import { Client } from './client.js';
import { Core } from './core/core.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

const folder = new URL('../vectors/', import.meta.url);

for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
  for (const { name, options = {}, each = [null], steps } of JSON.parse(readFileSync(new URL(file, folder))).cases) {
    test(`${file}: ${name}`, () => {
      for (const value of each) run(options, replace(steps, (text) => pick(text, value)));
    });
  }
}

test('a client sends again what had no answer, on another socket and under its number', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.mock.method(Math, 'random', () => 0);
  const client = new Client({ urls: ['ws://mesh.example/v1/connect'], clientId: 'me', WebSocket: FakeSocket });
  const told = [];
  client.addEventListener('signal', ({ detail }) => told.push(detail.data));
  client.connect();
  const first = FakeSocket.latest;
  first.say({ ...WELCOME, resume: 'r1', resumed: false });
  const delivered = client.signal('bob', 'hello');
  first.end(1006);
  context.mock.timers.tick(10);
  const second = FakeSocket.latest;
  assert.deepEqual(second.protocols, ['signaling.v1', 'resume.r1']);
  second.say({ ...WELCOME, resume: 'r2', resumed: true });
  second.say({ type: 'signal', from: 'bob', data: 1, n: 1, m: 'b-1' });
  first.say({ type: 'signal', from: 'bob', data: 2, n: 2, m: 'b-2' });
  assert.deepEqual([first, second].map(({ sent }) => sent), [[HELLO], [HELLO]]);
  assert.deepEqual(told, [1]);
  second.say({ type: 'ack', id: 1 });
  await delivered;
  client.close();
  assert.deepEqual([client.state, second.closed], ['closed', 1000]);
});

test('what a listener asks for leaves behind what is sent again', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.mock.method(Math, 'random', () => 0);
  const client = new Client({ urls: ['ws://mesh.example/v1/connect'], clientId: 'me', WebSocket: FakeSocket });
  client.connect();
  FakeSocket.latest.say({ ...WELCOME, resume: 'r1', resumed: false });
  const closed = [client.signal('bob', 'hello'), client.signal('bob', 'again')].map((answer) => assert.rejects(answer));
  FakeSocket.latest.end(1006);
  context.mock.timers.tick(10);
  client.addEventListener('state', ({ detail }) => {
    if (detail.state === 'connected') closed.push(assert.rejects(client.signal('bob', 'back')));
  });
  FakeSocket.latest.say({ ...WELCOME, resume: 'r2', resumed: true });
  assert.deepEqual(FakeSocket.latest.sent.map((text) => JSON.parse(text).data), ['hello', 'again', 'back']);
  client.close();
  return Promise.all(closed);
});

test('a client whose session has ended listens to the browser no more', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const browser = new EventTarget();
  globalThis.addEventListener = browser.addEventListener.bind(browser);
  context.after(() => delete globalThis.addEventListener);
  const client = new Client({ urls: ['ws://mesh.example/v1/connect'], clientId: 'me', WebSocket: FakeSocket, storage: null });
  client.connect();
  const socket = FakeSocket.latest;
  socket.say({ ...WELCOME, resume: 'r1', resumed: false });
  browser.dispatchEvent(new Event('online'));
  assert.deepEqual(socket.sent, ['{"type":"ping"}']);
  client.close();
  client.connect();
  browser.dispatchEvent(Object.assign(new Event('pagehide'), { persisted: true }));
  browser.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true }));
  assert.equal(client.state, 'connecting');
  client.close();
  browser.dispatchEvent(new Event('online'));
  browser.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true }));
  assert.equal(client.state, 'closed');
});

test('a client tells the ICE servers and the node that it heard of last', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const client = new Client({ urls: ['ws://mesh.example/v1/connect'], clientId: 'me', WebSocket: FakeSocket, storage: null });
  assert.deepEqual([client.iceServers, client.node], [[], null]);
  client.connect();
  const stun = [{ urls: ['stun:one.example'] }], turn = [{ urls: ['turn:two.example'] }];
  FakeSocket.latest.say({ ...WELCOME, resume: 'r1', resumed: false, ice_servers: stun, node: 'node-0' });
  assert.deepEqual([client.iceServers, client.node], [stun, 'node-0']);
  FakeSocket.latest.say({ type: 'ice_servers', ice_servers: turn });
  FakeSocket.latest.say({ type: 'moved', node: 'node-1' });
  assert.deepEqual([client.iceServers, client.node], [turn, 'node-1']);
  client.close();
});

const HELLO = '{"type":"signal","id":1,"to":"bob","data":"hello"}';
function run({ urls, tokens, queue, queue_bytes: queueBytes, timeout_ms: timeoutMs, session }, steps) {
  const given = Object.entries({ urls, tokens, queue, queueBytes, timeoutMs, session }).filter(([, value]) => value !== undefined);
  const core = new Core({ clientId: 'me', ...Object.fromEntries(given) });
  for (const step of steps) {
    const { at, random = 0.5, times = 1, out, error, next } = step;
    const what = `at ${at}: ${JSON.stringify(step.in)}`;
    for (let number = 1; number <= times; number += 1) {
      const take = () => input(core, at, random, filled(replace(step.in, (text) => numbered(text, number))));
      if (error) assert.throws(take, { code: error }, what);
      else take();
    }
    const got = core.takeEffects().map(({ write, welcome, ...rest }) => (write ? { write: JSON.parse(write) } : rest));
    const effects = got.map((effect) => (Object.keys(effect)[0] === '0' ? Object.values(effect).join('') : effect));
    if (out !== 'any') assert.deepEqual(effects, filled(out.flatMap(repeated)), what);
    if (next !== undefined) assert.equal(core.deadline, next, `${what}: the next tick`);
  }
}

function input(core, now, random, given) {
  if (given === 'start') return core.start(now);
  const [[word, fields]] = typeof given === 'string' ? [[given]] : Object.entries(given);
  switch (word) {
    case 'start':
    case 'tick':
    case 'shown':
      return core[word](now, random);
    case 'wake':
      return core.networkChanged(now, random);
    case 'close':
    case 'detach':
    case 'suspend':
    case 'hidden':
      return core[word]();
    case 'ice_servers':
      return core.ask({ type: 'ice_servers' });
    case 'text':
      return core.text(now, random, JSON.stringify(fields));
    case 'raw':
      return core.text(now, random, fields);
    case 'lost':
      return core.lost(now, random, fields);
    case 'refused':
      return core.refused(now, random, fields);
    case 'token':
      return core.token(now, fields);
    case 'token_failed':
      return core.tokenFailed(now, random);
    case 'members':
      return core.ask({ type: 'members', ...fields });
    default:
      return core.request(now, { type: word, ...fields });
  }
}

const repeated = ({ times, ...once }, at, all) =>
  times ? Array.from({ length: times }, (_, index) => replace(once, (text) => numbered(text, index + 1))) : [all[at]];

const numbered = (text, number) => (text === '$i' ? number : text.replaceAll('$i', number));

function pick(text, value) {
  if (!text.startsWith('$each')) return text;
  return text === '$each' ? value : value[Number(text.slice('$each.'.length))];
}

/** `{"fill":N}` stands for a text of N letters. */
const filled = (value) => change(value, (object) => (object.fill ? 'x'.repeat(object.fill) : object), (text) => text);
const replace = (value, text) => change(value, (object) => object, text);

function change(value, object, text) {
  if (typeof value === 'string') return text(value);
  if (Array.isArray(value)) return value.map((item) => change(item, object, text));
  if (value === null || typeof value !== 'object') return value;
  return object(Object.fromEntries(Object.entries(value).map(([name, item]) => [name, change(item, object, text)])));
}
