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
  #answers = Promise.resolve();

  constructor(...args) {
    super(...args);
    setImmediate(() => this.deliver({ ...WELCOME, resume: 'r', resumed: false }));
  }

  send(text) {
    super.send(text);
    this.#answers = this.#answers.then(() => new Promise(setImmediate)).then(() => this.#answer(JSON.parse(text)));
  }

  #answer({ type, id, room }) {
    Server.isMember = type === 'join';
    Server.joins += type === 'join' ? 1 : 0;
    const members = [{ client_id: 'bob' }];
    if (type === 'leave') this.deliver({ type: 'left', room, reason: 'left' });
    else this.deliver({ type: 'joined', room, version: Server.joins, capacity: null, count: 2, members, more: false });
    this.deliver({ type: 'ack', id });
  }
}

const settled = async () => {
  for (let turn = 0; turn < 200; turn += 1) await new Promise(setImmediate);
};

test('component that mounts often ends as a member', async () => {
  const client = new Client('ws://mesh.example', { clientId: 'me', WebSocket: Server, storage: null });
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
