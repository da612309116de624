/** The client around its core, on sockets in memory and mocked time. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Client } from './client.js';
import { FakeSocket, WELCOME } from './testing/socket.js';

const OPTIONS = { clientId: 'me', WebSocket: FakeSocket, storage: null, logLevel: 'none' };

/** Returns a client that is connecting, with mocked timers. */
function connecting(context) {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  context.mock.method(Math, 'random', () => 0);
  const client = new Client('ws://mesh.example', OPTIONS);
  client.connect();
  return client;
}

const welcome = (fields) => FakeSocket.latest.deliver({ ...WELCOME, resumed: false, ...fields });

test('request without an answer repeats on the next socket', async (context) => {
  const client = connecting(context);
  const received = [];
  client.on('signal', ({ data }) => received.push(data));
  const first = FakeSocket.latest;
  welcome({ resume: 'r1' });
  const delivered = client.signal('bob', 'hello');
  first.end(1006);
  context.mock.timers.tick(10);
  const second = FakeSocket.latest;
  assert.deepEqual(second.protocols, ['signaling.v1', 'resume.r1']);
  welcome({ resume: 'r2', resumed: true });
  second.deliver({ type: 'signal', from: 'bob', data: 1, n: 1, m: 'b-1' });
  first.deliver({ type: 'signal', from: 'bob', data: 2, n: 2, m: 'b-2' });
  const hello = '{"type":"signal","id":1,"to":"bob","data":"hello"}';
  assert.deepEqual([first.sent, second.sent], [[hello], [hello]]);
  assert.deepEqual(received, [1]);
  second.deliver({ type: 'ack', id: 1 });
  await delivered;
  client.close();
  assert.deepEqual([client.state, second.closed], ['disconnected', 1000]);
});

test('request of a listener follows repeated requests', (context) => {
  const client = connecting(context);
  const closed = [];
  const signal = (data) => closed.push(assert.rejects(client.signal('bob', data)));
  welcome({ resume: 'r1' });
  signal('hello');
  signal('again');
  FakeSocket.latest.end(1006);
  context.mock.timers.tick(10);
  client.on('connected', () => signal('back'));
  welcome({ resume: 'r2', resumed: true });
  const sent = FakeSocket.latest.sent.map((text) => JSON.parse(text).data);
  assert.deepEqual(sent, ['hello', 'again', 'back']);
  client.close();
  return Promise.all(closed);
});

test('closed client ignores events of the page', (context) => {
  const page = new EventTarget();
  for (const method of ['addEventListener', 'removeEventListener']) {
    globalThis[method] = page[method].bind(page);
    context.after(() => delete globalThis[method]);
  }
  const fire = (type, fields) => page.dispatchEvent(Object.assign(new Event(type), fields));
  const client = connecting(context);
  welcome({ resume: 'r1' });
  fire('online');
  assert.deepEqual(FakeSocket.latest.sent, ['{"type":"ping"}']);
  client.close();
  client.connect();
  fire('pagehide', { persisted: true });
  fire('pageshow', { persisted: true });
  assert.equal(client.state, 'connecting');
  client.close();
  fire('online');
  fire('pageshow', { persisted: true });
  assert.equal(client.state, 'disconnected');
});

test('client reports its latest ICE servers and node', (context) => {
  const client = connecting(context);
  assert.deepEqual([client.iceServers, client.node], [[], null]);
  const stun = [{ urls: ['stun:one.example'] }];
  const turn = [{ urls: ['turn:two.example'] }];
  welcome({ resume: 'r1', ice_servers: stun, node: 'node-0' });
  assert.deepEqual([client.iceServers, client.node], [stun, 'node-0']);
  FakeSocket.latest.deliver({ type: 'ice_servers', ice_servers: turn });
  FakeSocket.latest.deliver({ type: 'moved', node: 'node-1' });
  assert.deepEqual([client.iceServers, client.node], [turn, 'node-1']);
  client.close();
});

test('late failure of a token call does not end the next call', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const failures = [];
  const token = () => new Promise((_, fail) => failures.push(fail));
  const client = new Client('ws://mesh.example', { ...OPTIONS, token });
  const changes = [];
  client.on('state', (change) => changes.push(change));
  client.connect();
  client.close();
  client.connect();
  failures[0](new Error('late'));
  await new Promise(setImmediate);
  assert.deepEqual([failures.length, client.state], [2, 'connecting']);
  failures[1](new Error('no token'));
  await new Promise(setImmediate);
  assert.equal(changes.at(-1).reason.code, 'token_failed');
  client.close();
});

test('page without access to its storage has a client', (context) => {
  const denied = () => {
    throw new Error('the page is in a sandbox');
  };
  Object.defineProperty(globalThis, 'sessionStorage', { configurable: true, get: denied });
  context.after(() => delete globalThis.sessionStorage);
  const client = new Client('ws://mesh.example', { clientId: 'me', WebSocket: FakeSocket });
  assert.equal(client.state, 'disconnected');
});

test('platform without WebSocket is named when the client connects', (context) => {
  const { WebSocket } = globalThis;
  context.after(() => Object.assign(globalThis, { WebSocket }));
  globalThis.WebSocket = undefined;
  const client = new Client('ws://mesh.example', { clientId: 'me' });
  assert.throws(() => client.connect(), { name: 'TypeError', message: /^WebSocket: / });
  assert.equal(client.state, 'disconnected');
});
