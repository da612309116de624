/** A chat in a room, by a terminal: node room.mjs NAME [ROOM] [URL] */

import { createInterface } from 'node:readline';
// In a project of yours: from 'signaling-mesh'.
import { Client } from '../crates/client/web/client.js';

const [name, room = 'lobby', url = 'ws://127.0.0.1:8080/v1/connect'] = process.argv.slice(2);
if (!name) throw new Error('usage: node room.mjs NAME [ROOM] [URL]');
const client = new Client({ urls: [url], clientId: name });
const show = (text) => console.log(`-- ${text}`);

client.addEventListener('state', ({ detail }) => show(detail.state));
client.addEventListener('joined', ({ detail }) => {
  show(`in ${room}: ${detail.members.map((member) => member.client_id).join(', ')}`);
});
client.addEventListener('waiting', ({ detail }) => {
  show(`${room} is full, ${detail.ahead} of ${detail.queue_length} are ahead`);
});
client.addEventListener('members_changed', ({ detail }) => {
  for (const { client_id } of detail.joined) show(`${client_id} joined`);
  for (const { client_id, reason } of detail.left) show(`${client_id} left (${reason})`);
});
client.addEventListener('broadcast', ({ detail }) => console.log(`${detail.from}: ${detail.data}`));

client.connect();
await client.join(room);
for await (const line of createInterface({ input: process.stdin })) {
  try {
    const { members } = await client.broadcast(room, line);
    show(`sent to ${members}`);
  } catch (error) {
    show(`not sent: ${error.message}`);
  }
}
await client.leave(room);
client.close();
