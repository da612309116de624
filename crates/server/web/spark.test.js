import assert from 'node:assert/strict';
import { test } from 'node:test';

import { path } from './spark.js';

const box = { width: 100, height: 20 };

test('values fill the width and the largest is on top', () => {
  assert.equal(path([0, 10, 5], box), 'M0 20L50 0L100 10');
});

test('missing value leaves a gap in the line', () => {
  assert.equal(path([10, null, 10, 10], box), 'M0 0M66.7 0L100 0');
});

test('zeros are at the bottom', () => {
  assert.equal(path([0, 0], box), 'M0 20L100 20');
});

test('path is empty without values', () => {
  assert.equal(path([], box), '');
});
