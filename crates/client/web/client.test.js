/** The client around its core, on sockets in memory and mocked time. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Client } from './client.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

const OPTIONS = { clientId: 'me', WebSocket: FakeSocket, storage: null, logLevel: 'none' };

/** Returns a client that is connecting, with mocked timers. */
function connecting(context) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.mock.method(Math, 'random', () => 0);
  // A socket that closes later would clear its mocked timer in the next test.
  context.after(() => new Promise(setImmediate));
  const client = new Client('ws://mesh.example', OPTIONS);
  client.connect();
  return client;
}

const welcome = (fields) => FakeSocket.latest.deliver({ ...WELCOME, resumed: false, ...fields });

/** Returns `true` if the promise is pending once all present tasks have run. */
async function isPending(promise) {
  await new Promise(setImmediate);
  return (await Promise.race([promise, 'pending'])) === 'pending';
}

test('request without an answer repeats on the next socket', async (context) => {
  const client = connecting(context);
  const received = [];
  client.on('signal', ({ data }) => received.push(data));
  const first = FakeSocket.latest;
  welcome({ resume: 'r1' });
  const delivered = client.signal('bob', 'hello');
  first.end(1006);
  context.mock.timers.tick(10);
  const second = FakeSocket.latest;
  assert.deepEqual(second.protocols, ['signaling.v1', 'resume.r1']);
  welcome({ resume: 'r2', resumed: true });
  second.deliver({ type: 'signal', from: 'bob', data: 1, n: 1, m: 'b-1' });
  first.deliver({ type: 'signal', from: 'bob', data: 2, n: 2, m: 'b-2' });
  const hello = '{"type":"signal","id":1,"to":"bob","data":"hello"}';
  assert.deepEqual([first.sent, second.sent], [[hello], [hello]]);
  assert.deepEqual(received, [1]);
  second.deliver({ type: 'ack', id: 1 });
  await delivered;
  client.close();
  assert.deepEqual([client.state, second.closed], ['disconnected', 1000]);
});

test('request of a listener follows repeated requests', (context) => {
  const client = connecting(context);
  const closed = [];
  const signal = (data) => closed.push(assert.rejects(client.signal('bob', data)));
  welcome({ resume: 'r1' });
  signal('hello');
  signal('again');
  FakeSocket.latest.end(1006);
  context.mock.timers.tick(10);
  client.on('connected', () => signal('back'));
  welcome({ resume: 'r2', resumed: true });
  const sent = FakeSocket.latest.sent.map((text) => JSON.parse(text).data);
  assert.deepEqual(sent, ['hello', 'again', 'back']);
  client.close();
  return Promise.all(closed);
});

test('closed client ignores events of the page', (context) => {
  const page = new EventTarget();
  for (const method of ['addEventListener', 'removeEventListener']) {
    globalThis[method] = page[method].bind(page);
    context.after(() => delete globalThis[method]);
  }
  const fire = (type, fields) => page.dispatchEvent(Object.assign(new Event(type), fields));
  const client = connecting(context);
  welcome({ resume: 'r1' });
  fire('online');
  assert.deepEqual(FakeSocket.latest.sent, ['{"type":"ping"}']);
  client.close();
  client.connect();
  fire('pagehide', { persisted: true });
  fire('pageshow', { persisted: true });
  assert.equal(client.state, 'connecting');
  client.close();
  fire('online');
  fire('pageshow', { persisted: true });
  assert.equal(client.state, 'disconnected');
});

test('client reports its latest ICE servers and node', (context) => {
  const client = connecting(context);
  assert.deepEqual([client.iceServers, client.node], [[], null]);
  const stun = [{ urls: ['stun:one.example'] }];
  const turn = [{ urls: ['turn:two.example'] }];
  welcome({ resume: 'r1', ice_servers: stun, node: 'node-0' });
  assert.deepEqual([client.iceServers, client.node], [stun, 'node-0']);
  FakeSocket.latest.deliver({ type: 'ice_servers', ice_servers: turn });
  FakeSocket.latest.deliver({ type: 'moved', node: 'node-1' });
  assert.deepEqual([client.iceServers, client.node], [turn, 'node-1']);
  client.close();
});

test('late failure of a token call does not end the next call', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const failures = [];
  const token = () => new Promise((_, fail) => failures.push(fail));
  const client = new Client('ws://mesh.example', { ...OPTIONS, token });
  const changes = [];
  client.on('state', (change) => changes.push(change));
  client.connect();
  client.close();
  client.connect();
  failures[0](new Error('late'));
  await new Promise(setImmediate);
  assert.deepEqual([failures.length, client.state], [2, 'connecting']);
  failures[1](new Error('no token'));
  await new Promise(setImmediate);
  assert.equal(changes.at(-1).reason.code, 'token_failed');
  client.close();
});

