/** Rooms of a client, on sockets in memory. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Client } from './client.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

const OPTIONS = { clientId: 'me', WebSocket: FakeSocket, storage: null, logLevel: 'none' };
const deliver = (message) => FakeSocket.latest.deliver(message);
const ack = (id, fields) => deliver({ type: 'ack', id, ...fields });
const sent = () => FakeSocket.latest.sent.map((text) => JSON.parse(text));
const joined = (version, ids, fields) => {
  const members = ids.map((id) => ({ client_id: id }));
  deliver({ type: 'joined', room: 'hall', version, capacity: null, count: ids.length, members, more: false, ...fields });
};
const waiting = (ahead) => deliver({ type: 'waiting', room: 'hall', ahead, queue_length: 3 });
const ids = (room) => room.members.map(({ id }) => id);

/** Returns a room of a connected client, and the events of the room. */
function hall(context) {
  const client = new Client('ws://mesh.example', OPTIONS);
  client.connect();
  context.after(() => client.close());
  deliver({ ...WELCOME, resume: 'r1', resumed: false });
  const room = client.room('hall');
  const events = [];
  for (const type of ['join', 'update', 'leave', 'broadcast', 'state', 'change']) {
    room.on(type, (event) => events.push(event === undefined ? type : { [type]: event }));
  }
  return { client, room, events };
}

test('join resolves as a member and follows the others', async (context) => {
  const { client, room, events } = hall(context);
  assert.equal(client.room('hall'), room);
  assert.deepEqual([room.state, room.members, room.count, room.capacity], ['out', [], 0, null]);
  const join = room.join({ data: { name: 'Me' } });
  assert.deepEqual([room.state, sent()], ['joining', [{ type: 'join', id: 1, room: 'hall', data: { name: 'Me' } }]]);
  joined(1, ['bob', 'me'], { capacity: 8 });
  ack(1);
  await join;
  assert.deepEqual([room.state, ids(room), room.count, room.capacity], ['member', ['bob'], 2, 8]);
  const { members } = room;
  assert.equal(room.members, members);
  assert.throws(() => members.push(1), TypeError);
  assert.deepEqual(room.member('bob'), { id: 'bob', data: null });
  const { revision } = room;
  const changes = [{ client_id: 'ann' }, { client_id: 'bob', data: 7 }];
  deliver({ type: 'members_changed', room: 'hall', version: 2, joined: changes, left: [] });
  deliver({ type: 'broadcast', room: 'hall', from: 'ann', data: 'hello', id: 3 });
  deliver({ type: 'members_changed', room: 'hall', version: 3, joined: [], left: [{ client_id: 'bob', reason: 'expired' }] });
  assert.ok(room.revision > revision && room.members !== members);
  assert.deepEqual(events, [
    { state: { state: 'joining' } }, 'change',
    { state: { state: 'member' } }, { join: { id: 'bob', data: null } }, 'change',
    { join: { id: 'ann', data: null } }, { update: { id: 'bob', data: 7 } }, 'change',
    { broadcast: { from: 'ann', data: 'hello', id: 3 } },
    { leave: { member: { id: 'bob', data: 7 }, reason: 'expired' } }, 'change',
  ]);
});

test('members are the same frozen array until they change', (context) => {
  const { room } = hall(context);
  room.join().catch(() => {});
  joined(1, ['ann', 'bob', 'me']);
  const { members } = room;
  joined(2, ['ann', 'bob', 'me'], { capacity: 8 });
  deliver({ type: 'members_changed', room: 'hall', version: 3, joined: [{ client_id: 'bob' }], left: [] });
  assert.equal(room.members, members);
  joined(4, ['bob', 'me', 'ann']);
  assert.deepEqual([ids({ members }), ids(room)], [['ann', 'bob'], ['bob', 'ann']]);
});

test('join of a full room waits for its seat', async (context) => {
  const { room } = hall(context);
  let isMember = false;
  const join = room.join().then(() => (isMember = true));
  waiting(1);
  ack(1);
  await null;
  assert.deepEqual([room.state, room.queuePlace], ['waiting', { ahead: 1, length: 3 }]);
  waiting(0);
  assert.deepEqual([room.queuePlace, isMember], [{ ahead: 0, length: 3 }, false]);
  joined(9, ['bob', 'me']);
  await join;
  assert.deepEqual([room.queuePlace, room.state], [null, 'member']);
});

test('join without a queue leaves a full room', async (context) => {
  const { room } = hall(context);
  const join = room.join({ queue: false });
  waiting(1);
  ack(1);
  await assert.rejects(join, { name: 'MeshError', code: 'room_full', wasSent: true });
  assert.equal(room.state, 'out');
  assert.deepEqual(sent().at(-1), { type: 'leave', id: 2, room: 'hall' });
});

