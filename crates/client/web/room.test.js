/** Rooms of several members, on clients and RTCPeerConnections in memory. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Room } from './room.js';
import { FakeConnection, settled } from './testing/rtc.js';

test('members are connected to each other in any order of joins', async () => {
  const mesh = new Mesh();
  const rooms = [];
  for (const id of ['bob', 'ann', 'eve']) rooms.push(await mesh.enter(id));
  for (const room of rooms) {
    assert.equal(room.state, 'in');
    const states = room.members.map(({ state, channelState }) => `${state} ${channelState}`);
    assert.deepEqual(states, ['connected open', 'connected open']);
  }
  const listed = rooms[2].members.map(({ id, data }) => [id, data]);
  assert.deepEqual(listed, [['bob', 'data of bob'], ['ann', 'data of ann']]);
  assert.deepEqual(mesh.failures, []);
});

test('signal is kept when it comes before its sender is a member', async () => {
  const mesh = new Mesh();
  const bob = await mesh.enter('bob');
  mesh.holdsChanges = true;
  const ann = await mesh.enter('ann');
  assert.deepEqual([bob.members.length, ann.members[0].state], [0, 'new']);
  mesh.sendChanges();
  await settled();
  assert.deepEqual([bob.members[0].state, ann.members[0].state], ['connected', 'connected']);
  assert.deepEqual(mesh.failures, []);
});

test('member stays after its seat expired while it is connected', async () => {
  const mesh = new Mesh();
  const [ann] = [await mesh.enter('ann'), await mesh.enter('bob'), await mesh.enter('eve')];
  mesh.change({ left: [{ client_id: 'bob', reason: 'left' }, { client_id: 'eve', reason: 'expired' }] });
  assert.deepEqual(ann.members.map(({ id, hasLeft }) => [id, hasLeft]), [['eve', true]]);
  mesh.connectionOf('ann', 'eve').becomes('failed');
  assert.deepEqual(ann.members, []);
});

test('connection is kept when an expired member joins again', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  await mesh.enter('bob');
  const before = FakeConnection.all.length;
  mesh.change({ left: [{ client_id: 'bob', reason: 'expired' }] });
  mesh.change({ joined: [{ client_id: 'bob', data: 'new' }] });
  await settled();
  const [{ hasLeft, data, state }] = ann.members;
  assert.deepEqual([hasLeft, data, state], [false, 'new', 'connected']);
  assert.equal(FakeConnection.all.length, before);
});

test('member is connected again when its page was reloaded', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  await mesh.enter('bob');
  mesh.clientById.get('bob').silence();
  const bob = mesh.room('bob');
  await bob.join();
  await settled();
  assert.deepEqual([ann, bob].map(({ members }) => members[0].channelState), ['open', 'open']);
  assert.deepEqual(mesh.failures, []);
});

test('member list is requested when a change is missing', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  mesh.members.push({ client_id: 'bob' });
  mesh.version += 1;
  mesh.change({ joined: [{ client_id: 'eve' }] });
  await settled();
  assert.deepEqual(ann.members.map(({ id }) => id).sort(), ['bob', 'eve']);
  const old = { version: 1, joined: [], left: [{ client_id: 'eve', reason: 'left' }] };
  mesh.clientById.get('ann').receive('members_changed', { room: 'den', ...old });
  assert.equal(ann.members.length, 2);
});

test('members past the limit are only listed in a long list', async () => {
  const mesh = new Mesh();
  mesh.members = Array.from({ length: 7 }, (_, at) => ({ client_id: `member-${at}` }));
  mesh.pageSize = 3;
  const ann = await mesh.enter('ann', { maxPeers: 2 });
  assert.equal(ann.members.length, 7);
  assert.deepEqual(ann.members.map(({ state }) => state).filter((state) => state !== 'none').length, 2);
  mesh.change({ left: [{ client_id: 'member-0', reason: 'left' }] });
  assert.deepEqual(ann.members.map(({ state }) => state).filter((state) => state !== 'none').length, 2);
});

test('repeated list removes only members that no page has', async () => {
  const mesh = new Mesh();
  mesh.members = Array.from({ length: 6 }, (_, at) => ({ client_id: `member-${at}` }));
  mesh.pageSize = 2;
  const ann = await mesh.enter('ann', { maxPeers: 0 });
  const [departed] = mesh.members.splice(4, 1);
  mesh.page('ann');
  mesh.members.push(departed);
  mesh.page('ann', 'ann');
  mesh.members.pop();
  assert.equal(ann.members.length, 6, 'pages are missing, and one that is not due is ignored');
  await settled();
  assert.deepEqual(ann.members.map(({ id }) => id), [0, 1, 2, 3, 5].map((at) => `member-${at}`));
});

test('room reports the queue place while it is full', async () => {
  const mesh = new Mesh();
  const bob = await mesh.enter('bob');
  mesh.isFull = true;
  const ann = await mesh.enter('ann');
  assert.deepEqual([ann.state, ann.queuePlace], ['waiting', { ahead: 2, length: 3 }]);
  mesh.clientById.get('ann').receive('waiting', { room: 'den', ahead: 0, queue_length: 1 });
  assert.deepEqual(ann.queuePlace, { ahead: 0, length: 1 });
  mesh.letIn('ann');
  await settled();
  assert.deepEqual([ann.state, ann.queuePlace], ['in', null]);
  assert.deepEqual([ann, bob].map(({ members }) => members[0].state), ['connected', 'connected']);
});

test('connection starts over when its signals were not delivered', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  mesh.losesSignals = true;
  const bob = await mesh.enter('bob');
  assert.deepEqual([ann.members[0].state, bob.members[0].state], ['new', 'new']);
  mesh.losesSignals = false;
  context.mock.timers.tick(2_000);
  await settled();
  assert.deepEqual([ann.members[0].state, bob.members[0].state], ['connected', 'connected']);
});

test('stream replaces the one before for present and new members', async () => {
  const mesh = new Mesh();
  const camera = stream('audio', 'video'), pattern = stream('video');
  const ann = await mesh.enter('ann', { stream: camera });
  await mesh.enter('bob');
  const shown = (id) => mesh.connectionOf('ann', id).getSenders().map(({ track }) => track);
  assert.deepEqual(shown('bob'), camera.getTracks());
  ann.setStream(pattern);
  await settled();
  assert.deepEqual(shown('bob'), [null, pattern.getTracks()[0]]);
  await mesh.enter('eve');
  assert.deepEqual(shown('eve'), pattern.getTracks());
  ann.setStream(null);
  assert.deepEqual(shown('eve'), [null]);
});

test('message goes to all members or one and must be JSON', async () => {
  const mesh = new Mesh();
  const [ann] = [await mesh.enter('ann'), await mesh.enter('bob'), await mesh.enter('eve')];
  const received = [];
  ann.addEventListener('message', ({ detail }) => received.push(detail));
  assert.deepEqual([ann.send('to all'), ann.send({ to: 'one' }, 'bob')], [2, 1]);
  assert.deepEqual(mesh.channelOf('ann', 'bob').sent, ['"to all"', '{"to":"one"}']);
  for (const data of ['{]', '[1]']) mesh.channelOf('ann', 'bob').onmessage({ data });
  assert.deepEqual(received, [{ from: 'bob', data: [1] }]);
  assert.equal(await ann.roundTripMs('bob'), 12);
  assert.equal(await ann.roundTripMs('unknown'), null);
});

test('failed connection restarts when the client reconnects', async () => {
  const mesh = new Mesh();
  await mesh.enter('ann');
  await mesh.enter('bob');
  const connection = mesh.connectionOf('ann', 'bob');
  for (let times = 0; times < 4; times += 1) connection.becomes('failed');
  assert.equal(mesh.failures.length, 1);
  const { restarts } = connection;
  mesh.clientById.get('ann').receive('state', { state: 'connected' });
  assert.equal(connection.restarts, restarts + 1);
});

test('room is empty after leave, expiry or close', async () => {
  for (const end of [
    (room) => room.leave(),
    (room, client) => client.receive('left', { room: 'den', reason: 'expired' }),
    (room, client) => client.receive('state', { state: 'closed' }),
  ]) {
    const mesh = new Mesh();
    const ann = await mesh.enter('ann');
    await mesh.enter('bob');
    const connection = mesh.connectionOf('ann', 'bob');
    await end(ann, mesh.clientById.get('ann'));
    assert.deepEqual([ann.state, ann.members, connection.connectionState], ['out', [], 'closed']);
    mesh.change({ joined: [{ client_id: 'eve' }] });
    assert.deepEqual(ann.members, []);
  }
});

test('room is not entered when the join is refused', async () => {
  const mesh = new Mesh();
  mesh.refuses = true;
  const room = mesh.room('ann');
  await assert.rejects(room.join(), { code: 'room_store_unavailable' });
  assert.equal(room.state, 'out');
});

const stream = (...kinds) => {
  const tracks = kinds.map((kind) => ({ kind }));
  return { getTracks: () => tracks };
};

/** A mesh with one room, `den`. */
class Mesh {
  members = [];
  version = 0;
  pageSize = 500;
  clientById = new Map();
  roomById = new Map();
  failures = [];
  #heldChanges = [];

