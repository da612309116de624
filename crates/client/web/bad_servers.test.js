/** Servers that break the protocol or the socket, on sockets in memory and mocked time. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Client } from './client.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

/** Random number of each draw. */
const RANDOM = 0.5;
/** Close code that keeps the session. */
const SOCKET_LEFT = 4001;
const FINAL = [1000, 1002, 1003, 1007, 1009, 4400, 4401, 4403, 4404, 4409, 4410, 4411, 4499];
const RECONNECT = [1001, 1005, 1006, 1011, 1013, 1015, 3000, 4000, 4002, 4004, 4006, 4029, 4399, 4500];

test('attempt ends when its socket does not open within 4 s', (context) => {
  const { states, advance } = client(context);
  const socket = FakeSocket.latest;
  advance(3_999);
  assert.equal(states.length, 1);
  advance(1);
  assert.deepEqual(lost(states), { state: 'connecting', retryInMs: 0, message: 'no connection in time' });
  assert.equal(socket.closed, 'without a frame');
});

test('attempt ends when an open socket is silent for 10 s', (context) => {
  const { states, advance } = client(context);
  FakeSocket.latest.open();
  advance(9_999);
  assert.equal(states.length, 1);
  advance(1);
  assert.equal(lost(states).message, 'no welcome in time');
  assert.equal(FakeSocket.latest.closed, SOCKET_LEFT);
});

/** Answers the n-th attempt after `openMs(n)`. Returns the time of the connection. */
function connectedAt(context, random, openMs) {
  const { states, advance, client: created } = client(context, () => random);
  for (let [now, attempt, since, socket] = [0, -1, 0, null]; now < 60_000; now += 10) {
    if (FakeSocket.latest !== socket) [socket, since, attempt] = [FakeSocket.latest, now, attempt + 1];
    if (now - since >= openMs(attempt)) welcome();
    if (states.at(-1).state === 'connected') {
      created.close();
      return now;
    }
    advance(10);
  }
  return Infinity;
}

test('client is back within 5 s if its first attempt is swallowed', (context) => {
  for (const random of [0, 0.5, 0.999]) {
    const time = connectedAt(context, random, (attempt) => (attempt === 0 ? Infinity : 0));
    assert.ok(time >= 4_000 && time <= 5_000, `${random}: ${time}`);
  }
});

test('path that needs 6 s for each handshake gets in', (context) => {
  // Three attempts of 4 s, which are at least as long as their waits, and one that has 10 s.
  for (const random of [0, 0.5, 0.999]) {
    const time = connectedAt(context, random, () => 6_000);
    assert.ok(time <= 4_000 + 4_000 + 4_000 + 6_000 + 30, `${random}: ${time}`);
  }
});

test('client waits exactly as long as a goodbye requests', (context) => {
  const { states, advance } = client(context);
  FakeSocket.latest.deliver({ type: 'goodbye', reason: 'no node', retry_after_ms: 7_000 });
  FakeSocket.latest.end(1013);
  assert.deepEqual(states.at(-1).retryInMs, 7_000);
  assert.equal(states.at(-1).reason.closeCode, 1013);
  const { opened } = FakeSocket;
  advance(6_999);
  assert.equal(FakeSocket.opened, opened);
  advance(1);
  assert.equal(FakeSocket.opened, opened + 1);
});

test('client and its requests end at a final close code', async (context) => {
  for (const code of FINAL) {
    const { client: created, states, advance } = client(context);
    welcome();
    const delivered = created.signal('bob', 1);
    FakeSocket.latest.end(code);
    assert.equal(states.at(-1).state, 'disconnected');
    assert.equal(states.at(-1).reason.closeCode, code);
    const cause = states.at(-1).reason;
    await assert.rejects(delivered, { code: 'closed', wasSent: true, cause });
    const { opened } = FakeSocket;
    advance(600_000);
    assert.equal(FakeSocket.opened, opened, `no attempt follows ${code}`);
  }
});

test('client reconnects after its wait at any other close code', (context) => {
  for (const code of RECONNECT) {
    for (const isWelcome of [true, false]) {
      const { states, advance } = client(context);
      if (isWelcome) welcome();
      FakeSocket.latest.end(code);
      const state = isWelcome ? 'reconnecting' : 'connecting';
      const { reason, ...others } = states.at(-1);
      assert.deepEqual([others, reason.closeCode], [{ state, retryInMs: 500 }, code]);
      const { opened } = FakeSocket;
      advance(499);
      assert.equal(FakeSocket.opened, opened);
      advance(1);
      assert.equal(FakeSocket.opened, opened + 1);
    }
  }
});

