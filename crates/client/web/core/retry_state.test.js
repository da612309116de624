/** Growth of the maximum wait between attempts. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { RetryState } from './retry_state.js';

const windows = (losses) => {
  const retries = new RetryState();
  return losses.map((at) => retries.window(at));
};

test('window doubles when attempts take long', () => {
  assert.deepEqual(windows([5, 20_000, 40_000, 60_000]), [1_000, 2_000, 4_000, 8_000]);
});

test('window is twice the outage when attempts are quick', () => {
  const expected = [1_000, 1_000, 1_000, 1_000, 1_400, 3_000, 6_000];
  assert.deepEqual(windows([7, 8, 9, 107, 707, 1_507, 3_007]), expected);
});

test('window never exceeds the cap', () => {
  const hours = windows(Array.from({ length: 2_000 }, (_, number) => number * 3_600_000));
  assert.ok(hours.slice(5).every((window) => window === 30_000));
});
