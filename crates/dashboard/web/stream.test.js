import assert from 'node:assert/strict';
import { test } from 'node:test';

import { SILENCE_MS, Stream } from './stream.js';

/** A stream whose sources and clock the test has. */
function begin() {
  const world = { sources: [], time: 0 };
  const open = (path) => {
    const source = Object.assign(new EventTarget(), { path, readyState: 0, isClosed: false, close() { this.isClosed = true; } });
    world.sources.push(source);
    return source;
  };
  const stream = new Stream('/events', { open, now: () => world.time });
  const say = (data) => world.sources.at(-1).dispatchEvent(new MessageEvent('message', { data }));
  const fail = (readyState) => {
    world.sources.at(-1).readyState = readyState;
    world.sources.at(-1).dispatchEvent(new Event('error'));
  };
  return { world, stream, say, fail };
}

test('a snapshot is handed on and makes it live', () => {
  const { stream, say } = begin();
  const seen = [];
  stream.addEventListener('snapshot', ({ detail }) => seen.push(detail));
  assert.equal(stream.isLive, false);
  say('{"by":"node-0"}');
  assert.deepEqual([seen, stream.isLive], [[{ by: 'node-0' }], true]);
});

test('silence is noticed though the connection stands', () => {
  const { world, stream, say } = begin();
  say('{}');
  world.time = SILENCE_MS;
  stream.look();
  assert.equal(stream.isLive, true);
  world.time += 1;
  stream.look();
  assert.deepEqual([stream.isLive, stream.silenceMs], [false, SILENCE_MS + 1]);
});

test('a connection that broke is opened again by the browser alone', () => {
  const { world, stream, say, fail } = begin();
  say('{}');
  fail(0);
  assert.equal(stream.isLive, false);
  world.time = 60_000;
  stream.look();
  assert.equal(world.sources.length, 1);
  say('{}');
  assert.equal(stream.isLive, true);
});

test('a refusal is no end: it is asked again a little later', () => {
  const { world, stream, say, fail } = begin();
  fail(2);
  world.time = 2_999;
  stream.look();
  assert.equal(world.sources.length, 1);
  world.time = 3_000;
  stream.look();
  assert.deepEqual([world.sources.length, world.sources[0].isClosed], [2, true]);
  say('{}');
  assert.equal(stream.isLive, true);
});
