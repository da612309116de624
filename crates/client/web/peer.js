import { Negotiation } from './core/negotiation.js';
import { MAX_RESTARTS } from './core/rules.js';
import { emit, Emitter } from './emitter.js';
import { randomId } from './random_id.js';
import { ReceivedStreams, SentTracks } from './tracks.js';

/**
 * An RTCPeerConnection that negotiates and recovers by itself, with any number of tracks by label.
 *
 * - One side makes all offers, so that offers never cross: browsers lose tracks when they roll one
 *   back. The other side requests the offers that it needs.
 * - ICE restart when the path fails.
 * - A new connection when the other side has one, as after a reload.
 *
 * The application carries the messages between the sides in order, for example by `Client.signal`.
 *
 * Events: `change` (a property may have changed) and `failure`, `{error, label?}`: no path was
 * found after three ICE restarts, a step of the negotiation failed, or a track of this label.
 *
 * @extends {Emitter<{change: void, failure: {error: Error, label?: string}}>}
 */
export class PeerConnection extends Emitter {
  /** The present connection; null once closed. @type {RTCPeerConnection | null} @readonly */
  connection = null;
  #options;
  #negotiation;
  #tracksByLabel;
  #sent;
  #received;
  /** Labels of the latest own description. */
  #sentLabels;
  #isBusy;
  /** `#need` of the last wish. */
  #asked;
  /** ICE restart: `wanted`, `sent` in a wish or offer that waits, or none. */
  #iceRestart;
  #restarts;

  /**
   * Creates a connection.
   *
   * @param {object} options
   * @param {boolean} options.offers whether this side makes all offers; true on exactly one side
   * @param {(message: object) => void} options.send carries a message to the other side's `receive`
   * @param {(connection: RTCPeerConnection) => void} [options.setUp] adds channels and listeners
   *   to each new connection
   * @param {Map<string, MediaStreamTrack[]>} [options.tracks] own tracks by label, see `publish`
   * @param {() => RTCConfiguration} [options.configuration] called for each new connection and each
   *   ICE restart
   * @param {typeof RTCPeerConnection} [options.RTCPeerConnection] the global one unless given
   * @param {typeof MediaStream} [options.MediaStream] the global one unless given
   */
  constructor(options) {
    super();
    this.#options = options;
    this.#tracksByLabel = new Map(options.tracks);
    this.#received = new ReceivedStreams(() => new (options.MediaStream ?? globalThis.MediaStream)());
    this.#negotiation = new Negotiation(options.offers, randomId);
    this.#begin();
  }

  /**
   * State of the present connection, as in RTCPeerConnection; `closed` after `close`.
   *
   * @returns {RTCPeerConnectionState}
   */
  get connectionState() {
    return this.connection?.connectionState ?? 'closed';
  }

  /**
   * Streams of the other side by label; another object after each change.
   *
   * @returns {Readonly<Record<string, MediaStream>>}
   */
  get streams() {
    return this.#received.byLabel;
  }

  /**
   * Sends these tracks in place of the label's former ones; none ends the label.
   *
   * @param {MediaStreamTrack[]} tracks
   * @param {string} label
   */
  publish(tracks, label) {
    this.#tracksByLabel.set(label, tracks);
    if (!this.connection) return;
    this.#setTracks();
    // One negotiation for all changes of this task.
    queueMicrotask(() => {
      this.#check();
      this.#step();
    });
  }

  /** Handles a message that the other side passed to `send`. Returns at once. */
  receive(message) {
    this.#negotiation.receive(message);
    this.#step();
  }

  /** Restarts ICE, for example after a network change. Up to three automatic restarts follow. */
  restart() {
    this.#restarts = 0;
    if (this.connection) this.#restartIce();
  }

  /** Sends the latest description again, after a message was lost. */
  repeat() {
    this.#negotiation.repeat();
    this.#step();
  }

  /** Replaces the connection, for example after messages were lost. Does nothing once closed. */
  startOver() {
    if (this.connection) this.#begin();
  }

  /**
   * Returns the round trip time of the path in use, in milliseconds; null while unknown.
   *
   * @returns {Promise<number | null>}
   */
  async roundTripMs() {
    const reports = (await this.connection?.getStats()) ?? [];
    for (const [, { nominated, currentRoundTripTime: seconds }] of reports) {
      if (nominated && seconds !== undefined) return seconds * 1_000;
    }
    return null;
  }