test('client waits 30 s after a policy violation', (context) => {
  const { states } = client(context);
  welcome();
  FakeSocket.latest.end(1008);
  const { retryInMs, reason } = states.at(-1);
  assert.deepEqual([retryInMs, reason.closeCode], [30_000, 1008]);
});

test('client leaves a socket that is silent for 15 s', (context) => {
  const { states, advance } = client(context);
  welcome();
  advance(10_000);
  assert.deepEqual(FakeSocket.latest.sent, ['{"type":"ping"}']);
  advance(4_999);
  assert.equal(states.at(-1).state, 'connected');
  advance(1);
  const message = 'the server does not answer';
  assert.deepEqual(lost(states), { state: 'reconnecting', retryInMs: 500, message });
  assert.equal(FakeSocket.latest.closed, SOCKET_LEFT);
});

test('socket that was left reports nothing', (context) => {
  const { client: created, states, advance } = client(context);
  const received = [];
  created.on('signal', (signal) => received.push(signal));
  welcome();
  const zombie = FakeSocket.latest;
  advance(10_000);
  advance(5_000);
  zombie.deliver({ type: 'signal', from: 'bob', data: 1, n: 1, m: 'a' });
  zombie.end(4400);
  assert.deepEqual([received, states.at(-1).state], [[], 'reconnecting']);
});

test('client leaves a socket that breaks the protocol', (context) => {
  const invalid = ['{]{', '', 'null', '[]', '7', '{}', '{"type":5}', '{"type":"ack"}'];
  const unexpected = [
    { type: 'signal', from: 3, data: 1 },
    { ...WELCOME, resume: 'r', resumed: true },
    { type: 'signal', from: 'bob', data: 1, n: 2, m: 'a' },
  ].map((message) => JSON.stringify(message));
  for (const data of [...invalid, ...unexpected, new Blob(['{}'])]) {
    const { states } = client(context);
    welcome();
    FakeSocket.latest.deliverRaw(data);
    const message = 'the server breaks the protocol';
    assert.deepEqual(lost(states), { state: 'reconnecting', retryInMs: 500, message }, String(data));
    assert.equal(FakeSocket.latest.closed, SOCKET_LEFT);
  }
});

test('waits grow and a request repeats when sockets break at once', (context) => {
  const { client: created, states, advance } = client(context);
  const delivered = created.signal('bob', 'hello');
  const waits = [];
  for (let times = 0; times < 7; times += 1) {
    welcome();
    assert.deepEqual(FakeSocket.latest.sent, ['{"type":"signal","id":1,"to":"bob","data":"hello"}']);
    FakeSocket.latest.end(1006);
    waits.push(states.at(-1).retryInMs);
    advance(waits.at(-1));
  }
  assert.deepEqual(waits, [500, 500, 1_000, 2_000, 4_000, 8_000, 15_000]);
  welcome();
  FakeSocket.latest.deliver({ type: 'ack', id: 1 });
  return delivered;
});

/**
 * Kolmogorov-Smirnov test: the greatest distance of 1,000 uniform draws is below 0.0515 in 99 of
 * 100 runs.
 */
test('waits of 1,000 clients spread evenly over the first second', (context) => {
  const waits = [];
  for (let times = 0; times < 1_000; times += 1) {
    const { states } = client(context, Math.random);
    welcome();
    FakeSocket.latest.end(1006);
    waits.push(states.at(-1).retryInMs / 1_000);
  }
  waits.sort((one, other) => one - other);
  const distance = Math.max(...waits.map((wait, rank) => Math.abs(rank / 1_000 - wait)));
  assert.ok(waits[0] >= 0 && waits.at(-1) < 1);
  assert.ok(distance < 0.08, String(distance));
});

/** Returns a client on mocked time that is connecting. */
function client(context, random = () => RANDOM) {
  context.mock.restoreAll();
  context.mock.timers.reset();
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  if (random !== Math.random) context.mock.method(Math, 'random', random);
  const options = { clientId: 'me', WebSocket: FakeSocket, storage: null, logLevel: 'none' };
  const made = new Client('ws://bad.example', options);
  const states = [];
  made.on('state', (change) => states.push(change));
  made.connect();
  const advance = (time) => {
    now += time;
    context.mock.timers.tick(time);
  };
  return { client: made, states, advance };
}

/** Returns the latest change of the state, with the text of its reason. */
function lost(states) {
  const { reason, ...change } = states.at(-1);
  return { ...change, message: reason.message };
}

const welcome = () => FakeSocket.latest.deliver({ ...WELCOME, resume: 'r', resumed: true });
