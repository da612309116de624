/** Sockets of Node.js, which differ from those of browsers. */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'node:test';

import { leaveSocket, openSocket } from './socket.js';
import { FakeSocket } from './testing/socket.js';

function open() {
  const ends = [];
  const report = (input, value) => input === 'lost' && ends.push([value.code, value.reason]);
  const socket = openSocket(FakeSocket, 'ws://mesh.example/v1/connect?a=b', 'me', { token: 'jwt' }, report);
  return { socket, ends };
}

test('address and subprotocols name the client', () => {
  const { socket } = open();
  assert.equal(socket.url, 'ws://mesh.example/v1/connect?a=b&client_id=me&reliable=1');
  assert.deepEqual(socket.protocols, ['signaling.v1', 'bearer.jwt']);
});

test('error without a close counts as the end of the socket', async () => {
  const { socket, ends } = open();
  socket.onerror({ error: new Error('connect ECONNREFUSED') });
  assert.deepEqual(ends, []);
  await sleep(60);
  assert.deepEqual(ends, [[1006, 'connect ECONNREFUSED']]);
  socket.end(1006);
  assert.equal(ends.length, 1);
});

test('close after an error has its text and comes once', async () => {
  const { socket, ends } = open();
  socket.onerror({ message: 'Unexpected server response: 404' });
  socket.end(1006);
  await sleep(60);
  assert.deepEqual(ends, [[1006, 'Unexpected server response: 404']]);
});

test('socket that was left keeps a listener of errors alone', async () => {
  const { socket, ends } = open();
  socket.open();
  socket.onerror({ message: 'late' });
  const left = leaveSocket(socket);
  assert.equal(typeof socket.onerror, 'function');
  assert.equal(socket.onmessage, null);
  await left;
  await sleep(60);
  assert.deepEqual(ends, []);
});