test('page without access to its storage has a client', (context) => {
  const denied = () => {
    throw new Error('the page is in a sandbox');
  };
  Object.defineProperty(globalThis, 'sessionStorage', { configurable: true, get: denied });
  context.after(() => delete globalThis.sessionStorage);
  const client = new Client('ws://mesh.example', { clientId: 'me', WebSocket: FakeSocket });
  assert.equal(client.state, 'disconnected');
});

test('platform without WebSocket is named when the client connects', (context) => {
  const { WebSocket } = globalThis;
  context.after(() => Object.assign(globalThis, { WebSocket }));
  globalThis.WebSocket = undefined;
  const client = new Client('ws://mesh.example', { clientId: 'me' });
  assert.throws(() => client.connect(), { name: 'TypeError', message: /^WebSocket: / });
  assert.equal(client.state, 'disconnected');
});

test('connect resolves once connected', async (context) => {
  const client = connecting(context);
  const connected = client.connect();
  assert.ok(await isPending(connected));
  welcome({ resume: 'r1' });
  await connected;
  await client.connect();
  assert.equal(client.state, 'connected');
  client.close();
});

test('connect rejects in time with the last reason', async (context) => {
  const client = connecting(context);
  const connected = client.connect();
  FakeSocket.latest.onerror({ message: 'connect ECONNREFUSED' });
  FakeSocket.latest.end(1006);
  context.mock.timers.tick(20_000);
  const error = await connected.catch((error) => error);
  assert.match(error.message, /^not connected in time: connect ECONNREFUSED \(1006\): check host, port and path$/);
  assert.deepEqual([error.code, error.cause.code, error.cause.closeCode], ['expired', 'connection_lost', 1006]);
  assert.equal(client.state, 'connecting');
  client.close();
});

test('longest time limit of connect is that of a timer', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.after(() => new Promise(setImmediate));
  const client = new Client('ws://mesh.example', { ...OPTIONS, connectTimeoutMs: 1e10 });
  const connected = client.connect();
  // A real timer with a longer time fires at once.
  context.mock.timers.tick(2_147_483_646);
  assert.ok(await isPending(connected));
  context.mock.timers.tick(1);
  await assert.rejects(connected, { code: 'expired' });
  client.close();
});

test('connect rejects when the server refuses for good', async (context) => {
  const client = connecting(context);
  const changes = [];
  client.on('disconnected', (change) => changes.push(change));
  const connected = client.connect();
  FakeSocket.latest.open();
  FakeSocket.latest.onclose({ code: 4401, reason: 'the token has expired' });
  await assert.rejects(connected, { code: 'connection_lost', closeCode: 4401, message: 'the token has expired (4401)' });
  assert.equal(changes[0].reason.message, 'the token has expired (4401)');
});

test('abort of connect closes the client', async (context) => {
  const client = connecting(context);
  const abort = new AbortController();
  const connected = client.connect({ signal: abort.signal });
  abort.abort();
  await assert.rejects(connected, { code: 'aborted' });
  assert.equal(client.state, 'disconnected');
  await assert.rejects(client.connect({ signal: AbortSignal.abort() }), { code: 'aborted' });
  assert.equal(client.state, 'disconnected');
});

test('close resolves when the socket is closed or after 2 s', async (context) => {
  const client = connecting(context);
  welcome({ resume: 'r1' });
  await client.close();
  assert.equal(FakeSocket.latest.readyState, FakeSocket.CLOSED);
  client.connect();
  welcome({ resume: 'r1' });
  FakeSocket.latest.close = () => {};
  const closed = client.close();
  context.mock.timers.tick(1_999);
  assert.ok(await isPending(closed));
  context.mock.timers.tick(1);
  await closed;
});

test('close in a listener resolves when the socket is closed', async (context) => {
  const client = connecting(context);
  let closed;
  client.on('connected', () => (closed = client.close()));
  welcome({ resume: 'r1' });
  await closed;
  assert.deepEqual([client.state, FakeSocket.latest.readyState], ['disconnected', FakeSocket.CLOSED]);
});

test('connect in a listener after close resolves once connected', async (context) => {
  const client = connecting(context);
  let again;
  client.once('connected', () => {
    client.close();
    again = client.connect();
  });
  welcome({ resume: 'r1' });
  assert.ok(await isPending(again));
  assert.equal(client.state, 'connecting');
  welcome({ resume: 'r2' });
  await again;
  client.close();
});

