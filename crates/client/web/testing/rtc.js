/**
 * RTCPeerConnections in memory, with the states and errors of negotiation: transceivers and their
 * directions, candidates that need a description, and one round for all pending changes. An offer
 * that crosses another one is an error, because calls have none.
 */

let fingerprints = 0;

export class FakeTrack {
  constructor(kind, label = kind) {
    Object.assign(this, { kind, label });
  }
}

export class FakeStream {
  #tracks;

  constructor(tracks = []) {
    this.#tracks = new Set(tracks);
  }

  getTracks() {
    return [...this.#tracks];
  }

  addTrack(track) {
    this.#tracks.add(track);
  }

  removeTrack(track) {
    this.#tracks.delete(track);
  }
}

class FakeTransceiver {
  mid = null;
  currentDirection = null;
  #direction;
  #need;

  constructor(kind, track, direction, need) {
    this.#direction = direction;
    this.#need = need;
    this.receiver = { track: new FakeTrack(kind, `received ${kind}`) };
    // As in browsers, the track is another one only later.
    const replaceTrack = async (other) => {
      await null;
      if (other instanceof FakeTrack && other.isBroken) throw new Error('broken track');
      this.sender.track = other;
    };
    this.sender = { track, replaceTrack };
  }

  get kind() {
    return this.receiver.track.kind;
  }

  get direction() {
    return this.#direction;
  }

  set direction(direction) {
    if (this.#direction === direction) return;
    this.#direction = direction;
    this.#need();
  }
}

const sends = (direction) => direction.startsWith('send');
const receives = (direction) => direction.endsWith('recv') || direction === 'recvonly';
const directionOf = (isSending, isReceiving) => {
  if (isSending) return isReceiving ? 'sendrecv' : 'sendonly';
  return isReceiving ? 'recvonly' : 'inactive';
};
/** Direction of a section, seen by the other side, within what this side allows. */
const common = (theirs, own) =>
  directionOf(receives(theirs) && sends(own), sends(theirs) && receives(own));

export class FakeConnection {
  static all = [];
  signalingState = 'stable';
  connectionState = 'new';
  localDescription = null;
  remoteDescription = null;
  candidates = [];
  channels = [];
  restarts = 0;
  /** Offers and answers that this connection made. */
  made = [];
  #transceivers = [];
  #isNeeded = false;
  /** A local description is being set, so `negotiationneeded` waits. */
  #isBusy = false;
  #hasNegotiated = false;
  #fingerprint;
  #ice = 1;

  constructor(configuration) {
    this.configuration = configuration;
    fingerprints += 1;
    this.#fingerprint = `fp-${fingerprints}`;
    FakeConnection.all.push(this);
  }

  setConfiguration(configuration) {
    this.configuration = configuration;
  }

