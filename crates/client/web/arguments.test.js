/** Wrong options and data are TypeErrors at the call, and have no later effect. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Call } from './call.js';
import { Client } from './client.js';
import { run, serve } from './testing/process.js';
import { FakeConnection, FakeStream } from './testing/rtc.js';
import { FakeSocket } from './testing/socket.js';

const OPTIONS = { clientId: 'me', WebSocket: FakeSocket, storage: null, logLevel: 'none' };
const NO_NUMBERS = [-1, '10', NaN, Infinity, null];
const NO_FUNCTIONS = [{}, 'f', 7, null];
const NO_TEXTS = [7, null, {}];
/** Wrong values of an option, by call. */
const WRONG = {
  connect: { signal: [{}, 'abort', null, new AbortController()] },
  signal: { signal: [{}, null], ttlMs: NO_NUMBERS },
  join: { signal: [{}, null], queue: ['no', 0, null], data: [NaN, () => {}] },
  broadcast: { signal: [{}, null] },
  call: {
    stream: [{}, 'camera', 7],
    maxPeers: NO_NUMBERS,
    iceServers: [[], ...NO_FUNCTIONS],
    RTCPeerConnection: NO_FUNCTIONS,
    MediaStream: NO_FUNCTIONS,
  },
  send: { to: NO_TEXTS },
  publish: { label: NO_TEXTS },
  unpublish: { label: NO_TEXTS },
};

function methodsOf(client) {
  const room = client.room('hall');
  const call = new Call(room, { RTCPeerConnection: FakeConnection, MediaStream: FakeStream });
  return {
    connect: (options) => client.connect(options),
    signal: (options) => client.signal('bob', 1, options),
    join: (options) => room.join(options),
    broadcast: (options) => room.broadcast(1, options),
    call: (options) => new Call(room, { RTCPeerConnection: FakeConnection, ...options }),
    send: (options) => call.send(1, options),
    publish: ({ label }) => call.publish(new FakeStream(), label),
    unpublish: ({ label }) => call.unpublish(label),
  };
}

const isNamed = (option) => ({ name, message }) => name === 'TypeError' && message.startsWith(`${option}: needs `);

test('wrong option of a method is a TypeError with its name', (context) => {
  const client = new Client('ws://mesh.example', OPTIONS);
  context.after(() => client.close());
  client.connect();
  const { queued } = client.stats;
  const methods = methodsOf(client);
  for (const [method, options] of Object.entries(WRONG)) {
    for (const [option, values] of Object.entries(options)) {
      for (const value of values) {
        assert.throws(() => methods[method]({ [option]: value }), isNamed(option), `${method} ${option} ${String(value)}`);
      }
    }
  }
  assert.deepEqual([client.stats.queued, client.room('hall').state], [queued, 'out']);
});

test('missing argument is a TypeError', (context) => {
  const client = new Client('ws://mesh.example', OPTIONS);
  context.after(() => client.close());
  client.connect();
  const room = client.room('hall');
  const call = new Call(room, { RTCPeerConnection: FakeConnection });
  const missing = [
    () => new Client(),
    () => new Client('ws://mesh.example'),
    () => new Client('ws://mesh.example', {}),
    () => client.signal('bob'),
    () => room.update(),
    () => room.broadcast(),
    () => new Call(),
    () => call.publish(),
    () => call.send(),
    () => client.on('state'),
    () => client.once('state'),
  ];
  for (const action of missing) assert.throws(action, TypeError, String(action));
});

test('option that is undefined is absent', (context) => {
  const client = new Client('ws://mesh.example', OPTIONS);
  context.after(() => client.close());
  const methods = methodsOf(client);
  for (const [method, options] of Object.entries(WRONG)) {
    for (const option of Object.keys(options)) {
      const result = methods[method]({ [option]: undefined, RTCPeerConnection: FakeConnection });
      result?.catch?.(() => {});
    }
  }
});

test('process outlives data without a JSON form', { timeout: 30_000 }, async () => {
  const mesh = await serve(true);
  const lines = await run('global', 'wrong', [`ws://127.0.0.1:${mesh.port}`]);
  mesh.stop();
  const errors = lines.filter((line) => line.endsWith(' TypeError'));
  assert.equal(errors.length, 11, lines.join('\n'));
  assert.ok(lines.some((line) => /^alive 1[2-9]\d\d\d connected 1$/.test(line)), lines.join('\n'));
});
