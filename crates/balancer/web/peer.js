/**
 * One RTCPeerConnection with a chat channel, by perfect negotiation: either side may offer at any
 * time, and when two offers cross the polite side takes its own back.
 *
 * Events: `change` (connectionState or channelState), `text` with `{text}`, `failure` with an Error:
 * the connection cannot be made or mended.
 */

const CHANNEL = 'chat';

export class Peer extends EventTarget {
  #connection;
  #channel = null;
  #polite;
  #signal;
  #offering = false;
  #ignoring = false;
  #restarted = false;
  #inbox = Promise.resolve();

  /** @param {{polite: boolean, iceServers: RTCIceServer[], signal: (message: object) => void}} options */
  constructor({ polite, iceServers, signal }) {
    super();
    this.#polite = polite;
    this.#signal = signal;
    const connection = new RTCPeerConnection({ iceServers });
    connection.onnegotiationneeded = () => this.#attempt(() => this.#offer());
    connection.onicecandidate = ({ candidate }) => candidate && signal({ kind: 'candidate', candidate });
    connection.ondatachannel = ({ channel }) => this.#adopt(channel);
    connection.onconnectionstatechange = () => this.#connectionChanged();
    this.#connection = connection;
  }

  get connectionState() {
    return this.#connection.connectionState;
  }

  get channelState() {
    return this.#channel?.readyState ?? 'none';
  }

  /** The caller's first step; all else follows from it. */
  openChannel() {
    this.#adopt(this.#connection.createDataChannel(CHANNEL));
  }

  /** Takes a `description` or `candidate` signal. One after the other: a candidate may need the description before it. */
  receive(message) {
    this.#inbox = this.#inbox.then(() => this.#attempt(() => this.#take(message)));
  }

  /** Sends over the open channel. */
  sendText(text) {
    this.#channel.send(text);
  }

  /** Milliseconds to the peer and back by the path in use, or null while unknown. */
  async roundTripMs() {
    for (const report of (await this.#connection.getStats()).values()) {
      if (report.type === 'candidate-pair' && report.nominated && report.currentRoundTripTime !== undefined) {
        return report.currentRoundTripTime * 1_000;
      }
    }
    return null;
  }

  close() {
    const connection = this.#connection;
    connection.onnegotiationneeded = connection.onicecandidate = null;
    connection.ondatachannel = connection.onconnectionstatechange = null;
    connection.close();
  }

  async #offer() {
    this.#offering = true;
    try {
      await this.#connection.setLocalDescription();
      this.#signal({ kind: 'description', description: this.#connection.localDescription });
    } finally {
      this.#offering = false;
    }
  }

  #take(message) {
    if (message.kind === 'description') return this.#takeDescription(message.description);
    if (message.kind === 'candidate') return this.#takeCandidate(message.candidate);
  }

  async #takeDescription(description) {
    const connection = this.#connection;
    const isOffer = description.type === 'offer';
    const crossed = isOffer && (this.#offering || connection.signalingState !== 'stable');
    this.#ignoring = crossed && !this.#polite;
    // An answer that we no longer wait for is a repeat.
    if (this.#ignoring || (!isOffer && connection.signalingState !== 'have-local-offer')) return;

    await connection.setRemoteDescription(description);
    if (!isOffer) return;
    await connection.setLocalDescription();
    this.#signal({ kind: 'description', description: connection.localDescription });
  }

  async #takeCandidate(candidate) {
    try {
      await this.#connection.addIceCandidate(candidate);
    } catch (error) {
      // Candidates of an offer that we ignored fit nothing.
      if (!this.#ignoring) throw error;
    }
  }

  #adopt(channel) {
    this.#channel = channel;
    channel.onopen = channel.onclosing = channel.onclose = () => this.#emit('change');
    channel.onmessage = ({ data }) => {
      if (typeof data === 'string') this.#emit('text', { text: data });
    };
    this.#emit('change');
  }

  #connectionChanged() {
    const state = this.connectionState;
    if (state === 'connected') this.#restarted = false;
    if (state === 'failed' && !this.#restarted) {
      this.#restarted = true;
      this.#connection.restartIce();
    } else if (state === 'failed') {
      this.#emit('failure', new Error('no direct path between the two browsers was found'));
    }
    this.#emit('change');
  }

  async #attempt(step) {
    try {
      await step();
    } catch (error) {
      if (this.#connection.signalingState !== 'closed') this.#emit('failure', error);
    }
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