  /** Closes the connection for good, without an event. */
  close() {
    this.#negotiation.close();
    this.connection?.close();
    /** @type {import('./types.js').Writable<PeerConnection>} */ (this).connection = null;
  }

  #begin() {
    this.#negotiation.start();
    this.#isBusy = false;
    this.#step();
  }

  /** Performs steps until one takes time. */
  #step() {
    while (!this.#isBusy) {
      const step = this.#negotiation.next();
      if (!step) return;
      if (step.open) this.#open();
      else if (step.send) this.#options.send(step.send);
      else if (step.grow) {
        this.#sent.grow(step.grow);
        // A restart of this side serves both.
        if (step.grow.restart && !this.#iceRestart) this.#restartIce();
      }
      else this.#start(step);
    }
  }

  #open() {
    this.connection?.close();
    const { RTCPeerConnection = globalThis.RTCPeerConnection, setUp } = this.#options;
    const connection = new RTCPeerConnection(this.#options.configuration?.());
    /** @type {import('./types.js').Writable<PeerConnection>} */ (this).connection = connection;
    this.#sent = new SentTracks(connection);
    this.#sentLabels = '{}';
    this.#asked = '';
    this.#iceRestart = '';
    this.#restarts = 0;
    connection.onnegotiationneeded = () => {
      this.#negotiation.needed();
      this.#step();
    };
    connection.onicecandidate = ({ candidate }) => {
      if (candidate && connection === this.connection) this.#negotiation.send({ candidate });
      this.#step();
    };
    connection.onconnectionstatechange = () => {
      const state = this.connectionState;
      if (state === 'connected') this.#restarts = 0;
      if (state === 'failed') {
        if (this.#restarts++ < MAX_RESTARTS) this.#restartIce();
        else emit(this, 'failure', { error: new Error('no path to the peer') });
      }
      emit(this, 'change');
    };
    setUp?.(connection);
    this.#setTracks();
    emit(this, 'change');
  }

  async #start(step) {
    const connection = this.connection;
    this.#isBusy = true;
    let error;
    let result = null;
    try {
      result = await this.#perform(connection, step);
    } catch (caught) {
      error = caught;
    }
    // It was replaced or closed meanwhile.
    if (connection !== this.connection) return;
    this.#isBusy = false;
    this.#negotiation.end(step, result);
    if (error) emit(this, 'failure', { error });
    else this.#check();
    this.#step();
  }

  async #perform(connection, { want, description, labels, candidate, repeat }) {
    if (want) {
      this.#asked = this.#need;
      this.#iceRestart &&= 'sent';
      return { wanted: { ...this.#sent.wanted, ...(this.#iceRestart && { restart: true }) } };
    }
    if (candidate) return connection.addIceCandidate(candidate);
    if (description) {
      if (this.#iceRestart === 'sent') this.#iceRestart = '';
      await connection.setRemoteDescription(description);
      if (connection !== this.connection) return undefined;
      this.#received.set(connection, labels);
      emit(this, 'change');
      if (description.type !== 'offer') return undefined;
      this.#setTracks();
    }
    if (!repeat) await connection.setLocalDescription();
    const own = this.#sent.labels;
    this.#sentLabels = JSON.stringify(own);
    return { description: connection.localDescription, labels: own };
  }

  /** Transceivers that tracks lack at the present connection of the other side. */
  get #need() {
    return this.#negotiation.to + JSON.stringify(this.#sent.wanted);
  }

  /** Requests a negotiation that the browser does not: for transceivers, a restart, and labels. */
  #check() {
    const need = this.#need;
    const lacks = !need.endsWith('{}') && need !== this.#asked;
    const isOld = JSON.stringify(this.#sent.labels) !== this.#sentLabels;
    if (lacks || isOld || this.#iceRestart === 'wanted') this.#negotiation.needed();
  }

  #setTracks() {
    const connection = this.connection;
    this.#sent.set(this.#tracksByLabel, this.#options.offers, (error, label) => {
      if (connection === this.connection) emit(this, 'failure', { error, label });
    });
  }

  #restartIce() {
    const connection = /** @type {RTCPeerConnection} */ (this.connection);
    connection.setConfiguration(this.#options.configuration?.());
    if (this.#options.offers) {
      this.#iceRestart = 'sent';
      return connection.restartIce();
    }
    this.#iceRestart = 'wanted';
    this.#negotiation.needed();
    this.#step();
  }
}
