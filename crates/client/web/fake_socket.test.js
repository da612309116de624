/** The fake keeps the rules of the standard that the SDK relies on. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { FakeSocket } from './testing/socket.js';

const task = () => new Promise((resolve) => setImmediate(resolve));

function opened() {
  const socket = new FakeSocket('ws://mesh.example/');
  const seen = [];
  for (const type of ['open', 'message', 'error', 'close']) {
    socket[`on${type}`] = ({ code, data }) => seen.push([type, code ?? data].filter((part) => part !== undefined).join(' '));
  }
  socket.open();
  return { socket, seen };
}

test('a page may close with 1000 and 3000 to 4999 alone', () => {
  for (const code of [0, 999, 1001, 1005, 1006, 2999, 5000]) {
    assert.throws(() => opened().socket.close(code), { name: 'InvalidAccessError' });
  }
  for (const code of [1000, 3000, 4001, 4999]) {
    const { socket } = opened();
    socket.close(code);
    assert.equal(socket.closed, code);
  }
  assert.throws(() => opened().socket.close(1000, 'ø'.repeat(62)), { name: 'SyntaxError' });
});

test('close event comes in a later task and says what the server answered', async () => {
  for (const [code, answer] of [[4001, 4001], [undefined, 1005]]) {
    const { socket, seen } = opened();
    socket.close(code);
    assert.deepEqual([socket.readyState, seen], [FakeSocket.CLOSING, ['open']]);
    await task();
    assert.deepEqual([socket.readyState, seen], [FakeSocket.CLOSED, ['open', `close ${answer}`]]);
  }
});

test('a socket that is closed gets no messages and sends none', async () => {
  const { socket, seen } = opened();
  socket.sayRaw('one');
  socket.close(4001);
  socket.sayRaw('two');
  socket.send('three');
  await task();
  socket.sayRaw('four');
  assert.deepEqual([seen, socket.sent, socket.bufferedAmount], [['open', 'message one', 'close 4001'], [], 5]);
});

test('a socket that is closed before it opens sends no close frame', async () => {
  const socket = new FakeSocket('ws://mesh.example/');
  assert.throws(() => socket.send('early'), { name: 'InvalidStateError' });
  const codes = [];
  socket.onclose = ({ code }) => codes.push(code);
  socket.close(4001);
  socket.open();
  assert.deepEqual([socket.readyState, codes], [FakeSocket.CLOSING, []]);
  await task();
  assert.deepEqual([socket.closed, codes], ['without a frame', [1006]]);
});
