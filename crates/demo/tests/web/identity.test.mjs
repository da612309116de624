import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

// Imported as text: without a package.json, Node.js takes the file for CommonJS.
const source = await readFile(new URL('../../web/identity.js', import.meta.url), 'base64');
const { roomOf } = await import(`data:text/javascript;base64,${source}`);

test('room is the fragment of an address, with or without a name', () => {
  assert.equal(roomOf({ hash: '#room=a%20b' }), 'a b');
  assert.equal(roomOf({ hash: '#c' }), 'c');
  assert.equal(roomOf({ hash: '' }), '');
});

test('fragment with invalid percent-encoding is kept', () => {
  assert.equal(roomOf({ hash: '#%' }), '%');
});