  createDataChannel(label, options) {
    const channel = { label, options, readyState: 'connecting', bufferedAmount: 0, sent: [] };
    channel.send = (text) => channel.sent.push(text);
    this.channels.push(channel);
    if (!this.#hasNegotiated) this.#need();
    return channel;
  }

  getTransceivers() {
    return [...this.#transceivers];
  }

  addTransceiver(trackOrKind, { direction = 'sendrecv' } = {}) {
    const track = typeof trackOrKind === 'string' ? null : trackOrKind;
    const need = () => this.#need();
    const transceiver = new FakeTransceiver(track?.kind ?? trackOrKind, track, direction, need);
    this.#transceivers.push(transceiver);
    this.#need();
    return transceiver;
  }

  restartIce() {
    this.restarts += 1;
    this.#ice += 1;
    this.#need();
  }

  async getStats() {
    return new Map([['pair', { type: 'candidate-pair', nominated: true, currentRoundTripTime: 0.012 }]]);
  }

  async setLocalDescription() {
    this.#isBusy = true;
    await null;
    this.#isBusy = false;
    this.#assertOpen();
    const isAnswer = this.signalingState === 'have-remote-offer';
    if (!isAnswer && this.signalingState !== 'stable') throw new Error('InvalidStateError: offer in an offer');
    const sections = isAnswer ? this.#answered() : this.#offered();
    const sdp = JSON.stringify({ fingerprint: this.#fingerprint, ice: this.#ice, sections });
    this.localDescription = { type: isAnswer ? 'answer' : 'offer', sdp };
    this.made.push(this.localDescription.type);
    this.signalingState = isAnswer ? 'stable' : 'have-local-offer';
    this.#isNeeded = false;
    this.#hasNegotiated = true;
    this.#gather();
    if (isAnswer) this.#settle();
  }

  #offered() {
    const next = () => this.#transceivers.filter(({ mid }) => mid !== null).length + 1;
    for (const transceiver of this.#transceivers) transceiver.mid ??= String(next());
    return this.#transceivers.map(({ mid, kind, direction }) => ({ mid, kind, direction }));
  }

  #answered() {
    const { sections } = JSON.parse(this.remoteDescription.sdp);
    return sections.map(({ mid, kind, direction: theirs }) => {
      const transceiver = this.#transceivers.find((one) => one.mid === mid);
      const direction = common(theirs, transceiver.direction);
      transceiver.currentDirection = direction;
      return { mid, kind, direction };
    });
  }

  async setRemoteDescription(description) {
    await null;
    this.#assertOpen();
    const isAnswer = description.type === 'answer';
    const expected = isAnswer ? 'have-local-offer' : 'stable';
    if (this.signalingState !== expected) throw new Error(`InvalidStateError: ${description.type} in ${this.signalingState}`);
    const { fingerprint, sections } = JSON.parse(description.sdp);
    const known = this.remoteDescription && JSON.parse(this.remoteDescription.sdp).fingerprint;
    if (known && known !== fingerprint) throw new Error('another fingerprint on the same connection');
    this.remoteDescription = description;
    for (const section of sections) this.#take(section, isAnswer);
    this.signalingState = isAnswer ? 'stable' : 'have-remote-offer';
    if (isAnswer) this.#settle();
  }

  #take({ mid, kind, direction }, isAnswer) {
    let transceiver = this.#transceivers.find((one) => one.mid === mid);
    if (!transceiver) {
      transceiver = new FakeTransceiver(kind, null, 'recvonly', () => this.#need());
      transceiver.mid = mid;
      this.#transceivers.push(transceiver);
    }
    if (isAnswer) transceiver.currentDirection = common(direction, 'sendrecv');
  }

  async addIceCandidate(candidate) {
    await null;
    this.#assertOpen();
    const { fingerprint } = JSON.parse(this.remoteDescription.sdp);
    if (!candidate.candidate.endsWith(fingerprint)) throw new Error('no description fits the candidate');
    this.candidates.push(candidate);
  }

  close() {
    this.signalingState = 'closed';
    this.connectionState = 'closed';
    for (const channel of this.channels) channel.readyState = 'closed';
  }

  /** Changes the state, as the network does. */
  becomes(state) {
    this.connectionState = state;
    this.onconnectionstatechange?.();
  }

  /** The other side closes the channels with its connection. */
  loseChannels() {
    for (const channel of this.channels) {
      channel.readyState = 'closed';
      channel.onclose?.();
    }
  }

  /** Reports candidates some time after the description is set. */
  async #gather() {
    for (let turn = 0; turn < 5; turn += 1) await null;
    // A closed connection fires no events.
    if (this.signalingState === 'closed') return;
    this.onicecandidate?.({ candidate: { candidate: `candidate of ${this.#fingerprint}` } });
    this.onicecandidate?.({ candidate: null });
  }

  #settle() {
    if (this.connectionState !== 'connected') this.becomes('connected');
    const opening = this.channels.filter(({ readyState }) => readyState === 'connecting');
    for (const channel of opening) {
      channel.readyState = 'open';
      channel.onopen?.();
    }
    if (this.#isNeeded) this.#need();
  }

  #need() {
    this.#isNeeded = true;
    queueMicrotask(() => {
      if (this.#isNeeded && !this.#isBusy && this.signalingState === 'stable') this.onnegotiationneeded?.();
    });
  }

  #assertOpen() {
    if (this.signalingState === 'closed') throw new Error('InvalidStateError: closed');
  }
}

/** Resolves once all pending microtasks have run. */
export async function settled() {
  for (let turn = 0; turn < 400; turn += 1) await null;
}
