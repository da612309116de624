import assert from 'node:assert/strict';
import { test } from 'node:test';

import { path } from './spark.js';

const box = { width: 100, height: 20, length: 5 };

test('newest value is at the right edge and the largest on top', () => {
  assert.equal(path([0, 10, 5], box), 'M50 20L75 0L100 10');
});

test('missing value leaves a gap in the line', () => {
  assert.equal(path([10, null, 10, 10], box), 'M25 0M75 0L100 0');
});

test('zeros are at the bottom', () => {
  assert.equal(path([0, 0], box), 'M75 20L100 20');
});

test('path is empty without values', () => {
  assert.equal(path([], box), '');
});
