/** A stored session is taken once, and only if it is whole and of the client. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { SavedSession, parseSession } from './saved_session.js';
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

/** Takes the stored text, as a client does. */
function take(text) {
  const storage = new FakeStorage([['signaling-mesh:me', text]]);
  const session = parseSession(new SavedSession(storage, 'me').take() ?? '', 'me');
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
