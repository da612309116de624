/** Servers that misbehave by a script, on sockets in memory and mocked time. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Client } from './client.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

const MOST_OF_A_TRY = 0.5;
/** The client leaves this socket and keeps its session: 1000, and no code, are no such close. */
const SOCKET_LEFT = 4001;
const STAY_AWAY = [1000, 1002, 1003, 1007, 1009, 4400, 4401, 4403, 4404, 4409, 4410, 4411, 4499];
const COME_BACK = [1001, 1005, 1006, 1011, 1013, 1015, 3000, 4000, 4002, 4003, 4004, 4006, 4029, 4399, 4500];

test('a server that never answers has ten seconds', (context) => {
  const { states, pass } = client(context);
  pass(9_999);
  assert.equal(states.at(-1).state, 'connecting');
  pass(1);
  assert.deepEqual(told(states.at(-1)), { state: 'waiting', in_ms: 500, fault: 'no_welcome' });
  assert.equal(FakeSocket.latest.closed, 'without a frame');
});

test('one that upgrades and says nothing has no longer', (context) => {
  const { states, pass } = client(context);
  FakeSocket.latest.open();
  pass(10_000);
  assert.equal(states.at(-1).fault, 'no_welcome');
  assert.equal(FakeSocket.latest.closed, SOCKET_LEFT);
});

test('a refusal with a hint is followed to the millisecond', (context) => {
  const { states, pass } = client(context);
  FakeSocket.latest.say({ type: 'goodbye', reason: 'no node', retry_after_ms: 7_000 });
  FakeSocket.latest.end(1013);
  assert.deepEqual(told(states.at(-1)), { state: 'waiting', in_ms: 7_000, code: 1013 });
  const { opened } = FakeSocket;
  pass(6_999);
  assert.equal(FakeSocket.opened, opened);
  pass(1);
  assert.equal(FakeSocket.opened, opened + 1);
});

test('a close code that says do not come back is the end, for what is under way too', async (context) => {
  for (const code of STAY_AWAY) {
    const { client: it, states, pass } = client(context);
    welcome();
    const delivered = it.signal('bob', 1);
    FakeSocket.latest.end(code);
    assert.deepEqual(told(states.at(-1)), { state: 'closed', code });
    await assert.rejects(delivered, { code: 'closed' });
    const { opened } = FakeSocket;
    pass(600_000);
    assert.equal(FakeSocket.opened, opened, `after ${code} nobody comes back`);
  }
});

test('after every other end the client comes back, and not before its time', (context) => {
  for (const code of COME_BACK) {
    for (const isWelcome of [true, false]) {
      // Without tokens, an expired one cannot be renewed.
      if (code === 4003) continue;
      const { states, pass } = client(context);
      if (isWelcome) welcome();
      FakeSocket.latest.end(code);
      assert.deepEqual(told(states.at(-1)), { state: 'waiting', in_ms: 500, code });
      const { opened } = FakeSocket;
      pass(499);
      assert.equal(FakeSocket.opened, opened);
      pass(1);
      assert.equal(FakeSocket.opened, opened + 1);
    }
  }
});

test('after a breach of policy it waits half a minute', (context) => {
  const { states } = client(context);
  welcome();
  FakeSocket.latest.end(1008);
  assert.deepEqual(told(states.at(-1)), { state: 'waiting', in_ms: 30_000, code: 1008 });
});

test('a server that goes silent is given up after fifteen seconds', (context) => {
  const { states, pass } = client(context);
  welcome();
  pass(10_000);
  assert.deepEqual(FakeSocket.latest.sent, ['{"type":"ping"}']);
  pass(4_999);
  assert.equal(states.at(-1).state, 'connected');
  pass(1);
  assert.deepEqual(told(states.at(-1)), { state: 'waiting', in_ms: 500, fault: 'silent' });
  assert.equal(FakeSocket.latest.closed, SOCKET_LEFT);
});

test('a socket that was given up is heard no more', (context) => {
  const { client: it, states, pass } = client(context);
  const heard = [];
  it.addEventListener('signal', ({ detail }) => heard.push(detail));
  welcome();
  const zombie = FakeSocket.latest;
  pass(10_000);
  pass(5_000);
  zombie.say({ type: 'signal', from: 'bob', data: 1, n: 1, m: 'a' });
  zombie.end(4400);
  assert.deepEqual([heard, states.at(-1).state], [[], 'waiting']);
});

test('garbage, and what comes out of turn, brings the client back', (context) => {
  const garbage = ['{]{', '', 'null', '[]', '7', '{}', '{"type":5}', '{"type":"ack"}', '{"type":"signal","from":3,"data":1}'];
  const wrong = [{ ...WELCOME, resume: 'r', resumed: true }, { type: 'signal', from: 'bob', data: 1, n: 2, m: 'a' }];
  for (const data of [...garbage, ...wrong.map((message) => JSON.stringify(message)), new Blob(['{}'])]) {
    const { states } = client(context);
    welcome();
    FakeSocket.latest.sayRaw(data);
    assert.deepEqual(told(states.at(-1)), { state: 'waiting', in_ms: 500, fault: 'nonsense' }, String(data));
    assert.equal(FakeSocket.latest.closed, SOCKET_LEFT);
  }
});

test('a server that welcomes and dies at once is come back to ever more slowly, and gets what had no answer', (context) => {
  const { client: it, states, pass } = client(context);
  const delivered = it.signal('bob', 'hello');
  const waits = [];
  for (let times = 0; times < 7; times += 1) {
    welcome();
    assert.deepEqual(FakeSocket.latest.sent, ['{"type":"signal","id":1,"to":"bob","data":"hello"}']);
    FakeSocket.latest.end(1006);
    waits.push(states.at(-1).in_ms);
    pass(waits.at(-1));
  }
  assert.deepEqual(waits, [500, 500, 1_000, 2_000, 4_000, 8_000, 15_000]);
  welcome();
  FakeSocket.latest.say({ type: 'ack', id: 1 });
  return delivered;
});

/** Kolmogorov and Smirnov: of 1,000 uniform draws, the greatest distance is below 0.0515 in 99 of 100 runs. */
test('a thousand clients cut at once come back evenly over the first second', (context) => {
  const waits = [];
  for (let times = 0; times < 1_000; times += 1) {
    const { states } = client(context, Math.random);
    welcome();
    FakeSocket.latest.end(1006);
    waits.push(states.at(-1).in_ms / 1_000);
  }
  waits.sort((one, other) => one - other);
  const distance = Math.max(...waits.map((wait, rank) => Math.abs(rank / 1_000 - wait)));
  assert.ok(waits[0] >= 0 && waits.at(-1) < 1);
  assert.ok(distance < 0.08, String(distance));
});

/** A client on mocked time that has begun to connect. */
function client(context, random = () => MOST_OF_A_TRY) {
  context.mock.restoreAll();
  context.mock.timers.reset();
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  context.mock.method(performance, 'now', () => now);
  if (random !== Math.random) context.mock.method(Math, 'random', random);
  const made = new Client({ urls: ['ws://bad.example/v1/connect'], clientId: 'me', WebSocket: FakeSocket, storage: null });
  const states = [];
  made.addEventListener('state', ({ detail }) => states.push(detail));
  made.connect();
  const pass = (time) => {
    now += time;
    context.mock.timers.tick(time);
  };
  return { client: made, states, pass };
}

const welcome = () => FakeSocket.latest.say({ ...WELCOME, resume: 'r', resumed: true });
const told = ({ welcome: _, ...rest }) => rest;
