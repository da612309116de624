/** ICE restarts without success before `failure`. */
const MAX_RESTARTS = 3;

/**
 * An RTCPeerConnection that negotiates and recovers by itself.
 *
 * - Perfect negotiation: both sides may offer at any time. When two offers cross, the polite side
 *   rolls its own back. Only the impolite side makes the first offer, and the polite side requests
 *   it: browsers recover slowly when the first offers cross.
 * - ICE restart when the path fails.
 * - A new connection when the other side has one, as after a reload.
 *
 * The application carries the messages between the sides in order, for example by `Client.signal`.
 *
 * Events: `change` (`connectionState` may have changed) and `failure`. Its `detail` is an Error: no
 * path was found after three ICE restarts, or a step of the negotiation failed.
 */
export class PeerConnection extends EventTarget {
  #options;
  #connection = null;
  /** Name of the present connection. */
  #own = null;
  /** Name of the other side's connection; null until a message has it. */
  #theirs = null;
  #isOffering = false;
  /** Whether the latest offer of the other side was ignored, and so are its candidates. */
  #isIgnoring = false;
  #restarts = 0;
  #inbox = Promise.resolve();

  /**
   * Creates a connection.
   *
   * @param {object} options
   * @param {boolean} options.polite true on exactly one side
   * @param {(message: object) => void} options.send carries a message to the other side's `receive`
   * @param {(connection: RTCPeerConnection) => void} [options.setUp] adds tracks, channels and
   *   listeners to each new connection
   * @param {RTCConfiguration} [options.configuration]
   * @param {typeof RTCPeerConnection} [options.RTCPeerConnection] the global one unless given
   */
  constructor(options) {
    super();
    const { RTCPeerConnection } = globalThis;
    this.#options = { setUp: () => {}, configuration: {}, RTCPeerConnection, ...options };
    this.#begin();
  }

  /** The present connection; null once closed. */
  get connection() {
    return this.#connection;
  }

  /** State of the present connection, as in RTCPeerConnection; `closed` after `close`. */
  get connectionState() {
    return this.#connection?.connectionState ?? 'closed';
  }

  /** Handles a message that the other side passed to `send`. */
  receive(message) {
    const handle = () => this.#handle(message);
    // Handles messages in order, because a candidate may need an earlier description.
    this.#inbox = this.#inbox.then(handle).catch((error) => this.#emit('failure', error));
  }

  /** Restarts ICE, for example after a network change. */
  restart() {
    this.#restarts = 0;
    this.#connection?.restartIce();
  }

  /** Replaces the connection, for example after messages were lost. Does nothing once closed. */
  startOver() {
    if (this.#connection !== null) this.#begin();
  }

  /** Returns the round trip time of the path in use, in milliseconds; null while unknown. */
  async roundTripMs() {
    const reports = (await this.#connection?.getStats())?.values() ?? [];
    for (const { type, nominated, currentRoundTripTime: seconds } of reports) {
      if (type === 'candidate-pair' && nominated && seconds !== undefined) return seconds * 1_000;
    }
    return null;
  }

  /** Closes the connection for good, without an event. */
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
    const offer = () => this.#offer(connection);
    connection.onnegotiationneeded = () => this.#attempt(connection, offer);
    connection.onicecandidate = ({ candidate }) => candidate && this.#send({ candidate });
    connection.onconnectionstatechange = () => this.#connectionChanged();
    setUp(connection);
    this.#emit('change');
  }

  #discard() {
    const connection = this.#connection;
    if (connection === null) return;
    connection.onnegotiationneeded = null;
    connection.onicecandidate = null;
    connection.onconnectionstatechange = null;
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
      this.#sendDescription(connection);
    } finally {
      if (connection === this.#connection) this.#isOffering = false;
    }
  }

  async #handle({ of, to, ...message }) {
    // Other messages are for an earlier connection of this side.
    const isCurrent = typeof of === 'string' && (to === null || to === this.#own);
    if (this.#connection === null || !isCurrent) return;
    if (of !== this.#theirs) {
      if (this.#theirs !== null) this.#begin();
      this.#theirs = of;
    }
    const connection = this.#connection;
    await this.#attempt(connection, () => this.#handleCurrent(connection, message));
  }

  async #handleCurrent(connection, { description, candidate, wanted }) {
    const hasOffered = this.#isOffering || connection.localDescription !== null;
    if (wanted && !this.#options.polite && !hasOffered) await this.#offer(connection);
    if (description) await this.#applyDescription(connection, description);
    if (candidate) await this.#applyCandidate(connection, candidate);
  }

  async #applyDescription(connection, description) {
    const isOffer = description.type === 'offer';
    const hasCrossed = isOffer && (this.#isOffering || connection.signalingState !== 'stable');
    this.#isIgnoring = hasCrossed && !this.#options.polite;
    const isDuplicate = !isOffer && connection.signalingState !== 'have-local-offer';
    if (this.#isIgnoring || isDuplicate) return;
    await connection.setRemoteDescription(description);
    if (!isOffer) return;
    await connection.setLocalDescription();
    this.#sendDescription(connection);
  }

  async #applyCandidate(connection, candidate) {
    try {
      await connection.addIceCandidate(candidate);
    } catch (error) {
      // Candidates of an ignored offer match no description.
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

  /** Reports an error, unless the connection was replaced or closed meanwhile. */
  async #attempt(connection, step) {
    try {
      await step();
    } catch (error) {
      if (connection === this.#connection) this.#emit('failure', error);
    }
  }

  #sendDescription(connection) {
    if (connection === this.#connection) this.#send({ description: connection.localDescription });
  }

  #send(message) {
    this.#options.send({ of: this.#own, to: this.#theirs, ...message });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
