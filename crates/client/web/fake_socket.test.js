/** The fake socket follows the rules of the standard that the SDK relies on. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { FakeSocket } from './testing/socket.js';

const task = () => new Promise((resolve) => setImmediate(resolve));

function opened() {
  const socket = new FakeSocket('ws://mesh.example/');
  const seen = [];
  for (const type of ['open', 'message', 'error', 'close']) {
    socket[`on${type}`] = ({ code = '', data = '' }) => seen.push(`${type} ${code}${data}`.trim());
  }
  socket.open();
  return { socket, seen };
}

test('fake socket closes only with 1000 and 3000 to 4999', () => {
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

test('close event comes in a later task with the answered code', async () => {
  for (const [code, answer] of [[4001, 4001], [undefined, 1005]]) {
    const { socket, seen } = opened();
    socket.close(code);
    assert.deepEqual([socket.readyState, seen], [FakeSocket.CLOSING, ['open']]);
    await task();
    assert.deepEqual([socket.readyState, seen], [FakeSocket.CLOSED, ['open', `close ${answer}`]]);
  }
});

test('closed socket neither receives nor sends messages', async () => {
  const { socket, seen } = opened();
  socket.deliverRaw('one');
  socket.close(4001);
  socket.deliverRaw('two');
  socket.send('three');
  await task();
  socket.deliverRaw('four');
  assert.deepEqual(seen, ['open', 'message one', 'close 4001']);
  assert.deepEqual([socket.sent, socket.bufferedAmount], [[], 5]);
});

test('socket sends no close frame when closed before it opens', async () => {
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
