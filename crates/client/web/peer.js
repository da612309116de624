/**
 * An RTCPeerConnection that negotiates by itself and mends itself: perfect negotiation (either side may offer at any time,
 * and when two offers cross the polite side takes its own back), ICE restart when the path fails, and a fresh connection when
 * the other side has started over, as after a reload. The first offer is always the firm side's, the polite side asks for it:
 * browsers are slow to recover when the very first offers cross.
 *
 * It needs somebody to carry its messages, in order: `Client.signal` does. It knows nothing of rooms; see `room.js`.
 */

/** ICE restarts in a row that may lead to nothing before `failure`. */
const MAX_RESTARTS = 3;

/**
 * Events: `change` (`connectionState` may be another), `failure` (`detail`: an Error; no path is found, or a description makes
 * no sense; `restart` tries again).
 */
export class PeerConnection extends EventTarget {
  #options; #connection = null;
  /** Name of our present connection, and of the other side's, null until it was heard of. */
  #own = null; #theirs = null;
  #isOffering = false; #isIgnoring = false; #restarts = 0; #inbox = Promise.resolve();

  /**
   * @param {{polite: boolean, send: (message: object) => void, setUp?: (connection: RTCPeerConnection) => void,
   *   configuration?: RTCConfiguration, RTCPeerConnection?: typeof RTCPeerConnection}} options
   *   `polite`: true on exactly one of the two sides; `send`: carries a message to the other side's `receive`; `setUp`: adds
   *   tracks, channels and listeners to a connection that was just made, the first or a later one
   */
  constructor(options) {
    super();
    this.#options = { setUp: () => {}, configuration: {}, RTCPeerConnection: globalThis.RTCPeerConnection, ...options };
    this.#begin();
  }

  /** The present RTCPeerConnection; null once closed. */
  get connection() {
    return this.#connection;
  }

  get connectionState() {
    return this.#connection?.connectionState ?? 'closed';
  }

  /** Takes what the other side's `send` was given. One after the other: a candidate may need the description before it. */
  receive(message) {
    this.#inbox = this.#inbox.then(() => this.#take(message)).catch((error) => this.#emit('failure', error));
  }

  /** Looks for a path anew: the network may be another. */
  restart() {
    this.#restarts = 0;
    this.#connection?.restartIce();
  }

  /** Leaves the connection for a fresh one: for when what was sent may not have arrived. */
  startOver() {
    if (this.#connection !== null) this.#begin();
  }

  /** Milliseconds to the peer and back by the path in use, or null while unknown. */
  async roundTripMs() {
    for (const report of (await this.#connection?.getStats())?.values() ?? []) {
      const isUsed = report.type === 'candidate-pair' && report.nominated && report.currentRoundTripTime !== undefined;
      if (isUsed) return report.currentRoundTripTime * 1_000;
    }
    return null;
  }

  close() {
    this.#discard();
    this.#connection = null;
  }

  #begin() {
    this.#discard();
    const { configuration, setUp, RTCPeerConnection } = this.#options;
    const connection = new RTCPeerConnection(configuration);
    this.#connection = connection;
    this.#own = crypto.randomUUID();
    this.#theirs = null;
    this.#isOffering = this.#isIgnoring = false;
    this.#restarts = 0;
    connection.onnegotiationneeded = () => this.#attempt(connection, () => this.#offer(connection));
    connection.onicecandidate = ({ candidate }) => candidate && this.#send({ candidate });
    connection.onconnectionstatechange = () => this.#connectionChanged();
    setUp(connection);
    this.#emit('change');
  }

  #discard() {
    const connection = this.#connection;
    if (connection === null) return;
    connection.onnegotiationneeded = connection.onicecandidate = connection.onconnectionstatechange = null;
    connection.close();
  }

  async #offer(connection) {
    if (this.#options.polite && connection.remoteDescription === null) {
      this.#send({ wanted: true });
      return;
    }
    this.#isOffering = true;
    try {
      await connection.setLocalDescription();
      if (connection === this.#connection) this.#send({ description: connection.localDescription });
    } finally {
      if (connection === this.#connection) this.#isOffering = false;
    }
  }

  async #take({ of, to, description, candidate, wanted }) {
    // Meant for a connection that we have left.
    if (this.#connection === null || typeof of !== 'string' || (to !== null && to !== this.#own)) return;
    if (of !== this.#theirs) {
      if (this.#theirs !== null) this.#begin();
      this.#theirs = of;
    }
    const connection = this.#connection;
    const hasOffered = this.#isOffering || connection.localDescription !== null;
    if (wanted && !this.#options.polite && !hasOffered) await this.#attempt(connection, () => this.#offer(connection));
    if (description) await this.#attempt(connection, () => this.#takeDescription(connection, description));
    if (candidate) await this.#attempt(connection, () => this.#takeCandidate(connection, candidate));
  }

  async #takeDescription(connection, description) {
    const isOffer = description.type === 'offer';
    const hasCrossed = isOffer && (this.#isOffering || connection.signalingState !== 'stable');
    this.#isIgnoring = hasCrossed && !this.#options.polite;
    // An answer that we no longer wait for is a repeat.
    if (this.#isIgnoring || (!isOffer && connection.signalingState !== 'have-local-offer')) return;
    await connection.setRemoteDescription(description);
    if (!isOffer) return;
    await connection.setLocalDescription();
    if (connection === this.#connection) this.#send({ description: connection.localDescription });
  }

  async #takeCandidate(connection, candidate) {
    try {
      await connection.addIceCandidate(candidate);
    } catch (error) {
      // Candidates of an offer that we ignored fit nothing.
      if (!this.#isIgnoring) throw error;
    }
  }

  #connectionChanged() {
    const state = this.connectionState;
    if (state === 'connected') this.#restarts = 0;
    if (state === 'failed') {
      if (this.#restarts < MAX_RESTARTS) this.#connection.restartIce();
      else this.#emit('failure', new Error('no path to the other side was found'));
      this.#restarts += 1;
    }
    this.#emit('change');
  }

  /** What goes wrong with a connection that was closed or left meanwhile concerns nobody. */
  async #attempt(connection, step) {
    try {
      await step();
    } catch (error) {
      if (connection === this.#connection) this.#emit('failure', error);
    }
  }

  #send(message) {
    this.#options.send({ of: this.#own, to: this.#theirs, ...message });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
