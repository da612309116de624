/**
 * Two PeerConnections on RTCPeerConnections in memory, with a wire between them. `firm` is the side
 * that makes all offers.
 */

import assert from 'node:assert/strict';
import test from 'node:test';

import { PeerConnection } from './peer.js';
import { FakeConnection, FakeStream, FakeTrack, settled } from './testing/rtc.js';

test('two sides need one offer when they begin together', async () => {
  const { asking, firm } = pair();
  await settled();
  assert.deepEqual([asking.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.deepEqual(types(sent), ['offer', 'answer']);
});

test('candidates of both sides arrive after their descriptions', async () => {
  const { asking, firm } = pair();
  await settled();
  assert.ok(asking.connection.candidates.length > 0 && firm.connection.candidates.length > 0);
  assert.deepEqual(failures, []);
});

test('both sides send the tracks that they publish later', async () => {
  const { asking, firm } = pair();
  await settled();
  const camera = new FakeTrack('video'), screen = new FakeTrack('video'), sound = new FakeTrack('audio');
  asking.publish([camera, sound], 'main');
  firm.publish([screen], 'screen');
  await settled();
  assert.deepEqual(kinds(firm), { main: ['audio', 'video'] });
  assert.deepEqual(kinds(asking), { screen: ['video'] });
  assert.equal(firm.connection.getTransceivers().length, 2, 'both directions share a transceiver');
  assert.deepEqual(failures, []);
});

test('side without offers sends all tracks in its first answers', async () => {
  const tracks = new Map([['main', [new FakeTrack('video'), new FakeTrack('video')]]]);
  const { asking, firm } = pair({ asking: { tracks } });
  await settled();
  assert.deepEqual(kinds(firm), { main: ['video', 'video'] });
  assert.ok(types(sent).length <= 6, String(types(sent)));
  assert.deepEqual(Object.keys(asking.streams), []);
});

test('track that is twice in a label is sent twice by each side', async () => {
  for (const side of ['asking', 'firm']) {
    const track = new FakeTrack('video');
    const sides = pair({ [side]: { tracks: new Map([['main', [track, track]]]) } });
    await settled();
    const sending = sides[side].connection.getTransceivers().filter(({ sender }) => sender.track === track);
    const other = side === 'firm' ? sides.asking : sides.firm;
    assert.deepEqual([sending.length, kinds(other)], [2, { main: ['video', 'video'] }], side);
  }
});

test('replaced track needs no negotiation', async () => {
  for (const side of ['asking', 'firm']) {
    const sides = pair();
    await settled();
    sides[side].publish([new FakeTrack('video')], 'main');
    await settled();
    const before = sent.length;
    const other = new FakeTrack('video');
    sides[side].publish([other], 'main');
    await settled();
    assert.equal(sent.length, before, side);
    assert.equal(sides[side].connection.getTransceivers()[0].sender.track, other);
  }
});

test('toggles of a track add no transceiver', async () => {
  for (const side of ['asking', 'firm']) {
    const sides = pair();
    const [camera, sound] = [new FakeTrack('video'), new FakeTrack('audio')];
    await settled();
    for (let times = 0; times < 20; times += 1) {
      sides[side].publish(times % 2 ? [camera] : [camera, sound], 'main');
      if (times % 3) await settled();
    }
    await settled();
    const other = side === 'firm' ? sides.asking : sides.firm;
    assert.deepEqual(kinds(other), { main: ['video'] });
    assert.equal(sides[side].connection.getTransceivers().length, 2, side);
  }
});

test('stream of a label is the same object until the label ends', async () => {
  const { asking, firm } = pair();
  const [camera, sound, screen] = ['video', 'audio', 'video'].map((kind) => new FakeTrack(kind));
  firm.publish([camera], 'main');
  await settled();
  const { main } = asking.streams;
  firm.publish([camera, sound], 'main');
  firm.publish([screen], 'screen');
  await settled();
  assert.equal(asking.streams.main, main);
  assert.equal(main.getTracks().length, 2);
  firm.publish([], 'main');
  await settled();
  assert.deepEqual(kinds(asking), { screen: ['video'] });
  firm.publish([camera], 'main');
  await settled();
  assert.notEqual(asking.streams.main, main);
});

test('other label takes a transceiver only once its label ended', async () => {
  const { asking, firm } = pair();
  const [one, other] = [new FakeTrack('video'), new FakeTrack('video')];
  await settled();
  firm.publish([one], 'one');
  await settled();
  firm.publish([], 'one');
  firm.publish([other], 'other');
  await settled();
  assert.equal(firm.connection.getTransceivers().length, 2);
  firm.publish([], 'other');
  await settled();
  firm.publish([one], 'third');
  await settled();
  assert.equal(firm.connection.getTransceivers().length, 2);
  assert.deepEqual(kinds(asking), { third: ['video'] });
});

test('track that cannot be replaced is a failure of its label', async () => {
  const { asking } = pair();
  await settled();
  asking.publish([new FakeTrack('video')], 'main');
  await settled();
  asking.publish([Object.assign(new FakeTrack('video'), { isBroken: true })], 'main');
  await settled();
  assert.deepEqual(failures.map(({ label, error }) => [label, error.message]), [['main', 'broken track']]);
});

test('ICE restarts three times before it reports a failure', async () => {
  const { firm } = pair();
  await settled();
  for (let times = 1; times <= 4; times += 1) firm.connection.becomes('failed');
  assert.equal(firm.connection.restarts, 3);
  assert.match(failures[0].error.message, /no path/);
  firm.restart();
  await settled();
  assert.deepEqual([firm.connection.restarts, firm.connectionState], [4, 'connected']);
  firm.connection.becomes('failed');
  assert.equal(firm.connection.restarts, 5);
});

test('side without offers requests an ICE restart', async () => {
  const { asking, firm } = pair();
  await settled();
  asking.connection.becomes('failed');
  await settled();
  assert.equal(firm.connection.restarts, 1);
  assert.equal(JSON.parse(asking.connection.remoteDescription.sdp).ice, 2);
});

test('ICE restart is not lost while other changes are negotiated', async () => {
  for (const changing of ['asking', 'firm']) {
    for (let delay = 0; delay < 30; delay += 1) {
      const sides = pair();
      await settled();
      sides[changing].publish([new FakeTrack('video')], 'main');
      for (let turn = 0; turn < delay; turn += 1) await null;
      sides.asking.connection.becomes('failed');
      await settled();
      const { remoteDescription } = sides.asking.connection;
      assert.equal(JSON.parse(remoteDescription.sdp).ice, 2, `${changing} ${delay}`);
      assert.deepEqual(kinds(changing === 'firm' ? sides.asking : sides.firm), { main: ['video'] });
    }
  }
});

test('repeated wish has the ICE restart of the lost one', async () => {
  const { asking, firm } = pair();
  await settled();
  const { receive } = firm;
  firm.receive = () => {};
  asking.restart();
  await settled();
  firm.receive = receive;
  asking.repeat();
  await settled();
  assert.deepEqual([firm.connection.restarts, failures], [1, []]);
});

test('ICE restarts once when both sides fail', async () => {
  for (const order of [['asking', 'firm'], ['firm', 'asking']]) {
    const sides = pair();
    await settled();
    for (const side of order) sides[side].connection.becomes('failed');
    await settled();
    assert.equal(sides.firm.connection.restarts, 1, String(order));
  }
});

test('new connections and ICE restarts use the present servers', async () => {
  let urls = 'turn:first';
  const configuration = () => ({ iceServers: [{ urls }] });
  const { asking, firm } = pair({ asking: { configuration }, firm: { configuration } });
  await settled();
  urls = 'turn:second';
  for (const peer of [asking, firm]) {
    assert.equal(peer.connection.configuration.iceServers[0].urls, 'turn:first');
    peer.connection.becomes('failed');
    assert.equal(peer.connection.configuration.iceServers[0].urls, 'turn:second');
  }
  urls = 'turn:third';
  asking.startOver();
  assert.equal(asking.connection.configuration.iceServers[0].urls, 'turn:third');
});

test('connection is replaced when the other side has a new one', async () => {
  const { asking, firm, wire } = pair();
  firm.publish([new FakeTrack('video')], 'main');
  await settled();
  const [left, stays] = [asking.connection, firm.connection];
  asking.close();
  const again = side('asking', (message) => wire(firm, message));
  wire.asking = again;
  await settled();
  assert.deepEqual([again.connectionState, firm.connectionState], ['connected', 'connected']);
  assert.notEqual(firm.connection, stays);
  assert.deepEqual([left.signalingState, stays.signalingState], ['closed', 'closed']);
  assert.deepEqual(kinds(again), { main: ['video'] });
  assert.deepEqual(failures, []);
});

test('message for an earlier connection is ignored', async () => {
  const { asking, firm } = pair();
  await settled();
  const stale = sent.filter(({ to }) => to !== null);
  asking.startOver();
  await settled();
  const { connection } = firm;
  for (const message of stale) firm.receive(message);
  await settled();
  assert.equal(firm.connection, connection);
  assert.equal(firm.connectionState, 'connected');
  assert.deepEqual(failures, []);
});

test('invalid message is a failure at most and the next one works', async () => {
  const { asking } = pair();
  await settled();
  const { of, to } = sent.findLast((message) => message.by === 'firm');
  asking.receive({ of, to, description: { type: 'offer', sdp: '{}' } });
  for (const odd of [null, 7, {}, { of: 7 }, { of, to, labels: 'x' }, { of, to, wanted: { audio: 1e9 } }]) asking.receive(odd);
  await settled();
  assert.equal(failures.length, 1);
  const before = asking.connection.candidates.length;
  asking.receive({ of, to, candidate: asking.connection.candidates[0] });
  await settled();
  assert.deepEqual([failures.length, asking.connection.candidates.length], [1, before + 1]);
});

test('side negotiates further after a description that it refused', async () => {
  for (const by of ['asking', 'firm']) {
    const sides = pair();
    await settled();
    const { connection } = sides[by];
    const { setRemoteDescription } = connection;
    connection.setRemoteDescription = async () => {
      connection.setRemoteDescription = setRemoteDescription;
      // A browser keeps its own offer then, which the next one replaces.
      connection.signalingState = 'stable';
      throw new Error('refused');
    };
    const { of, to } = sent.findLast((message) => message.by !== by);
    if (by === 'asking') sides.asking.receive({ of, to, description: { type: 'offer', sdp: '{}' } });
    else sides.firm.publish([new FakeTrack('audio')], 'sound');
    await settled();
    assert.deepEqual(failures.map(({ error }) => error.message), ['refused']);
    sides[by].publish([new FakeTrack('video')], 'main');
    await settled();
    assert.deepEqual(kinds(by === 'firm' ? sides.asking : sides.firm).main, ['video'], by);
  }
});

test('closed connection sends and receives nothing', async () => {
  const { asking, firm } = pair();
  await settled();
  const before = sent.length;
  asking.close();
  asking.receive(sent[0]);
  asking.restart();
  asking.repeat();
  asking.startOver();
  asking.publish([new FakeTrack('video')], 'main');
  await settled();
  assert.deepEqual([asking.connectionState, asking.connection, sent.length], ['closed', null, before]);
  assert.deepEqual(failures, []);
  assert.equal(await asking.roundTripMs(), null);
  assert.equal(await firm.roundTripMs(), 12);
});

let sent, failures;

const types = (messages) =>
  messages.filter(({ description }) => description).map(({ description }) => description.type);

/** Kinds of the tracks that a side receives, by label. */
const kinds = ({ streams }) =>
  Object.fromEntries(Object.entries(streams).map(([label, stream]) => [label, stream.getTracks().map(({ kind }) => kind).sort()]));

/** Returns two sides, connected by a wire that carries JSON. Empties `sent` and `failures`. */
function pair({ asking: askingOptions, firm: firmOptions } = {}) {
  [sent, failures] = [[], []];
  const wire = (to, message) => {
    const copy = JSON.parse(JSON.stringify(message));
    queueMicrotask(() => to.receive(copy));
  };
  let firm;
  wire.asking = side('asking', (message) => queueMicrotask(() => wire(firm, message)), askingOptions);
  firm = side('firm', (message) => wire(wire.asking, message), firmOptions);
  return { asking: wire.asking, firm, wire };
}

function side(by, send, options = {}) {
  const peer = new PeerConnection({
    offers: by === 'firm',
    RTCPeerConnection: FakeConnection,
    MediaStream: FakeStream,
    setUp: (connection) => connection.createDataChannel('talk', { negotiated: true, id: 0 }),
    send: (message) => {
      sent.push({ ...message, by });
      send(message);
    },
    ...options,
  });
  peer.on('failure', (failure) => failures.push(failure));
  return peer;
}
