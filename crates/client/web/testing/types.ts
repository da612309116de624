/** Uses of the package's types, for `.ci/package`. Those with an expected error must fail. */

import { Call, Client, MeshError, PeerConnection, Room, randomId } from 'signaling-mesh';

interface Person {
  name: string;
}

// Right uses.
const client = new Client<{ hello: number }>(['wss://a.example', 'wss://b.example'], { clientId: randomId() });
const other = new Client('https://mesh.example', {
  clientId: 'me',
  token: async () => ({ token: 'jwt', validMs: 60_000 }),
  logLevel: 'none',
});
const room = client.room<Person, string>('standup');
const remove: () => void = client.on('state', ({ state, reason }) => {
  if (state === 'reconnecting' && reason) console.log(reason.code, reason.closeCode);
});
client.on('signal', ({ from, data }) => console.log(from.length, data.hello.toFixed()));
room.on('leave', ({ member, reason }) => console.log(member.data.name, reason));
room.join({ data: { name: 'Ann' }, queue: false, signal: new AbortController().signal }).catch((error: MeshError) => error.retryAfterMs);
const reached: Promise<number> = room.broadcast('hello');
const names: string[] = room.members.map(({ data }) => data.name);
const rooms: Room[] = [other.room('hall')];
const call = new Call<Person, { text: string }>(room, { stream: null, maxPeers: 4 });
call.on('message', ({ from, data }) => console.log(from, data.text));
call.on('failure', ({ id, label, error }) => console.log(id, label, error.message));
const screens: (MediaStream | undefined)[] = call.peers.map(({ streams }) => streams['screen']);
const took: string[] = call.send({ text: 'hi' }, { to: 'bob' });
const peer = new PeerConnection({ offers: true, send: () => {}, configuration: () => ({ iceServers: [] }) });

// Wrong uses.
// @ts-expect-error: the options are missing
new Client('wss://a.example');
// @ts-expect-error: no client id
new Client('wss://a.example', {});
// @ts-expect-error: unknown option
new Client('wss://a.example', { clientId: 'me', urls: [] });
// @ts-expect-error: wrong data of a signal
client.signal('bob', { hello: 'one' });
// @ts-expect-error: unknown event
client.on('conected', () => {});
// @ts-expect-error: wrong data of a member
room.update({ title: 'Dr' });
// @ts-expect-error: wrong data of a broadcast
room.broadcast(7);
// @ts-expect-error: the list is frozen
room.members.push({ id: 'bob', data: { name: 'Bob' } });
// @ts-expect-error: no such state
room.state === 'in';
// @ts-expect-error: a function is no event
client.emit('signal');
// @ts-expect-error: wrong message
call.send({ txt: 'hi' });
// @ts-expect-error: a client is no room
new Call(client);
// @ts-expect-error: the property is read-only
call.peers[0].isAway = true;
// @ts-expect-error: the property is read-only
client.state = 'connected';
// @ts-expect-error: the property is read-only
client.iceServers = [];
// @ts-expect-error: the property is read-only
client.node = null;
// @ts-expect-error: the property is read-only
room.revision = 0;
// @ts-expect-error: the property is read-only
peer.connection = null;
// @ts-expect-error: it is unknown which side offers
new PeerConnection({ send: () => {} });

remove();
void [reached, names, rooms, screens, took, peer];
