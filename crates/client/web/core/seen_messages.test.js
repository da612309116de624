/** Lifetime and number of the names of received messages. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { MAX_NAMES, MAX_SAVED_NAMES, NAME_LIFETIME } from './rules.js';
import { SeenMessages } from './seen_messages.js';

test('duplicate keeps its name known for longer', () => {
  const seen = new SeenMessages();
  const times = [0, NAME_LIFETIME - 1, 2 * NAME_LIFETIME - 2, 3 * NAME_LIFETIME - 2];
  assert.deepEqual(times.map((now) => seen.add(now, 'a')), [true, false, false, true]);
});

test('oldest name is dropped when there are too many', () => {
  const seen = new SeenMessages();
  for (let number = 0; number <= MAX_NAMES; number += 1) seen.add(0, String(number));
  assert.equal(seen.add(0, '0'), true);
  assert.equal(seen.add(0, String(MAX_NAMES)), false);
  assert.equal(seen.save().length, MAX_SAVED_NAMES);
});
