import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Poll, SILENCE_MS } from './poll.js';

/** A poll whose server, clock and storage the test has. */
function begin() {
  const world = { time: 0, asked: [], status: 200, body: {}, tokens: new Map(), isDown: false };
  const fetch = async (path, { headers }) => {
    world.asked.push(headers.authorization ?? '');
    if (world.isDown) throw new TypeError('failed to fetch');
    return { ok: world.status === 200, status: world.status, json: async () => world.body };
  };
  const storage = {
    getItem: (key) => world.tokens.get(key) ?? null,
    setItem: (key, token) => world.tokens.set(key, token),
    removeItem: (key) => world.tokens.delete(key),
  };
  return { world, poll: new Poll('/nodes', { fetch, storage, now: () => world.time }) };
}

test('an answer is handed on and makes it live', async () => {
  const { world, poll } = begin();
  const seen = [];
  poll.addEventListener('answer', ({ detail }) => seen.push(detail));
  world.body = { asked: 'node-0' };
  await poll.ask();
  assert.deepEqual([seen, poll.isLive], [[{ asked: 'node-0' }], true]);
});

test('a long silence is noticed, and ends with the next answer', async () => {
  const { world, poll } = begin();
  await poll.ask();
  world.time = SILENCE_MS;
  poll.look();
  assert.equal(poll.isLive, true);
  world.time += 1;
  poll.look();
  assert.deepEqual([poll.isLive, poll.silenceMs], [false, SILENCE_MS + 1]);
  await poll.ask();
  assert.deepEqual([poll.isLive, poll.silenceMs], [true, 0]);
});

test('a server that is down is not live until it is back', async () => {
  const { world, poll } = begin();
  await poll.ask();
  world.isDown = true;
  await poll.ask();
  assert.equal(poll.isLive, false);
  world.isDown = false;
  await poll.ask();
  assert.equal(poll.isLive, true);
});

test('a server that asks for a token is asked again once there is one', async () => {
  const { world, poll } = begin();
  [world.status, world.body] = [401, { error: { message: 'send the admin token' } }];
  await poll.ask();
  await poll.ask();
  assert.deepEqual([world.asked, poll.needsToken, poll.refusal], [[''], true, 'send the admin token']);
  poll.showToken('secret');
  [world.status, world.body] = [200, {}];
  await poll.ask();
  await poll.ask();
  assert.deepEqual([world.asked, poll.isLive], [['', 'Bearer secret', 'Bearer secret'], true]);
});

test('a token that is refused is forgotten', async () => {
  const { world, poll } = begin();
  poll.showToken('wrong');
  [world.status, world.body] = [401, {}];
  await poll.ask();
  assert.deepEqual([poll.needsToken, world.tokens.size], [true, 0]);
});

test('a refusal is said, and asked about again', async () => {
  const { world, poll } = begin();
  [world.status, world.body] = [403, { error: { message: 'ask by its IP address' } }];
  await poll.ask();
  assert.deepEqual([poll.isLive, poll.refusal], [false, 'ask by its IP address']);
  world.status = 200;
  await poll.ask();
  assert.deepEqual([poll.isLive, poll.refusal, world.asked.length], [true, '', 2]);
});
