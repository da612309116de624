import assert from 'node:assert/strict';
import { test } from 'node:test';

import { list, tell } from './words.js';

const text = (story) => tell({ by: ['node-0'], ...story })?.text;

test('every story has words, a tone and a shape', () => {
  const nodes = ['joined', 'left', 'drains', 'serves', 'suspects', 'trusts', 'silent', 'stopped', 'answers', 'restarted'];
  const stories = nodes.map((what) => ({ what, node: 'node-1' }));
  stories.push({ what: 'moved', from: 'a', to: 'b', clients: 2 }, { what: 'unready', why: 'starting' });
  stories.push(...['ready', 'stale', 'fresh'].map((what) => ({ what })));
  for (const story of stories) {
    const said = tell({ by: ['node-0'], ...story });
    assert.ok(said.text.length > 0 && said.tone && said.mark, story.what);
    assert.doesNotMatch(said.text, /undefined/);
  }
});

test('moves are counted', () => {
  assert.equal(text({ what: 'moved', from: 'a', to: 'b', clients: 1 }), '1 client moved from a to b');
  assert.equal(text({ what: 'moved', from: 'a', to: 'b', clients: 3301 }), '3,301 clients moved from a to b');
});

test('what one saw and what several saw differ in grammar alone', () => {
  const story = { what: 'suspects', node: 'node-1' };
  assert.equal(text(story), 'node-0 does not rely on node-1');
  assert.equal(text({ ...story, by: ['a', 'b'] }), 'a and b do not rely on node-1');
  assert.equal(text({ what: 'unready', why: 'starting' }), 'node-0 takes no work: starting');
});

test('what this page has no words for is left out', () => {
  assert.equal(tell({ what: 'unknown', by: ['a'] }), null);
  assert.equal(tell({ what: 'constructor', by: ['a'] }), null);
});

test('many names are some and a number', () => {
  assert.equal(list(['a']), 'a');
  assert.equal(list(['a', 'b', 'c']), 'a, b and c');
  assert.equal(list(['a', 'b', 'c', 'd', 'e']), 'a, b, c and 2 more');
});