test('abort of a join leaves the room or its queue', async (context) => {
  for (const isWaiting of [true, false]) {
    const { room } = hall(context);
    const abort = new AbortController();
    const join = room.join({ signal: abort.signal });
    if (isWaiting) {
      waiting(1);
      ack(1);
      await new Promise(setImmediate);
    }
    abort.abort();
    await assert.rejects(join, { code: 'aborted', wasSent: true });
    if (!isWaiting) ack(1);
    assert.equal(room.state, 'out');
    assert.deepEqual(sent().at(-1), { type: 'leave', id: 2, room: 'hall' });
  }
});

test('abort of a join before its ack leaves a room with a seat', async (context) => {
  for (const seat of [() => joined(1, ['bob']), () => waiting(1)]) {
    const { room } = hall(context);
    const abort = new AbortController();
    const join = room.join({ signal: abort.signal });
    seat();
    abort.abort();
    await assert.rejects(join, { code: 'aborted', wasSent: true });
    assert.equal(room.state, 'out');
    ack(1);
    assert.deepEqual(sent().at(-1), { type: 'leave', id: 2, room: 'hall' });
  }
});

test('abort of a join that was not sent keeps a seat', async (context) => {
  const { room } = hall(context);
  room.join();
  joined(1, ['bob']);
  ack(1);
  await assert.rejects(room.join({ signal: AbortSignal.abort() }), { code: 'aborted', wasSent: false });
  assert.deepEqual([room.state, sent().length], ['member', 1]);
});

test('abort of a join does not end a later join', async (context) => {
  const { room } = hall(context);
  const abort = new AbortController();
  const first = assert.rejects(room.join({ signal: abort.signal }), { code: 'aborted' });
  abort.abort();
  const second = room.join();
  await first;
  ack(1);
  joined(1, ['bob']);
  ack(2);
  await second;
  assert.deepEqual([room.state, sent().length], ['member', 2]);
});

test('join leave and join in a row end as a member', async (context) => {
  const { room, events } = hall(context);
  const first = room.join();
  const leave = room.leave();
  const second = room.join();
  ack(1);
  deliver({ type: 'left', room: 'hall', reason: 'left' });
  ack(2);
  await leave;
  assert.equal(room.state, 'joining');
  joined(3, ['bob']);
  ack(3);
  await Promise.all([first, second]);
  assert.deepEqual([room.state, ids(room)], ['member', ['bob']]);
  const states = events.map(({ state }) => state?.state).filter(Boolean);
  assert.deepEqual(states, ['joining', 'out', 'joining', 'member']);
  deliver({ type: 'left', room: 'hall', reason: 'forbidden' });
  assert.deepEqual(events.at(-2), { state: { state: 'out', reason: 'forbidden' } });
});

test('join ends when the client leaves before its seat', async (context) => {
  const { room } = hall(context);
  const join = assert.rejects(room.join(), { code: 'left' });
  room.leave().catch(() => {});
  ack(1);
  await join;
});

test('join rejects when its place in the queue expires', async (context) => {
  const { room } = hall(context);
  const join = room.join();
  waiting(1);
  ack(1);
  await null;
  deliver({ type: 'left', room: 'hall', reason: 'expired' });
  await assert.rejects(join, { code: 'expired', message: 'the seat expired' });
});

test('refused join rejects with the text and wait of the server', async (context) => {
  const { room } = hall(context);
  const join = room.join();
  deliver({ type: 'error', code: 'overloaded', message: 'too many rooms', id: 1, room: 'hall', retry_after_ms: 900 });
  const refusal = { code: 'overloaded', message: 'too many rooms', retryAfterMs: 900, wasSent: true };
  await assert.rejects(join, refusal);
  assert.equal(room.state, 'out');
});

test('broadcast resolves to the number of members', async (context) => {
  const { room } = hall(context);
  room.join();
  joined(1, ['bob']);
  ack(1);
  const reached = room.broadcast({ muted: true });
  ack(2, { delivered: 1 });
  assert.equal(await reached, 1);
  const updated = room.update({ name: 'Ann' });
  assert.deepEqual(sent().at(-1), { type: 'join', id: 3, room: 'hall', data: { name: 'Ann' } });
  ack(3);
  assert.equal(await updated, undefined);
});

test('room checks names and data at the call', async (context) => {
  const { client, room } = hall(context);
  for (const name of ['', 'a b', undefined]) assert.throws(() => client.room(name), { code: 'bad_name' });
  for (const data of [undefined, () => {}, NaN, Symbol('s')]) {
    assert.throws(() => room.broadcast(data), { name: 'TypeError', message: /^data: / });
    assert.throws(() => room.update(data), TypeError);
    if (data !== undefined) assert.throws(() => room.join({ data }), TypeError);
  }
  await assert.rejects(room.update(1), { code: 'not_in_room', wasSent: false });
});

test('end of the client ends its rooms', async (context) => {
  const { client, room, events } = hall(context);
  const join = assert.rejects(room.join(), { code: 'closed', wasSent: true });
  await client.close();
  await join;
  assert.deepEqual(events.slice(-2), [{ state: { state: 'out', reason: 'closed' } }, 'change']);
});