test('connect in a listener of the end is a new attempt', async (context) => {
  const client = connecting(context);
  const first = client.connect();
  let again;
  client.once('disconnected', () => (again = client.connect()));
  FakeSocket.latest.open();
  FakeSocket.latest.end(4411);
  await assert.rejects(first, { closeCode: 4411 });
  assert.ok(await isPending(again));
  welcome({ resume: 'r2' });
  await again;
  client.close();
});

test('abort in a listener of the connection is too late', async (context) => {
  const client = connecting(context);
  const abort = new AbortController();
  client.on('connected', () => abort.abort());
  const connected = client.connect({ signal: abort.signal });
  welcome({ resume: 'r1' });
  await connected;
  assert.equal(client.state, 'connected');
  client.close();
});

test('aborted request is not sent or has no outcome', async (context) => {
  const client = connecting(context);
  const [early, late] = [new AbortController(), new AbortController()];
  const queued = client.signal('bob', 1, { signal: early.signal });
  early.abort();
  await assert.rejects(queued, { code: 'aborted', wasSent: false });
  welcome({ resume: 'r1' });
  const unanswered = client.signal('bob', 2, { signal: late.signal });
  late.abort();
  await assert.rejects(unanswered, { code: 'aborted', wasSent: true });
  await assert.rejects(client.signal('bob', 3, { signal: late.signal }), { code: 'aborted', wasSent: false });
  FakeSocket.latest.deliver({ type: 'ack', id: 1 });
  assert.deepEqual(FakeSocket.latest.sent, ['{"type":"signal","id":1,"to":"bob","data":2}']);
  client.close();
});

test('data without a JSON form is a TypeError at the call', async (context) => {
  const client = connecting(context);
  const cycle = {};
  cycle.self = cycle;
  for (const data of [undefined, () => {}, NaN, -Infinity, Symbol('s'), cycle, 1n]) {
    assert.throws(() => client.signal('bob', data), TypeError);
  }
  assert.equal(client.stats.queued, 0);
  await assert.rejects(client.signal('b b', 1), { code: 'bad_name', wasSent: false });
  client.close();
});

test('data of a request is that of its call', (context) => {
  const client = connecting(context);
  const data = { count: 1 };
  client.signal('bob', data).catch(() => {});
  data.count = 2;
  welcome({ resume: 'r1' });
  assert.deepEqual(FakeSocket.latest.sent, ['{"type":"signal","id":1,"to":"bob","data":{"count":1}}']);
  client.close();
});

test('error of the token function is the cause of its reason', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const logged = [];
  const log = (text) => logged.push(text);
  const cause = new Error('backend says 500');
  const token = async () => {
    throw cause;
  };
  const logger = { debug: log, info: log, warn: log, error: log };
  const client = new Client('ws://mesh.example', { ...OPTIONS, token, logger, logLevel: 'warn' });
  const errors = [];
  client.on('error', (error) => errors.push(error));
  const changes = [];
  client.on('state', (change) => changes.push(change));
  client.connect();
  await new Promise(setImmediate);
  assert.deepEqual([errors[0].code, errors[0].cause], ['token_failed', cause]);
  assert.deepEqual([changes.at(-1).reason.code, changes.at(-1).reason.cause], ['token_failed', cause]);
  assert.equal(logged.length, 1);
  assert.match(logged[0], /^signaling-mesh: ws:\/\/mesh.example\/v1\/connect: .*backend says 500.*next attempt in \d+ ms$/);
  client.close();
});

test('token function that rejects without a value has one reason', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const client = new Client('ws://mesh.example', { ...OPTIONS, token: () => Promise.reject() });
  const errors = [];
  client.on('error', (error) => errors.push(error));
  client.on('state', ({ reason }) => reason && errors.push(reason));
  client.connect();
  await new Promise(setImmediate);
  const shown = errors.map(({ code, message }) => [code, message]);
  assert.deepEqual(shown, Array(2).fill(['token_failed', 'the token function failed: no result in time']));
  client.close();
});

