/**
 * RTCPeerConnections that reach each other in memory, with the states and errors of the real ones as far as negotiation
 * meets them: rollback by a crossing offer, candidates that need a description, one round for all that is to be negotiated.
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
  #senders = []; #isNeeded = false; #hasRolledBack = false; #hasNegotiated = false; #fingerprint = `fp-${(fingerprints += 1)}`; #ice = 1;

  constructor(configuration) {
    super();
    this.configuration = configuration;
    FakeConnection.all.push(this);
  }

  createDataChannel(label, options) {
    const channel = { label, options, readyState: 'connecting', sent: [], send: (text) => channel.sent.push(text) };
    this.channels.push(channel);
    if (!this.#hasNegotiated) this.#need();
    return channel;
  }

  getSenders() {
    return this.#senders;
  }

  addTrack(track) {
    this.#senders.push({ track, replaceTrack: async function (other) { this.track = other; } });
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
    if (description.type === 'answer' && this.signalingState !== 'have-local-offer') throw new Error('InvalidStateError');
    const [fingerprint] = description.sdp.split(' ');
    const known = this.remoteDescription?.sdp.split(' ')[0] ?? fingerprint;
    if (known !== fingerprint) throw new Error('another fingerprint on the same connection');
    // An offer that had crossed is taken back, and is to be made again.
    if (description.type === 'offer' && this.signalingState === 'have-local-offer') this.#hasRolledBack = true;
    this.remoteDescription = description;
    this.signalingState = description.type === 'offer' ? 'have-remote-offer' : 'stable';
    if (description.type === 'answer') this.#settle();
  }

  async addIceCandidate(candidate) {
    await null;
    this.#assertOpen();
    const fits = this.remoteDescription?.sdp.startsWith(candidate.candidate.split(' ').at(-1));
    if (!fits) throw new Error('a candidate of no description');
    this.candidates.push(candidate);
  }

  close() {
    this.signalingState = 'closed';
    this.connectionState = 'closed';
    for (const channel of this.channels) channel.readyState = 'closed';
  }

  /** What the network does to it. */
  becomes(state) {
    this.connectionState = state;
    this.onconnectionstatechange?.();
  }

  /** Candidates are found once the description is set. */
  async #gather() {
    for (let turn = 0; turn < 5; turn += 1) await null;
    this.onicecandidate?.({ candidate: { candidate: `candidate of ${this.#fingerprint}` } });
    this.onicecandidate?.({ candidate: null });
  }

  #settle() {
    this.becomes('connected');
    for (const channel of this.channels.filter(({ readyState }) => readyState === 'connecting')) {
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

/** Lets everything happen that is under way. */
export async function settled() {
  for (let turn = 0; turn < 200; turn += 1) await null;
}
