/**
 * Two PeerConnections on RTCPeerConnections in memory, with a wire between them. `firm` is the
 * impolite side of the perfect negotiation.
 */

import assert from 'node:assert/strict';
import test from 'node:test';

import { PeerConnection } from './peer.js';
import { FakeConnection, settled } from './testing/rtc.js';

test('two sides need one offer when they begin together', async () => {
  const { polite, firm } = pair();
  await settled();
  assert.deepEqual([polite.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(types(sent), ['offer', 'answer']);
});

test('impolite side without tracks offers when it is requested', async () => {
  const { polite, firm } = pair({ firm: () => {} });
  await settled();
  assert.deepEqual([polite.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(failures, []);
});

test('both changes are negotiated when two offers cross', async () => {
  const { polite, firm } = pair();
  await settled();
  const before = sent.length;
  for (const { connection } of [polite, firm]) connection.addTrack({ kind: 'video' });
  await settled();
  const offers = sent.slice(before).filter(({ description }) => description?.type === 'offer');
  const isPolite = offers.map((offer) => offer.isPolite).sort();
  assert.deepEqual(isPolite, [false, true, true], 'the polite side repeats its offer');
  assert.deepEqual([polite.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(failures, []);
  assert.equal(polite.connection.remoteDescription.sdp, firm.connection.localDescription.sdp);
});

test('candidates of both sides arrive', async () => {
  const { polite, firm } = pair();
  await settled();
  assert.ok(polite.connection.candidates.length > 0 && firm.connection.candidates.length > 0);
  assert.deepEqual(failures, []);
});

test('side that adds a track later offers it', async () => {
  for (const side of ['polite', 'firm']) {
    const sides = pair();
    await settled();
    const before = sent.length;
    sides[side].connection.addTrack({ kind: 'video' });
    await settled();
    assert.deepEqual(types(sent.slice(before)), ['offer', 'answer'], side);
  }
});

test('ICE restarts three times before it reports a failure', async () => {
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

test('connection is replaced when the other side has a new one', async () => {
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

test('message for an earlier connection is ignored', async () => {
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

test('invalid description is a failure and the next message works', async () => {
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

test('closed connection sends and receives nothing', async () => {
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

const types = (messages) =>
  messages.filter(({ description }) => description).map(({ description }) => description.type);

/**
 * Returns two sides, connected by a wire that carries JSON. Empties `sent` and `failures`. The
 * option `firm` replaces the impolite side's `setUp`, which creates a data channel.
 */
function pair({ firm: setUpFirm } = {}) {
  [sent, failures] = [[], []];
  const wire = (to, message) => {
    const copy = JSON.parse(JSON.stringify(message));
    queueMicrotask(() => to.receive(copy));
  };
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
