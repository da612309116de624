import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bytes, clock, count, cpu } from './format.js';
import { duration, micros, rate } from './format.js';

test('unknown number is a dash', () => {
  for (const format of [bytes, count, cpu, duration, micros, rate]) assert.equal(format(null), '–', format.name);
});

test('count separates thousands', () => {
  assert.equal(count(0), '0');
  assert.equal(count(20000), '20,000');
});

test('rate has a decimal below 10', () => {
  assert.deepEqual([0, 0.25, 9.96, 12.4, 30000.4].map(rate), ['0', '0.3', '10', '12', '30,000']);
});

test('latency has the unit of its size', () => {
  const texts = [90, 1_500, 12_400, 999_400, 2_500_000].map(micros);
  assert.deepEqual(texts, ['90 µs', '1.5 ms', '12 ms', '999 ms', '2.5 s']);
});

test('duration has its two largest units', () => {
  const hour = 3_600_000;
  const texts = [900, 59_999, 61_000, hour + 60_000, 25 * hour].map(duration);
  assert.deepEqual(texts, ['< 1 s', '59 s', '1 min 1 s', '1 h 1 min', '1 d 1 h']);
});

test('memory and CPU have units', () => {
  assert.deepEqual([20 * 1024 ** 2, 1.5 * 1024 ** 3].map(bytes), ['20 MiB', '1.5 GiB']);
  assert.equal(cpu(0.0042), '0.4%');
});

test('clock has hours, minutes and seconds', () => {
  assert.match(clock(0), /^\d\d:\d\d:\d\d$/);
});
