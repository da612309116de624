import assert from 'node:assert/strict';
import { test } from 'node:test';

import { EventLog } from './event_log.js';

const left = (node) => ({ kind: 'left', node });

test('change that several servers report is one event', () => {
  const log = new EventLog();
  const reports = [[900, 'b', 'x'], [1_000, 'a', 'x'], [1_200, 'b', 'y'], [1_500, 'c', 'x']];
  for (const [at, by, node] of reports) log.add(at, by, left(node));
  const events = log.all().map(({ at_ms, node, by }) => [at_ms, node, by.join('')]);
  assert.deepEqual(events, [[900, 'x', 'bac'], [1_200, 'y', 'b']]);
});

test('same change 3 s later is another event', () => {
  const log = new EventLog();
  for (const at of [1_000, 4_001]) log.add(at, 'a', left('x'));
  assert.equal(log.all().length, 2);
});

test('log keeps the latest 80 events', () => {
  const log = new EventLog();
  for (let at = 0; at < 200; at += 1) log.add(at, 'a', left(`n${at}`));
  assert.deepEqual([log.all().length, log.all()[0].node], [80, 'n120']);
});
