/**
 * Runs the classic script of a balancer with the globals that the SDK requires, and no others:
 * `node bare.mjs SCRIPT URL`. Prints what two clients and a room received.
 */

import { readFileSync } from 'node:fs';
import vm from 'node:vm';

const [script, url] = process.argv.slice(2);
const bare = { WebSocket, setTimeout, clearTimeout, queueMicrotask, console, report: console.log, url };
bare.performance = { now: () => performance.now() };
// As in React Native: it has neither setters nor `searchParams`.
bare.URL = class {
  constructor(text) {
    this.href = new URL(text).href;
  }
};
const context = vm.createContext(bare);
vm.runInContext(readFileSync(script, 'utf8'), context);
await vm.runInContext(`(async () => {
  const { Client, randomId } = SignalingMesh;
  const make = () => new Client(url, { clientId: randomId() });
  const [ann, bob] = [make(), make()];
  await Promise.all([ann.connect(), bob.connect()]);
  const rooms = [ann, bob].map((client) => client.room('bare'));
  for (const room of rooms) await room.join();
  const heard = new Promise((resolve) => bob.on('signal', ({ data }) => resolve(data)));
  const cast = new Promise((resolve) => rooms[0].on('broadcast', ({ data }) => resolve(data)));
  await ann.signal(bob.clientId, 'ü😀');
  report(await heard, await rooms[1].broadcast('€'), await cast, rooms[1].count);
  await Promise.all([ann.close(), bob.close()]);
})()`, context);
