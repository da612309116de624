/** A chat in a room, by a terminal: node room.mjs NAME [ROOM] [URL] */

import { createInterface } from 'node:readline';
// In a project of yours: from 'signaling-mesh'.
import { Client } from '../crates/client/web/index.js';

const [name, roomName = 'lobby', url = 'ws://127.0.0.1:8080'] = process.argv.slice(2);
if (!name) throw new Error('usage: node room.mjs NAME [ROOM] [URL]');
const client = new Client(url, { clientId: name });
const room = client.room(roomName);
const show = (text) => console.log(`-- ${text}`);

client.on('state', ({ state }) => show(state));
room.on('state', ({ state }) => {
  if (state === 'waiting') show(`${roomName} is full, ${room.queuePlace.ahead} are ahead`);
});
room.on('leave', ({ member, reason }) => show(`${member.id} left (${reason})`));
room.on('broadcast', ({ from, data }) => console.log(`${from}: ${data}`));

await client.connect();
await room.join();
show(`in ${roomName}: ${[...room.members.map(({ id }) => id), name].join(', ')}`);
room.on('join', ({ id }) => show(`${id} joined`));
for await (const line of createInterface({ input: process.stdin })) {
  try {
    show(`sent to ${await room.broadcast(line)}`);
  } catch (error) {
    show(`not sent: ${error.message}`);
  }
}
await room.leave();
await client.close();