test('failed renewal of a token is logged', async (context) => {
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.after(() => new Promise(setImmediate));
  const logged = [];
  const logger = { ...console, warn: (text) => logged.push(text) };
  const tokens = [{ token: 'jwt', validMs: 100_000 }];
  const token = () => tokens.pop() ?? Promise.reject(new Error('backend says 500'));
  const client = new Client('ws://mesh.example', { ...OPTIONS, token, logger, logLevel: 'warn' });
  client.connect();
  await new Promise(setImmediate);
  welcome({ resume: 'r1' });
  now = 95_000;
  FakeSocket.latest.deliver({ type: 'pong' });
  context.mock.timers.tick(95_000);
  await new Promise(setImmediate);
  assert.deepEqual(logged, ['signaling-mesh: the token function failed: backend says 500']);
  client.close();
});

test('failed attempt is logged once when the network changes', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let random = 0;
  context.mock.method(Math, 'random', () => random);
  context.after(() => new Promise(setImmediate));
  const logged = [];
  const logger = { ...console, warn: (text) => logged.push(text) };
  const client = new Client('ws://mesh.example', { ...OPTIONS, logger, logLevel: 'warn' });
  const waits = [];
  client.on('state', ({ retryInMs }) => waits.push(retryInMs));
  client.connect();
  for (let attempts = 1; attempts <= 2; attempts += 1) {
    random = 0.9;
    FakeSocket.latest.end(1006);
    random = 0.1;
    client.networkChanged();
    assert.equal(logged.length, attempts);
    client.connect();
  }
  assert.deepEqual(waits, [undefined, 900, 100, 900, 100]);
  client.close();
});

test('page that is left before its first connection is connecting', (context) => {
  const page = new EventTarget();
  for (const method of ['addEventListener', 'removeEventListener']) {
    globalThis[method] = page[method].bind(page);
    context.after(() => delete globalThis[method]);
  }
  const client = connecting(context);
  const states = [];
  client.on('state', ({ state }) => states.push(state));
  page.dispatchEvent(Object.assign(new Event('pagehide'), { persisted: true }));
  assert.deepEqual([client.state, states], ['connecting', []]);
  client.close();
});

test('client closes when the token function returns null', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const client = new Client('ws://mesh.example', { ...OPTIONS, token: () => null });
  await assert.rejects(client.connect(), { code: 'token_failed' });
  assert.equal(client.state, 'disconnected');
});

test('neither events nor logs have tokens', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.mock.method(Math, 'random', () => 0);
  const seen = [];
  const log = (text) => seen.push(text);
  const logger = { debug: log, info: log, warn: log, error: log };
  const options = { ...OPTIONS, token: 'secret-jwt', logger, logLevel: 'debug' };
  const client = new Client('ws://mesh.example/v1/connect?key=secret-key', options);
  for (const type of ['state', 'connected', 'reconnecting', 'error', 'signal']) {
    client.on(type, (event) => seen.push(JSON.stringify(event)));
  }
  client.connect();
  return new Promise(setImmediate).then(() => {
    welcome({ resume: 'secret-resume' });
    FakeSocket.latest.end(1006);
    context.mock.timers.tick(10);
    client.close();
    assert.ok(seen.length > 5);
    assert.doesNotMatch(seen.join(' '), /secret|resume"/);
  });
});

test('failed attempt after a connection does not blame the address', (context) => {
  const client = connecting(context);
  const changes = [];
  client.on('state', (change) => changes.push(change));
  welcome({ resume: 'r1' });
  FakeSocket.latest.end(1006);
  assert.equal(changes.at(-1).reason.message, 'the connection failed (1006)');
  client.close();
});

test('counts of the client are its stats', (context) => {
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  const client = connecting(context);
  client.signal('bob', 1).catch(() => {});
  assert.deepEqual(client.stats, { connects: 0, resumes: 0, sent: 0, received: 0, queued: 1, unanswered: 0, roundTripMs: null });
  welcome({ resume: 'r1' });
  now = 10_000;
  context.mock.timers.tick(10_000);
  now = 10_012;
  FakeSocket.latest.deliver({ type: 'pong' });
  assert.deepEqual(client.stats, { connects: 1, resumes: 0, sent: 2, received: 2, queued: 0, unanswered: 1, roundTripMs: 12 });
  client.close();
});

test('signals of calls reach their room alone', (context) => {
  const client = connecting(context);
  const seen = [];
  client.on('signal', ({ data }) => seen.push(data));
  client.room('hall').on('~call', ({ from, data }) => seen.push([from, data.of]));
  welcome({ resume: 'r1' });
  for (const data of [{ '~call': 'hall', of: 'a' }, { '~call': 7 }, { '~call': 'other' }, null, 'text']) {
    FakeSocket.latest.deliver({ type: 'signal', from: 'bob', data });
  }
  assert.deepEqual(seen, [['bob', 'a'], null, 'text']);
  client.close();
});
