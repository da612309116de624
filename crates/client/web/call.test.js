/** Calls of several members, on rooms and RTCPeerConnections in memory. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Call } from './call.js';
import { MeshError } from './core/mesh_error.js';
import { emit, Emitter } from './emitter.js';
import { Room } from './room.js';
import { FakeConnection, FakeStream, FakeTrack, settled } from './testing/rtc.js';

const camera = new FakeTrack('video', 'camera'), sound = new FakeTrack('audio', 'sound');
const stateOf = (call) => call.peers.map(({ id, state, channelState }) => `${id} ${state} ${channelState}`);

test('members are connected to each other in any order of joins', async () => {
  const mesh = new Mesh();
  for (const id of ['bob', 'ann', 'eve']) await mesh.enter(id);
  assert.deepEqual(stateOf(mesh.call('eve')), ['bob connected open', 'ann connected open']);
  assert.deepEqual(stateOf(mesh.call('ann')), ['bob connected open', 'eve connected open']);
  assert.equal(mesh.call('ann').peers[0].data, 'data of bob');
  assert.equal(mesh.connections, 6);
  assert.deepEqual(mesh.failures, []);
});

test('peers are the same frozen array until a change', async () => {
  const mesh = new Mesh();
  const call = await mesh.enter('ann');
  await mesh.enter('bob');
  const { peers } = call;
  assert.equal(call.peers, peers);
  assert.ok([peers, peers[0], peers[0].streams].every(Object.isFrozen));
  mesh.call('bob').publish(new FakeStream([camera]));
  await settled();
  assert.notEqual(call.peers, peers);
});

test('signal is kept when it comes before its sender is a member', async () => {
  const mesh = new Mesh();
  const bob = await mesh.enter('bob');
  mesh.holdsNews = true;
  await mesh.enter('ann');
  assert.deepEqual(bob.peers, []);
  mesh.sendNews();
  await settled();
  assert.deepEqual(stateOf(bob), ['ann connected open']);
  assert.equal(mesh.connections, 2);
});

test('call that begins after the join connects too', async () => {
  for (const late of ['ann', 'eve']) {
    const mesh = new Mesh();
    mesh.join(late);
    await mesh.enter('bob');
    mesh.start(late);
    await settled();
    assert.deepEqual(stateOf(mesh.call('bob')), [`${late} connected open`]);
    assert.equal(mesh.connections, 2);
  }
});

test('labels reach present and later members as they are published', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann', { stream: new FakeStream([camera]) });
  const bob = await mesh.enter('bob');
  const screen = new FakeTrack('video', 'screen');
  ann.publish(new FakeStream([camera, sound]));
  ann.publish(new FakeStream([screen]), 'screen');
  await settled();
  const eve = await mesh.enter('eve');
  for (const { peers: [{ stream, streams }] } of [bob, eve]) {
    assert.equal(stream, streams.main);
    assert.deepEqual(stream.getTracks().map(({ kind }) => kind).sort(), ['audio', 'video']);
    assert.deepEqual(Object.keys(streams).sort(), ['main', 'screen']);
  }
  ann.unpublish('screen');
  ann.unpublish();
  await settled();
  assert.deepEqual([bob.peers[0].streams, bob.peers[0].stream], [{}, null]);
});

test('message goes to open channels and a full one is a failure', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  for (const id of ['bob', 'eve', 'tom']) await mesh.enter(id);
  mesh.channelOf('ann', 'bob').bufferedAmount = 1_048_577;
  mesh.channelOf('ann', 'tom').send = () => {
    throw new Error('full');
  };
  assert.deepEqual(ann.send({ text: 'hi' }), ['eve']);
  assert.deepEqual(ann.send(1, { to: 'eve' }), ['eve']);
  assert.deepEqual(ann.send(1, { to: 'unknown' }), []);
  assert.deepEqual(mesh.channelOf('ann', 'eve').sent, ['{"text":"hi"}', '1']);
  assert.deepEqual(mesh.failures.map(({ id, error }) => [id, error.code]), [['bob', 'channel_full'], ['tom', 'channel_full']]);
  assert.throws(() => ann.send(undefined), TypeError);
});

test('message of a member is reported if it is JSON', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  await mesh.enter('bob');
  const received = [];
  ann.on('message', (message) => received.push(message));
  for (const data of ['{]', '[1]']) mesh.channelOf('ann', 'bob').onmessage({ data });
  assert.deepEqual(received, [{ from: 'bob', data: [1] }]);
  assert.deepEqual([await ann.roundTripMs('bob'), await ann.roundTripMs('unknown')], [12, null]);
});

test('peer is away while its channel is closed or its path broken', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  await mesh.enter('bob');
  const isAway = () => ann.peers[0].isAway;
  const connection = mesh.connectionOf('ann', 'bob');
  const seen = [isAway()];
  for (const state of ['disconnected', 'connected']) {
    connection.becomes(state);
    seen.push(isAway());
  }
  connection.loseChannels();
  seen.push(isAway());
  mesh.start('bob');
  await settled();
  seen.push(isAway());
  assert.deepEqual(seen, [false, true, false, true, false]);
});

test('member whose seat expired stays while it is connected', async () => {
  const mesh = new Mesh();
  const ann = await mesh.enter('ann');
  for (const id of ['bob', 'eve', 'tom']) await mesh.enter(id);
  mesh.leave('bob', 'left');
  mesh.leave('eve', 'expired');
  mesh.leave('tom', 'expired');
  assert.deepEqual(ann.peers.map(({ id }) => id), ['eve', 'tom']);
  mesh.connectionOf('ann', 'eve').becomes('failed');
  assert.deepEqual(ann.peers.map(({ id }) => id), ['tom']);
  const connection = mesh.connectionOf('ann', 'tom');
  mesh.join('tom');
  connection.becomes('disconnected');
  assert.deepEqual(ann.peers.map(({ id, connection }) => [id, connection]), [['tom', connection]]);
});

test('member past the limit has no connection until one is free', async () => {
  const mesh = new Mesh();
  for (const id of ['bob', 'eve', 'tom']) await mesh.enter(id);
  const ann = await mesh.enter('ann', { maxPeers: 2 });
  assert.deepEqual(stateOf(ann), ['bob connected open', 'eve connected open', 'tom none none']);
  mesh.leave('bob', 'left');
  await settled();
  assert.deepEqual(stateOf(ann), ['eve connected open', 'tom connected open']);
});

test('refusal for good is one failure without another attempt', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const mesh = new Mesh();
  mesh.refuses = ({ description }) => description && { code: 'too_large' };
  const ann = await mesh.enter('ann');
  await mesh.enter('bob');
  for (let times = 0; times < 10; times += 1) {
    context.mock.timers.tick(30_000);
    await settled();
  }
  assert.deepEqual(mesh.failures.map(({ id, error }) => [id, error.code]), [['ann', 'too_large']]);
  assert.equal(mesh.connections, 2);
  mesh.refuses = () => null;
  ann.reconnect('bob');
  await settled();
  assert.deepEqual(stateOf(ann), ['bob connected open']);
});

test('other refusals are repeated after a wait that doubles', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const mesh = new Mesh();
  mesh.refuses = ({ from }) => from === 'bob' && { code: 'recipient_unavailable' };
  const ann = await mesh.enter('ann');
  await mesh.enter('bob');
  const attempts = [];
  for (let second = 1; second <= 100; second += 1) {
    const before = mesh.connections;
    context.mock.timers.tick(1_000);
    await settled();
    if (mesh.connections > before) attempts.push(second);
  }
  assert.deepEqual(attempts, [2, 6, 14, 30, 60, 90]);
  mesh.refuses = ({ from }) => from === 'bob' && { code: 'rate_limited', retryAfterMs: 500 };
  context.mock.timers.tick(30_000);
  await settled();
  mesh.refuses = () => null;
  context.mock.timers.tick(500);
  await settled();
  assert.deepEqual(stateOf(ann), ['bob connected open']);
  assert.deepEqual(mesh.failures, []);
});

test('refusal on a newer connection is repeated after the wait', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const mesh = new Mesh();
  for (const id of ['ann', 'bob']) await mesh.enter(id);
  mesh.refuses = ({ from }) => from === 'bob' && { code: 'recipient_unavailable' };
  mesh.call('bob').publish(new FakeStream([camera]));
  await settled();
  // The page of ann is another one, so bob has another connection, whose offer is refused too.
  mesh.start('ann');
  await settled();
  mesh.refuses = () => null;
  context.mock.timers.tick(2_000);
  await settled();
  assert.deepEqual(stateOf(mesh.call('ann')), ['bob connected open']);
});

test('lost change of a connected pair is sent again on it', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  for (const id of ['ann', 'bob']) {
    const mesh = new Mesh();
    for (const other of ['ann', 'bob']) await mesh.enter(other);
    mesh.refuses = () => ({ code: 'recipient_unavailable' });
    mesh.call(id).publish(new FakeStream([camera]));
    await settled();
    mesh.refuses = () => null;
    context.mock.timers.tick(2_000);
    await settled();
    const [{ streams }] = mesh.call(id === 'ann' ? 'bob' : 'ann').peers;
    assert.deepEqual(Object.keys(streams), ['main'], id);
    assert.equal(mesh.connections, 2);
    assert.deepEqual(mesh.failures, []);
  }
});

test('failed connection restarts when the client reconnects', async () => {
  const mesh = new Mesh();
  for (const id of ['ann', 'bob']) await mesh.enter(id);
  const connection = mesh.connectionOf('bob', 'ann');
  for (let times = 0; times < 4; times += 1) connection.becomes('failed');
  assert.deepEqual(mesh.failures.map(({ id }) => id), ['ann']);
  const { restarts } = connection;
  emit(mesh.roomById.get('bob').client, 'connected', { state: 'connected' });
  assert.equal(connection.restarts, restarts + 1);
});

test('call is empty after leave and goes on after another join', async () => {
  const mesh = new Mesh();
  for (const id of ['ann', 'bob']) await mesh.enter(id);
  const connection = mesh.connectionOf('ann', 'bob');
  mesh.leave('ann', 'left');
  assert.deepEqual([mesh.call('ann').peers, connection.connectionState], [[], 'closed']);
  mesh.join('ann');
  await settled();
  assert.deepEqual(stateOf(mesh.call('ann')), ['bob connected open']);
});

test('left page has no connections until it is shown again', async (context) => {
  const listeners = new Map();
  globalThis.addEventListener = (type, listener) => listeners.set(type, listener);
  context.after(() => delete globalThis.addEventListener);
  const mesh = new Mesh();
  await mesh.enter('bob');
  const ann = await mesh.enter('ann');
  const connection = mesh.connectionOf('ann', 'bob');
  // Signals on their way are refused only after the page was left.
  mesh.refuses = () => ({ code: 'expired' });
  ann.reconnect('bob');
  await null;
  listeners.get('pagehide')({ persisted: true });
  emit(mesh.roomById.get('ann'), 'change', undefined);
  assert.deepEqual([stateOf(ann), connection.connectionState], [['bob none none'], 'closed']);
  await settled();
  mesh.refuses = () => null;
  listeners.get('pageshow')({ persisted: true });
  await settled();
  assert.deepEqual(stateOf(ann), ['bob connected open']);
});

test('closed call has no connections and listens no more', async () => {
  const mesh = new Mesh();
  for (const id of ['ann', 'bob']) await mesh.enter(id);
  mesh.call('ann').close();
  await mesh.enter('eve');
  assert.deepEqual(mesh.call('ann').peers, []);
});

test('options that are undefined have their defaults', async () => {
  const mesh = new Mesh();
  await mesh.enter('ann');
  await mesh.enter('bob', { stream: undefined, maxPeers: undefined, iceServers: undefined });
  assert.deepEqual(stateOf(mesh.call('bob')), ['ann connected open']);
});

test('wrong arguments are refused at once', () => {
  const { room } = new Mesh().member('ann');
  assert.throws(() => new Call({}, { RTCPeerConnection: FakeConnection }), TypeError);
  assert.throws(() => new Call(room), /^TypeError: RTCPeerConnection: needs a class/);
});

/** A mesh with one room. */
class Mesh {
  /** Data of the members by id. */
  memberById = new Map();
  roomById = new Map();
  callById = new Map();
  failures = [];
  holdsNews = false;
  /** Returns why a signal is refused, or null. */
  refuses = () => null;
  #heldNews = [];
  #connectionsBefore = FakeConnection.all.length;

