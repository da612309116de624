import { MeshError, refuse } from './core/mesh_error.js';
import { assertJson } from './core/outgoing.js';
import { FIRST_RETRY, LAST_RETRY, MAX_BUFFERED, MAX_EARLY, MAX_PEERS } from './core/rules.js';
import { emit, Emitter } from './emitter.js';
import { listen } from './listen.js';
import { AMOUNT, checkOptions, isFunction, OF_METHODS } from './options.js';
import { PeerConnection } from './peer.js';
import { Room } from './room.js';

/** @type {import('./options.js').Rules} */
const OF_CALLS = {
  stream: [(stream) => stream === null || isFunction(stream.getTracks), 'a MediaStream or null'],
  maxPeers: AMOUNT,
  iceServers: [isFunction, 'a function'],
  RTCPeerConnection: [isFunction, 'a class', true],
  MediaStream: [isFunction, 'a class'],
};

/**
 * Direct connections to the members of a room, for up to about eight members: each sends its tracks
 * and messages to all others. CALL.md has the messages of a call.
 *
 * @template [Data=any] data that members show
 * @template [Message=any] messages by data channels
 * @extends {Emitter<import('./types.js').CallEvents<Message>>}
 */
export class Call extends Emitter {
  #room;
  #options;
  /** Own tracks; none of a label that ended. */
  #tracksByLabel = new Map();
  #memberById = new Map();
  /** `[from, message]` of senders that are not members yet. */
  #early = [];
  /** @type {readonly import('./types.js').Peer<Data>[] | null} null: to be made */
  #peers = null;
  #isShown = true;
  /** End the listeners. */
  #removers;

