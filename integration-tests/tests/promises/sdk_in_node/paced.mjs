/**
 * Sends 2,000 signals in a loop at the default rate: `node paced.mjs MODULE URL`. Prints how many
 * were refused, whether all arrived in order, and the time in seconds.
 */

import { pathToFileURL } from 'node:url';

const [module, url] = process.argv.slice(2);
const { Client } = await import(pathToFileURL(module));
const [ann, bob] = ['ann', 'bob'].map((clientId) => new Client(url, { clientId }));
await Promise.all([ann.connect(), bob.connect()]);
const received = [];
bob.on('signal', ({ data }) => received.push(data));
const start = performance.now();
const sent = Array.from({ length: 2_000 }, (_, number) => ann.signal('bob', number));
const refused = (await Promise.allSettled(sent)).filter(({ status }) => status === 'rejected');
const seconds = Math.floor((performance.now() - start) / 1_000);
const inOrder = received.length === sent.length && received.every((number, at) => number === at);
console.log(refused.length, inOrder, seconds);
await Promise.all([ann.close(), bob.close()]);