  async enter(id, options) {
    const room = this.room(id, options);
    await room.join();
    await settled();
    return room;
  }

  room(id, options = {}) {
    const client = new FakeClient(this, id);
    this.clientById.set(id, client);
    const data = `data of ${id}`;
    const room = new Room(client, 'den', { data, RTCPeerConnection: FakeConnection, ...options });
    room.addEventListener('failure', ({ detail }) => this.failures.push(detail));
    this.roomById.set(id, room);
    return room;
  }

  join(id, data) {
    if (!this.members.some(({ client_id: member }) => member === id)) {
      if (this.isFull) {
        const place = { ahead: 2, queue_length: 3 };
        return this.clientById.get(id).receive('waiting', { room: 'den', ...place });
      }
      this.change({ joined: [{ client_id: id, data }] }, id);
      this.members.push({ client_id: id, data });
    }
    this.page(id);
  }

  letIn(id) {
    this.isFull = false;
    this.join(id);
  }

  page(id, after) {
    // -1 without `after`.
    const from = this.members.findIndex(({ client_id: member }) => member === after) + 1;
    const members = this.members.slice(from, from + this.pageSize);
    const more = from + this.pageSize < this.members.length;
    const room = { room: 'den', version: this.version, capacity: null, count: this.members.length };
    const behind = after === undefined ? {} : { after };
    this.clientById.get(id).receive('joined', { ...room, members, more, ...behind });
  }

