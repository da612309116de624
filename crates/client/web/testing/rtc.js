/**
 * RTCPeerConnections in memory, with the states and errors of negotiation: rollback by a crossing
 * offer, candidates that need a description, and one round for all pending changes.
 */

let fingerprints = 0;

export class FakeConnection extends EventTarget {
  static all = [];
  signalingState = 'stable';
  connectionState = 'new';
  localDescription = null;
  remoteDescription = null;
  candidates = [];
  channels = [];
  restarts = 0;
  #senders = [];
  #isNeeded = false;
  #hasRolledBack = false;
  #hasNegotiated = false;
  #fingerprint;
  #ice = 1;

  constructor(configuration) {
    super();
    this.configuration = configuration;
    fingerprints += 1;
    this.#fingerprint = `fp-${fingerprints}`;
    FakeConnection.all.push(this);
  }

  createDataChannel(label, options) {
    const channel = { label, options, readyState: 'connecting', sent: [] };
    channel.send = (text) => channel.sent.push(text);
    this.channels.push(channel);
    if (!this.#hasNegotiated) this.#need();
    return channel;
  }

  getSenders() {
    return this.#senders;
  }

  addTrack(track) {
    const sender = { track, replaceTrack: async (other) => (sender.track = other) };
    this.#senders.push(sender);
    this.#need();
  }

  removeTrack(sender) {
    sender.track = null;
    this.#need();
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
    await null;
    this.#assertOpen();
    const type = this.signalingState === 'have-remote-offer' ? 'answer' : 'offer';
    this.localDescription = { type, sdp: `${this.#fingerprint} ice-${this.#ice}` };
    this.signalingState = type === 'answer' ? 'stable' : 'have-local-offer';
    this.#isNeeded = type === 'answer' && this.#hasRolledBack;
    this.#hasRolledBack = false;
    this.#hasNegotiated = true;
    this.#gather();
    if (type === 'answer') this.#settle();
  }

  async setRemoteDescription(description) {
    await null;
    this.#assertOpen();
    const isAnswer = description.type === 'answer';
    const hasOffered = this.signalingState === 'have-local-offer';
    if (isAnswer && !hasOffered) throw new Error('InvalidStateError');
    const [fingerprint] = description.sdp.split(' ');
    const known = this.remoteDescription?.sdp.split(' ')[0] ?? fingerprint;
    if (known !== fingerprint) throw new Error('another fingerprint on the same connection');
    // A crossing offer is rolled back and made again later.
    if (!isAnswer && hasOffered) this.#hasRolledBack = true;
    this.remoteDescription = description;
    this.signalingState = isAnswer ? 'stable' : 'have-remote-offer';
    if (isAnswer) this.#settle();
  }

  async addIceCandidate(candidate) {
    await null;
    this.#assertOpen();
    const fits = this.remoteDescription?.sdp.startsWith(candidate.candidate.split(' ').at(-1));
    if (!fits) throw new Error('no description fits the candidate');
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

  /** Reports candidates some time after the description is set. */
  async #gather() {
    for (let turn = 0; turn < 5; turn += 1) await null;
    this.onicecandidate?.({ candidate: { candidate: `candidate of ${this.#fingerprint}` } });
    this.onicecandidate?.({ candidate: null });
  }

  #settle() {
    this.becomes('connected');
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
      if (this.#isNeeded && this.signalingState === 'stable') this.onnegotiationneeded?.();
    });
  }

  #assertOpen() {
    if (this.signalingState === 'closed') throw new Error('InvalidStateError: closed');
  }
}

/** Resolves once all pending microtasks have run. */
export async function settled() {
  for (let turn = 0; turn < 200; turn += 1) await null;
}
