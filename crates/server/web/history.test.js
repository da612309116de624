import assert from 'node:assert/strict';
import { test } from 'node:test';

import { History } from './history.js';

test('row keeps its latest values', () => {
  const history = new History(3);
  for (const value of [1, 2, 3, 4]) history.add(new Map([['a', value]]));
  assert.deepEqual(history.of('a'), [2, 3, 4]);
});

test('unknown value leaves a gap', () => {
  const history = new History(3);
  history.add(new Map([['a', undefined]]));
  history.add(new Map([['a', 0]]));
  assert.deepEqual(history.of('a'), [null, 0]);
});

test('row is dropped when its key is absent', () => {
  const history = new History(3);
  history.add(new Map([['a', 1], ['b', 1]]));
  history.add(new Map([['b', 2]]));
  assert.deepEqual([history.of('a'), history.of('b')], [[], [1, 2]]);
});
