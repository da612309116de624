/** The constructor of a client checks its arguments. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { Client } from './client.js';
import { checkUrls } from './options.js';

const WRONG = {
  clientId: [undefined, '', 'Ann Smith', '~ann', 7, 'x'.repeat(129)],
  token: [null, 7, { token: 'jwt' }],
  queue: [-1, '10', NaN],
  queueBytes: [-1, null],
  timeoutMs: ['1s', Infinity],
  connectTimeoutMs: [NaN],
  storage: [{}, 'sessionStorage'],
  WebSocket: [{}, 'ws'],
  logLevel: ['trace', 3],
  logger: [{ warn() {} }, null],
};

test('wrong option is a TypeError with its name and value', () => {
  for (const [option, values] of Object.entries(WRONG)) {
    for (const value of values) {
      const make = () => new Client('wss://mesh.example', { clientId: 'me', [option]: value });
      const shown = typeof value === 'string' ? `"${value}"` : String(value);
      const isNamed = ({ name, message }) =>
        name === 'TypeError' && message.startsWith(`${option}: `) && message.includes(shown);
      assert.throws(make, isNamed, `${option} ${shown}`);
    }
  }
  assert.throws(() => new Client('wss://mesh.example'), { name: 'TypeError', message: /^clientId: / });
});

test('wrong address is a TypeError with its name and value', () => {
  const wrong = ['127.0.0.1:44031', 'mesh.example', 'ftp://a', '', undefined, {}, [], 'ws://', 'ws://a b'];
  const cases = [...wrong.map((url) => [url, url]), [[''], ''], [[undefined], undefined], [['wss://a', 'b'], 'b']];
  for (const [url, value] of cases) {
    const make = () => new Client(url, { clientId: 'me' });
    const shown = typeof value === 'string' ? `"${value}"` : String(value);
    assert.throws(make, { name: 'TypeError', message: `url: needs a ws(s) or http(s) URL, not ${shown}` });
  }
});

test('address gets the scheme of WebSockets and the default path', () => {
  const forms = [
    ['wss://mesh.example', 'wss://mesh.example/v1/connect'],
    ['https://mesh.example/', 'wss://mesh.example/v1/connect'],
    ['http://127.0.0.1:8080', 'ws://127.0.0.1:8080/v1/connect'],
    ['WS://Mesh.example/a/b?c=d#e', 'ws://mesh.example/a/b?c=d'],
    ['ws://[::1]:80/v1/connect', 'ws://[::1]/v1/connect'],
  ];
  for (const [url, expected] of forms) assert.deepEqual(checkUrls(url), [expected]);
  assert.equal(checkUrls(['ws://a', 'ws://b']).length, 2);
});
