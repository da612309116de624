/** Limits and expiry of requests, beyond the vectors. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Pacer } from './pacer.js';
import { Requests } from './requests.js';

const MAX_BYTES = 65_536;
const SIGNAL = { type: 'signal', to: 'bob', data: 'hello' };
const JOIN = { type: 'join', room: 'den' };
const pacer = new Pacer();
const next = (requests) => requests.next(0, pacer);
const make = (limits) => new Requests({ queue: 8, queueBytes: 1_000, timeoutMs: 10, ...limits });

test('request passes a full queue when it can be sent at once', () => {
  const requests = make({ queue: 0 });
  requests.push(0, SIGNAL, MAX_BYTES);
  assert.throws(() => requests.push(0, SIGNAL, MAX_BYTES), { code: 'queue_full' });
  assert.match(next(requests), /"id":1/);
  assert.equal(requests.push(0, SIGNAL, MAX_BYTES), 2);
});

test('sent requests leave the bytes of the queue', () => {
  const requests = make({ queueBytes: 250 });
  for (let times = 0; times < 5; times += 1) {
    requests.push(0, SIGNAL, MAX_BYTES);
    requests.push(0, SIGNAL, MAX_BYTES);
    while (next(requests));
  }
});

test('removed requests leave the bytes of the queue', () => {
  const requests = make({ queueBytes: 250 });
  const push = () => requests.push(0, SIGNAL, MAX_BYTES);
  const fill = () => {
    for (let times = 0; times < 2; times += 1) push();
    assert.throws(push, { code: 'queue_full' });
  };
  fill();
  requests.cancel(1);
  push();
  assert.throws(push, { code: 'queue_full' });
  requests.expire(10);
  fill();
  requests.restart([]);
  assert.throws(push, { code: 'queue_full' });
  requests.clear();
  fill();
});

test('expired request counts as sent after its session was lost', () => {
  const requests = make();
  requests.push(0, SIGNAL, MAX_BYTES);
  next(requests);
  requests.push(0, SIGNAL, MAX_BYTES);
  requests.restart([]);
  const expired = requests.expire(10).map(({ ticket, sent }) => ({ ticket, sent }));
  assert.deepEqual(expired, [{ ticket: 1, sent: true }, { ticket: 2, sent: false }]);
});

test('rejoin is sent once after several lost sessions', () => {
  const requests = make();
  requests.restart([JOIN]);
  requests.restart([JOIN]);
  assert.deepEqual([next(requests), next(requests)], ['{"type":"join","id":1,"room":"den"}', undefined]);
});
