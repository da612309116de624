/**
 * A client in its own process, for `node.test.js`: connects to the addresses of the arguments after
 * the name of the scenario and `global` or the path of `ws`. Prints each state with its time.
 */

import { createRequire } from 'node:module';

import { Client } from '../index.js';

const [scenario, type, ...urls] = process.argv.slice(2);
const WebSocket = type === 'global' ? globalThis.WebSocket : createRequire(import.meta.url)(type);
const client = new Client(urls, { clientId: 'node', WebSocket, logLevel: 'none', connectTimeoutMs: 1_500 });
const start = performance.now();
client.on('state', ({ state, reason }) => {
  console.log(`${state} ${Math.round(performance.now() - start)} ${reason?.message ?? ''}`);
});
const connected = client.connect();
if (scenario === 'close') setTimeout(() => client.close(), 100);
try {
  await connected;
  if (scenario === 'wrong') await wrongData();
  if (scenario === 'outage') await new Promise((resolve) => client.once('reconnecting', () => client.once('connected', resolve)));
} catch ({ code, message }) {
  console.log(`rejected ${Math.round(performance.now() - start)} ${code} ${message}`);
}
await client.close();
console.log('closed');

/** Calls each method with data that has no JSON form. Nothing may be thrown later. */
async function wrongData() {
  const room = client.room('hall');
  for (const data of [undefined, () => {}, NaN]) {
    const calls = { signal: () => client.signal('bob', data), broadcast: () => room.broadcast(data), update: () => room.update(data) };
    if (data !== undefined) calls.join = () => room.join({ data });
    for (const [method, call] of Object.entries(calls)) {
      try {
        call();
      } catch ({ name }) {
        console.log(`${method} ${String(data)} ${name}`);
      }
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 12_000));
  console.log(`alive ${Math.round(performance.now() - start)} ${client.state} ${client.stats.connects}`);
}
