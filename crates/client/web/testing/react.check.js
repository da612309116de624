/** `useRoom` in StrictMode, which mounts twice. `.ci/package` runs it with React. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { StrictMode, act, createElement } from 'react';
import { create } from 'react-test-renderer';

import { Client } from '../index.js';
import { useRoom } from '../react.js';
import { FakeSocket, WELCOME } from './socket.js';

globalThis.IS_REACT_ACT_ENVIRONMENT = true;

/** A server with one room, which answers each request in a later task. */
class Server extends FakeSocket {
  static isMember = false;
  static joins = 0;
  static refuses = false;
  #answers = Promise.resolve();

  constructor(...args) {
    super(...args);
    const resumed = this.protocols.includes('resume.r');
    setImmediate(() => this.deliver({ ...WELCOME, resume: 'r', resumed }));
  }

  send(text) {
    super.send(text);
    this.#answers = this.#answers.then(() => new Promise(setImmediate)).then(() => this.#answer(JSON.parse(text)));
  }

  #answer({ type, id, room }) {
    if (Server.refuses) return this.deliver({ type: 'error', code: 'overloaded', message: 'no', id, room });
    Server.isMember = type === 'join';
    Server.joins += type === 'join' ? 1 : 0;
    const members = [{ client_id: 'bob' }];
    if (type === 'leave') this.deliver({ type: 'left', room, reason: 'left' });
    else this.deliver({ type: 'joined', room, version: Server.joins, capacity: null, count: 2, members, more: false });
    this.deliver({ type: 'ack', id });
  }
}

const OPTIONS = { clientId: 'me', WebSocket: Server, logLevel: 'none' };

const settled = async () => {
  for (let turn = 0; turn < 200; turn += 1) await new Promise(setImmediate);
};

test('component that mounts often ends as a member', async () => {
  const client = new Client('ws://mesh.example', { ...OPTIONS, storage: null });
  const rejections = [];
  process.on('unhandledRejection', (error) => rejections.push(error));
  let renders = 0;
  const Room = ({ name }) => {
    renders += 1;
    const room = useRoom(client, 'hall', { data: { name } });
    return `${room.state} ${room.members.map(({ id }) => id)}`;
  };
  const view = (name) => createElement(StrictMode, null, name && createElement(Room, { name }));
  let root;
  // The room is used before its client connects.
  await act(async () => (root = create(view('Ann'))));
  client.connect();
  await act(settled);
  assert.equal(root.toJSON(), 'member bob');
  for (let times = 0; times < 20; times += 1) {
    await act(async () => root.update(view()));
    await act(async () => root.update(view('Ann')));
  }
  await act(settled);
  assert.deepEqual([root.toJSON(), Server.isMember], ['member bob', true]);
  const { sent } = FakeSocket.latest;
  await act(async () => root.update(view('Bea')));
  assert.deepEqual(JSON.parse(sent.at(-1)).data, { name: 'Bea' });
  assert.ok(renders > 40);
  await act(async () => root.unmount());
  await act(settled);
  assert.deepEqual([Server.isMember, rejections], [false, []]);
  await client.close();
});

/** Returns a client that is closed after the test. */
function clientOf(context, storage = null) {
  const client = new Client('ws://mesh.example', { ...OPTIONS, storage });
  context.after(() => client.close());
  return client;
}

/** Returns a component that is in the room of the client, and shows its property `data`. */
const memberOf = (client) => (props) => useRoom(client, 'hall', props).state;

const joins = () => FakeSocket.latest.sent.map((text) => JSON.parse(text)).filter(({ type }) => type === 'join');

test('component without its former data shows them still', async (context) => {
  const client = clientOf(context);
  client.connect();
  const Room = memberOf(client);
  let root;
  await act(async () => (root = create(createElement(Room, { data: 1 }))));
  await act(settled);
  await act(async () => root.update(createElement(Room, {})));
  await act(settled);
  assert.deepEqual([root.toJSON(), joins().map(({ data }) => data)], ['member', [1]]);
  await act(async () => root.unmount());
});

test('room of a saved session gets the data of the new page', async (context) => {
  const texts = new Map();
  const storage = {
    getItem: (key) => texts.get(key) ?? null,
    setItem: (key, text) => texts.set(key, text),
    removeItem: (key) => texts.delete(key),
  };
  const former = clientOf(context, storage);
  former.connect();
  former.room('hall').join({ data: 'old' }).catch(() => {});
  await settled();
  former.detach();
  for (const isEarly of [true, false]) {
    const client = clientOf(context, storage);
    const data = isEarly ? 'early' : 'late';
    let root;
    if (!isEarly) client.connect();
    await act(async () => (root = create(createElement(memberOf(client), { data }))));
    if (isEarly) client.connect();
    await act(settled);
    assert.deepEqual(joins().map(({ data }) => data), [data]);
    client.detach();
    await act(async () => root.unmount());
  }
});

test('refused join is repeated once the client is connected again', async (context) => {
  const client = clientOf(context);
  client.connect();
  Server.refuses = true;
  let root;
  await act(async () => (root = create(createElement(memberOf(client), { data: 1 }))));
  await act(settled);
  assert.equal(root.toJSON(), 'out');
  Server.refuses = false;
  FakeSocket.latest.end(1006);
  client.connect();
  await act(settled);
  assert.equal(root.toJSON(), 'member');
  await act(async () => root.unmount());
});