  /**
   * Connects to the members of the room, now or once the client joins.
   *
   * @param {Room<Data, any>} room
   * @param {import('./types.js').CallOptions} [options]
   */
  constructor(room, options = {}) {
    super();
    if (!(room instanceof Room)) refuse('room', room, 'a room of a client');
    const { RTCPeerConnection = globalThis.RTCPeerConnection } = options;
    checkOptions({ ...options, RTCPeerConnection }, OF_CALLS);
    this.#room = room;
    this.#options = options;
    if (options.stream) this.publish(options.stream);
    this.#removers = [
      /** @type {any} */ (room).on('~call', ({ from, data }) => this.#receive(from, data)),
      room.on('leave', ({ member: { id }, reason }) => reason !== 'expired' && this.#drop(id)),
      room.on('change', () => this.#follow()),
      // Paths that failed while no signals passed.
      room.client.on('connected', () => this.#memberById.forEach(({ peer }) => peer?.connectionState === 'failed' && peer.restart())),
      listen(globalThis, 'pagehide', () => this.#show(false)),
      listen(globalThis, 'pageshow', () => this.#show(true)),
    ];
    this.#follow();
  }

  /**
   * The other members, oldest first: the same frozen array until a change. A member whose seat
   * expired stays while its connection lasts.
   *
   * @returns {readonly import('./types.js').Peer<Data>[]}
   */
  get peers() {
    return (this.#peers ??= Object.freeze([...this.#memberById.values()].map(toPeer)));
  }

  /**
   * Sends the stream's present tracks to the others, in place of the label's former ones. A later
   * change of the stream needs another call.
   *
   * @param {MediaStream} stream
   * @param {string} [label] name of the stream at the others: `main`, unless given
   */
  publish(stream, label = 'main') {
    this.#setTracks(stream.getTracks(), label);
  }

  /** Ends a label. @param {string} [label] */
  unpublish(label = 'main') {
    this.#setTracks([], label);
  }

  /**
   * Sends any JSON to the members with an open data channel, or to one.
   *
   * @param {Message} data
   * @param {{to?: string}} [options] `to`: id of the one member
   * @returns {string[]} ids of the members whose channel took it. A full channel is a `failure`
   * @throws {TypeError} if `data` has no JSON form
   */
  send(data, { to } = {}) {
    assertJson(data);
    checkOptions({ to }, OF_METHODS);
    const text = JSON.stringify(data);
    const members = [...this.#memberById.values()].filter(({ id, channel }) => id === (to ?? id) && channel?.readyState === 'open');
    return members.filter((member) => this.#sendTo(member, text)).map(({ id }) => id);
  }

  /**
   * Returns the round trip time to a member, in milliseconds; null while unknown.
   *
   * @param {string} id
   * @returns {Promise<number | null>}
   */
  async roundTripMs(id) {
    return (await this.#memberById.get(id)?.peer?.roundTripMs()) ?? null;
  }

  /** Makes a new connection to a member. @param {string} id */
  reconnect(id) {
    const member = this.#memberById.get(id);
    if (member) Object.assign(member, FRESH).peer?.startOver();
  }

  /** Ends all connections for good. The client stays in the room. */
  close() {
    for (const remove of this.#removers) remove();
    this.#end();
  }

  #setTracks(tracks, label) {
    checkOptions({ label }, OF_METHODS);
    this.#tracksByLabel.set(label, tracks);
    this.#memberById.forEach(({ peer }) => peer?.publish(tracks, label));
  }

  #sendTo({ id, channel }, text) {
    try {
      if (channel.bufferedAmount > MAX_BUFFERED) throw new Error('over 1 MiB waits');
      channel.send(text);
      return true;
    } catch (/** @type {any} */ cause) {
      emit(this, 'failure', { id, error: new MeshError('channel_full', { cause }) });
    }
  }

  /** Takes the members of the room. */
  #follow() {
    if (this.#room.state === 'out') return this.#end();
    for (const { id, data } of this.#room.members) {
      const member = this.#memberById.get(id) ?? { id, ...ALONE, ...FRESH };
      member.data = data;
      this.#memberById.set(id, member);
    }
    this.#memberById.forEach((member) => this.#dropIfOver(member));
    this.#connectNext();
    this.#changed();
  }

  /** Connects to members without a connection while there are places. */
  #connectNext() {
    const alone = [...this.#memberById.values()].filter(({ peer }) => !peer);
    const places = (this.#options.maxPeers ?? MAX_PEERS) - this.#memberById.size + alone.length;
    if (this.#isShown) alone.slice(0, places).forEach((member) => this.#connect(member));
  }

  #connect(member) {
    const { client } = this.#room;
    const peer = new PeerConnection({
      ...this.#options,
      offers: client.clientId > member.id,
      tracks: this.#tracksByLabel,
      configuration: () => ({ iceServers: this.#options.iceServers?.() ?? client.iceServers, bundlePolicy: 'max-bundle' }),
      send: (message) => this.#send(member, message),
      setUp: (connection) => this.#setUp(member, connection),
    });
    member.peer = peer;
    peer.on('change', () => this.#memberChanged(member));
    peer.on('failure', (failure) => emit(this, 'failure', { id: member.id, ...failure }));
    // `receive` returns nothing, which removes the message.
    this.#early = this.#early.filter(([from, message]) => from !== member.id || peer.receive(message));
  }

  #setUp(member, connection) {
    // Both sides create the channel, so neither waits for the other's.
    const channel = connection.createDataChannel('messages', { negotiated: true, id: 0 });
    member.channel = channel;
    channel.onopen = () => {
      Object.assign(member, FRESH);
      this.#changed();
      emit(this, 'open', { id: member.id });
    };
    channel.onclose = () => {
      if (member.channel !== channel) return;
      member.isGone = true;
      this.#memberChanged(member);
    };
    channel.onmessage = ({ data }) => {
      try {
        emit(this, 'message', { from: member.id, data: JSON.parse(data) });
      } catch {
        // It is no JSON.
      }
    };
  }

  async #send(member, message) {
    if (member.isRefused) return;
    const { client, name } = this.#room;
    try {
      await client.signal(member.id, { '~call': name, ...message });
    } catch (/** @type {any} */ error) {
      if (member.peer) this.#refused(member, message, error);
    }
  }

  #refused(member, { description, wanted }, error) {
    // The same signal would be refused again.
    if (['too_large', 'forbidden', 'bad_message'].includes(error.code)) {
      member.isRefused = true;
      if (member.fault !== error.code) emit(this, 'failure', { id: member.id, error });
      member.fault = error.code;
      return;
    }
    // A connected pair needs no further candidates.
    if (!description && !wanted && isConnected(member)) return;
    const { peer, wait } = member;
    member.refused = peer.connection;
    if (member.timer !== undefined) return;
    member.wait = Math.min(2 * wait, LAST_RETRY);
    member.timer = setTimeout(() => {
      member.timer = undefined;
      if (member.refused !== peer.connection) return;
      if (isConnected(member)) peer.repeat();
      else peer.startOver();
    }, error.retryAfterMs ?? wait);
  }

  #receive(from, message) {
    const member = this.#memberById.get(from);
    if (member) {
      member.isRefused = false;
      member.peer?.receive(message);
    } else {
      this.#early = [...this.#early, [from, message]].slice(-MAX_EARLY);
    }
  }

  /** A member whose seat expired stays while its connection lasts. */
  #dropIfOver(member) {
    if (!this.#room.member(member.id) && !isConnected(member)) this.#drop(member.id);
  }

  #memberChanged(member) {
    this.#dropIfOver(member);
    this.#changed();
  }

  #drop(id) {
    const member = this.#memberById.get(id);
    if (member) disconnect(member);
    this.#memberById.delete(id);
    this.#connectNext();
  }

  /** The page is shown, or left: for good or into the browser's cache, where connections freeze. */
  #show(isShown) {
    this.#isShown = isShown;
    if (!isShown) this.#memberById.forEach(disconnect);
    this.#connectNext();
    this.#changed();
  }

  #end() {
    this.#memberById.forEach(disconnect);
    this.#memberById.clear();
    this.#early = [];
    this.#changed();
  }

  #changed() {
    this.#peers = null;
    emit(this, 'change');
  }
}

/** A member without a connection. */
const ALONE = { peer: null, channel: null, timer: undefined };
/** What is known of refused signals: nothing. */
const FRESH = { isRefused: false, isGone: false, fault: undefined, wait: FIRST_RETRY };

function disconnect(member) {
  clearTimeout(member.timer);
  member.peer?.close();
  Object.assign(member, ALONE);
}

const isConnected = ({ peer, isGone }) => peer?.connectionState === 'connected' && !isGone;

/** @returns {import('./types.js').Peer} */
function toPeer({ id, data, peer, channel, isGone }) {
  const state = peer?.connectionState ?? 'none';
  const streams = peer?.streams ?? {};
  return Object.freeze({
    id,
    data,
    state,
    channelState: channel?.readyState ?? 'none',
    stream: streams.main ?? null,
    streams,
    isAway: isGone || ['disconnected', 'failed'].includes(state),
    connection: peer?.connection ?? null,
  });
}
