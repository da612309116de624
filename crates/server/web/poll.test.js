import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Poll, SILENCE_MS } from './poll.js';

/** Returns a poll with a server, a clock and a storage of the test. */
function begin() {
  const world = {
    time: 0,
    requests: [],
    tokens: new Map(),
    status: 200,
    body: {},
    isDown: false,
  };
  const fetch = async (path, { headers }) => {
    world.requests.push(headers.authorization ?? '');
    if (world.isDown) throw new TypeError('failed to fetch');
    return { ok: world.status === 200, status: world.status, json: async () => world.body };
  };
  const storage = {
    getItem: (key) => world.tokens.get(key) ?? null,
    setItem: (key, token) => world.tokens.set(key, token),
    removeItem: (key) => world.tokens.delete(key),
  };
  const poll = new Poll('/nodes', { fetch, storage, now: () => world.time });
  return { world, poll };
}

test('answer is reported and makes the page live', async () => {
  const { world, poll } = begin();
  const seen = [];
  poll.addEventListener('answer', ({ detail }) => seen.push(detail));
  world.body = { asked: 'node-0' };
  await poll.request();
  assert.deepEqual([seen, poll.isLive], [[{ asked: 'node-0' }], true]);
});

test('page is not live after silence until the next answer', async () => {
  const { world, poll } = begin();
  await poll.request();
  world.time = SILENCE_MS;
  poll.tick();
  assert.equal(poll.isLive, true);
  world.time += 1;
  poll.tick();
  assert.deepEqual([poll.isLive, poll.silenceMs], [false, SILENCE_MS + 1]);
  await poll.request();
  assert.deepEqual([poll.isLive, poll.silenceMs], [true, 0]);
});

test('page is not live while its server is down', async () => {
  const { world, poll } = begin();
  await poll.request();
  world.isDown = true;
  await poll.request();
  assert.equal(poll.isLive, false);
  world.isDown = false;
  await poll.request();
  assert.equal(poll.isLive, true);
});

test('requests stop until there is a token when one is required', async () => {
  const { world, poll } = begin();
  [world.status, world.body] = [401, { error: { message: 'send the admin token' } }];
  await poll.request();
  await poll.request();
  assert.deepEqual([world.requests, poll.needsToken, poll.refusal], [[''], true, 'send the admin token']);
  assert.equal(poll.hasWrongToken, false);
  poll.useToken('secret');
  [world.status, world.body] = [200, {}];
  await poll.request();
  await poll.request();
  assert.deepEqual([world.requests, poll.isLive], [['', 'Bearer secret', 'Bearer secret'], true]);
});

test('token is dropped when it is refused', async () => {
  const { world, poll } = begin();
  poll.useToken('wrong');
  [world.status, world.body] = [401, {}];
  await poll.request();
  assert.deepEqual([poll.needsToken, poll.hasWrongToken, world.tokens.size], [true, true, 0]);
});

test('refusal is shown and the request repeated', async () => {
  const { world, poll } = begin();
  [world.status, world.body] = [403, { error: { message: 'ask by its IP address' } }];
  await poll.request();
  assert.deepEqual([poll.isLive, poll.refusal], [false, 'ask by its IP address']);
  world.status = 200;
  await poll.request();
  assert.deepEqual([poll.isLive, poll.refusal, world.requests.length], [true, '', 2]);
});