  change({ joined = [], left = [] }, except) {
    this.version += joined.length + left.length;
    const { version } = this;
    if (except === undefined) {
      this.members = this.members.filter(({ client_id: id }) => !left.some((gone) => gone.client_id === id));
      this.members.push(...joined);
    }
    for (const [id, client] of this.clientById) {
      const send = () => client.receive('members_changed', { room: 'den', version, joined, left });
      if (id === except) continue;
      if (this.holdsChanges) this.#heldChanges.push(send);
      else send();
    }
  }

  sendChanges() {
    for (const send of this.#heldChanges.splice(0)) send();
  }

  async signal(from, to, data) {
    await null;
    if (this.losesSignals) throw Object.assign(new Error('lost'), { code: 'recipient_unavailable' });
    this.clientById.get(to)?.receive('signal', { from, data: JSON.parse(JSON.stringify(data)) });
  }

  /** Returns a member's connection to another: the latest whose description it sent there. */
  connectionOf(id, other) {
    return this.clientById.get(id).connectionByPeer.get(other);
  }

  channelOf(id, other) {
    return this.connectionOf(id, other).channels[0];
  }
}

class FakeClient extends EventTarget {
  iceServers = [];
  connectionByPeer = new Map();

  constructor(mesh, clientId) {
    super();
    Object.assign(this, { mesh, clientId });
  }

  async join(room, data) {
    if (this.mesh.refuses) throw Object.assign(new Error('refused'), { code: 'room_store_unavailable' });
    this.mesh.join(this.clientId, data);
  }

  async leave() {}

  members(room, after) {
    queueMicrotask(() => this.mesh.page(this.clientId, after));
  }

  signal(to, data) {
    const { sdp } = data.peer.description ?? {};
    const mine = FakeConnection.all.findLast(({ localDescription }) => localDescription?.sdp === sdp);
    if (sdp && mine) this.connectionByPeer.set(to, mine);
    return this.mesh.signal(this.clientId, to, data);
  }

  /** Its page is gone, and the client receives nothing more. */
  silence() {
    this.receive = () => {};
  }

  receive(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail: { type, ...detail } }));
  }
}
