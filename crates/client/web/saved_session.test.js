/**
 * A stored session is removed from the storage when it is taken. It is dropped unless all its
 * fields are valid and it is of the client.
 */

import assert from 'node:assert/strict';
import test from 'node:test';

import { SavedSession } from './saved_session.js';
import { FakeStorage } from './testing/browser.js';

const WHOLE = {
  client_id: 'me',
  resume: 'r1',
  next_id: 2,
  unanswered: [{ id: 1, request: { type: 'leave', room: 'den' } }],
  queued: [],
  rooms: [{ room: 'den' }],
  names: [],
};

/**
 * Stores a text for the client `me` and takes it, as a client does. Returns the parsed session and
 * the number of entries left in the storage.
 */
function take(text) {
  const storage = new FakeStorage([['signaling-mesh:me', text]]);
  const { session } = new SavedSession('me', storage).take();
  return { session, left: storage.length };
}

test('stored session is taken once', () => {
  assert.deepEqual(take(JSON.stringify(WHOLE)), { session: WHOLE, left: 0 });
});

test('stored session is dropped when damaged or of another client', () => {
  const damages = [
    { client_id: 'you' }, { resume: 7 }, { next_id: 'two' }, { unanswered: {} }, { names: null },
    { unanswered: [{ id: 'x', request: {} }] }, { unanswered: [{ id: 1, request: {} }] },
    { queued: [null] }, { rooms: [{}] },
  ];
  const texts = damages.map((damage) => JSON.stringify({ ...WHOLE, ...damage }));
  for (const text of ['', '{', 'null', '7', '[]', '{}', '"text"', ...texts]) {
    assert.deepEqual(take(text), { session: undefined, left: 0 }, text);
  }
});
