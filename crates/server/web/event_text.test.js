import assert from 'node:assert/strict';
import { test } from 'node:test';

import { describe, list } from './event_text.js';

const text = (event) => describe({ by: ['node-0'], ...event })?.text;

test('every kind of event has a text, a tone and a mark', () => {
  const ofNodes = 'joined left drains serves suspects trusts silent stopped answers restarted';
  const events = [
    ...ofNodes.split(' ').map((kind) => ({ kind, node: 'node-1' })),
    { kind: 'moved', from: 'a', to: 'b', clients: 2 },
    { kind: 'unready', why: 'starting' },
    ...['ready', 'stale', 'fresh'].map((kind) => ({ kind })),
  ];
  for (const event of events) {
    const { text, tone, mark } = describe({ by: ['node-0'], ...event });
    assert.ok(text.length > 0 && tone && mark, event.kind);
    assert.doesNotMatch(text, /undefined/);
  }
});

test('move has the number of clients', () => {
  const move = { kind: 'moved', from: 'a', to: 'b' };
  assert.equal(text({ ...move, clients: 1 }), '1 client moved from a to b');
  assert.equal(text({ ...move, clients: 3301 }), '3,301 clients moved from a to b');
});

test('verb follows the number of reporting servers', () => {
  const event = { kind: 'suspects', node: 'node-1' };
  assert.equal(text(event), 'node-0 suspects node-1');
  assert.equal(text({ ...event, by: ['a', 'b'] }), 'a and b suspect node-1');
  assert.equal(text({ kind: 'unready', why: 'starting' }), 'node-0 accepts no clients: starting');
});

test('unknown kind of event has no text', () => {
  assert.equal(describe({ kind: 'unknown', by: ['a'] }), null);
  assert.equal(describe({ kind: 'constructor', by: ['a'] }), null);
});

test('list of many names ends with their number', () => {
  assert.equal(list(['a']), 'a');
  assert.equal(list(['a', 'b', 'c']), 'a, b and c');
  assert.equal(list(['a', 'b', 'c', 'd', 'e']), 'a, b, c and 2 more');
});
