import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Stories } from './stories.js';

const left = (node) => ({ what: 'left', node });

test('a change that several servers see is one story with their names', () => {
  const stories = new Stories();
  for (const [at, by, node] of [[900, 'b', 'x'], [1_000, 'a', 'x'], [1_200, 'b', 'y'], [1_500, 'c', 'x']]) stories.add(at, by, left(node));
  assert.deepEqual(stories.all().map(({ at_ms, node, by }) => [at_ms, node, by.join('')]), [[900, 'x', 'bac'], [1_200, 'y', 'b']]);
});

test('the same change later is another story', () => {
  const stories = new Stories();
  for (const at of [1_000, 4_001]) stories.add(at, 'a', left('x'));
  assert.equal(stories.all().length, 2);
});

test('only the latest stories are kept', () => {
  const stories = new Stories();
  for (let at = 0; at < 200; at += 1) stories.add(at, 'a', left(`n${at}`));
  assert.deepEqual([stories.all().length, stories.all()[0].node], [80, 'n120']);
});
