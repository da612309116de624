/** Two PeerConnections over a wire that may be slow, and RTCPeerConnections in memory. */

import assert from 'node:assert/strict';
import test from 'node:test';

import { PeerConnection } from './peer.js';
import { FakeConnection, settled } from './testing/rtc.js';

test('two sides that begin at the same time need one offer and one answer', async () => {
  const { polite, firm } = pair();
  await settled();
  assert.deepEqual([polite.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(sent.filter(({ description }) => description).map(({ description }) => description.type), ['offer', 'answer']);
});

test('a side that has nothing to offer does so when the other wants it', async () => {
  const { polite, firm } = pair({ firm: () => {} });
  await settled();
  assert.deepEqual([polite.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(failures, []);
});

test('two sides that offer at the same time agree, and what both have is negotiated', async () => {
  const { polite, firm } = pair();
  await settled();
  const before = sent.length;
  for (const { connection } of [polite, firm]) connection.addTrack({ kind: 'video' });
  await settled();
  const offers = sent.slice(before).filter(({ description }) => description?.type === 'offer');
  assert.deepEqual(offers.map(({ isPolite }) => isPolite).sort(), [false, true, true], 'the polite side makes its own again');
  assert.deepEqual([polite.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(failures, []);
  assert.equal(polite.connection.remoteDescription.sdp, firm.connection.localDescription.sdp);
});

test('candidates of an offer that was ignored are no failure, all others arrive', async () => {
  const { polite, firm } = pair();
  await settled();
  assert.ok(polite.connection.candidates.length > 0 && firm.connection.candidates.length > 0);
  assert.deepEqual(failures, []);
});

test('what is added later is negotiated by whoever has it', async () => {
  for (const side of ['polite', 'firm']) {
    const sides = pair();
    await settled();
    const before = sent.length;
    sides[side].connection.addTrack({ kind: 'video' });
    await settled();
    const news = sent.slice(before).filter(({ description }) => description).map(({ description }) => description.type);
    assert.deepEqual(news, ['offer', 'answer'], side);
  }
});

test('a path that fails is looked for anew, so often and no oftener until it is found', async () => {
  const { polite } = pair();
  await settled();
  for (let times = 1; times <= 4; times += 1) polite.connection.becomes('failed');
  assert.equal(polite.connection.restarts, 3);
  assert.match(failures[0].message, /no path/);
  polite.restart();
  await settled();
  assert.deepEqual([polite.connection.restarts, polite.connectionState], [4, 'connected']);
  polite.connection.becomes('failed');
  assert.equal(polite.connection.restarts, 5);
});

test('a side that has started over is met with a fresh connection', async () => {
  const { polite, firm, wire } = pair();
  await settled();
  const [left, stays] = [polite.connection, firm.connection];
  polite.close();
  const again = side(true, (message) => wire(firm, message));
  wire.polite = again;
  await settled();
  assert.deepEqual([again.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.notEqual(firm.connection, stays);
  assert.deepEqual([left.signalingState, stays.signalingState], ['closed', 'closed']);
  assert.deepEqual(failures, []);
});

test('what was meant for an earlier connection is passed over', async () => {
  const { polite, firm } = pair();
  await settled();
  const stale = sent.filter(({ to }) => to !== null);
  polite.startOver();
  await settled();
  const { connection } = firm;
  for (const message of stale) firm.receive(message);
  await settled();
  assert.equal(firm.connection, connection);
  assert.equal(firm.connectionState, 'connected');
  assert.deepEqual(failures, []);
});

test('a description that makes no sense is a failure, and what comes behind it is heard', async () => {
  const { polite } = pair();
  await settled();
  const { of, to } = sent.findLast((message) => message.isPolite === false);
  polite.receive({ of, to, description: { type: 'offer', sdp: 'of-nobody ice-1' } });
  await settled();
  assert.equal(failures.length, 1);
  const before = polite.connection.candidates.length;
  polite.receive({ of, to, candidate: polite.connection.candidates[0] });
  await settled();
  assert.deepEqual([failures.length, polite.connection.candidates.length], [1, before + 1]);
});

test('a closed connection says nothing and hears nothing', async () => {
  const { polite, firm } = pair();
  await settled();
  const before = sent.length;
  polite.close();
  polite.receive(sent[0]);
  polite.restart();
  polite.startOver();
  await settled();
  assert.deepEqual([polite.connectionState, polite.connection, sent.length], ['closed', null, before]);
  assert.equal(await polite.roundTripMs(), null);
  assert.equal(await firm.roundTripMs(), 12);
});

let sent, failures;

/** Two sides, connected by a wire that carries JSON. */
function pair({ firm: setUpFirm } = {}) {
  [sent, failures] = [[], []];
  const wire = (to, message) => queueMicrotask(() => to.receive(JSON.parse(JSON.stringify(message))));
  wire.polite = side(true, (message) => wire(firm, message));
  const polite = wire.polite;
  const firm = side(false, (message) => wire(wire.polite, message), setUpFirm);
  return { polite, firm, wire };
}

const talk = (connection) => connection.createDataChannel('talk', { negotiated: true, id: 0 });

function side(polite, send, setUp = talk) {
  const peer = new PeerConnection({
    polite,
    RTCPeerConnection: FakeConnection,
    setUp,
    send: (message) => {
      sent.push({ ...message, isPolite: polite });
      send(message);
    },
  });
  peer.addEventListener('failure', ({ detail }) => failures.push(detail));
  return peer;
}