  get connections() {
    return FakeConnection.all.length - this.#connectionsBefore;
  }

  call(id) {
    return this.callById.get(id);
  }

  async enter(id, options) {
    this.member(id);
    this.start(id, options);
    this.join(id);
    await settled();
    return this.call(id);
  }

  /** A client with its room, which it has not joined. */
  member(id) {
    const client = new Emitter();
    const signal = (to, data) => this.#signal(id, to, JSON.parse(JSON.stringify(data)));
    Object.assign(client, { clientId: id, iceServers: [], signal });
    const room = new Room(client, 'den', () => this.#membersSeenBy(id), async () => {});
    this.roomById.set(id, room);
    return { client, room };
  }

  /** A page begins its call; an earlier page of the client is gone. */
  start(id, options = {}) {
    const room = this.roomById.get(id);
    const former = this.call(id);
    if (former) former.close();
    const call = new Call(room, { RTCPeerConnection: FakeConnection, MediaStream: FakeStream, ...options });
    call.on('failure', (failure) => this.failures.push(failure));
    this.callById.set(id, call);
  }

  join(id) {
    if (!this.roomById.has(id)) this.member(id);
    this.memberById.set(id, `data of ${id}`);
    this.#tell(id, (room) => emit(room, 'change', undefined));
  }

  leave(id, reason) {
    this.memberById.delete(id);
    this.#tell(id, (room) => {
      if (room !== this.roomById.get(id)) emit(room, 'leave', { member: { id }, reason });
      emit(room, 'change', undefined);
    });
  }

  sendNews() {
    for (const send of this.#heldNews.splice(0)) send();
  }

  connectionOf(id, other) {
    return this.call(id).peers.find((peer) => peer.id === other).connection;
  }

  channelOf(id, other) {
    return this.connectionOf(id, other).channels[0];
  }

  #known = new Map();

  #tell(about, send) {
    for (const [id, room] of this.roomById) {
      const news = () => {
        this.#known.set(id, this.memberById.has(id) ? new Map(this.memberById) : null);
        send(room);
      };
      if (this.holdsNews && id !== about) this.#heldNews.push(news);
      else news();
    }
  }

  #membersSeenBy(id) {
    const known = this.#known.get(id);
    if (!known) return undefined;
    const list = [...known].filter(([other]) => other !== id).map(([other, data]) => ({ id: other, data }));
    return { state: 'member', list, member: (other) => list.find((member) => member.id === other) };
  }

  async #signal(from, to, data) {
    await null;
    const why = this.refuses({ from, to, ...data });
    if (why) throw new MeshError(why.code, why);
    const room = this.roomById.get(to);
    if (room) emit(room, '~call', { from, data });
  }
}
