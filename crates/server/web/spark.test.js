import assert from 'node:assert/strict';
import { test } from 'node:test';

import { path } from './spark.js';

const box = { width: 100, height: 20, length: 5 };

test('the newest value stands at the right edge and the largest at the top', () => {
  assert.equal(path([0, 10, 5], box), 'M50 20L75 0L100 10');
});

test('where a value is missing so is the line', () => {
  assert.equal(path([10, null, 10, 10], box), 'M25 0M75 0L100 0');
});

test('a row of zeros lies at the bottom', () => {
  assert.equal(path([0, 0], box), 'M75 20L100 20');
});

test('without values there is no line', () => {
  assert.equal(path([], box), '');
});
