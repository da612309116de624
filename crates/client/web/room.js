import { PeerConnection } from './peer.js';

/** Maximum members with a direct connection. */
const MAX_PEERS = 8;
/**
 * Maximum signals kept per sender that is not a member yet, and maximum senders with kept signals;
 * further signals are dropped. Signals can overtake `members_changed`.
 */
const MAX_EARLY = 64;
/** Time from a signal that was not delivered to a new connection, in milliseconds. */
const RETRY_AFTER = 2_000;
/** Both sides create the channel, so neither waits for the other's. */
const CHANNEL = { negotiated: true, id: 0 };

/**
 * A room whose members are directly connected to each other, for up to about eight members: each
 * sends its tracks and messages to all others. It follows the member list and keeps a
 * `PeerConnection` with a data channel to each other member.
 *
 * | event | `detail` |
 * |---|---|
 * | `change` | none; a property of the room or of a member may have changed |
 * | `open` | `{id}`; the data channel to this member is open |
 * | `message` | `{from, data}`; a message by data channel |
 * | `failure` | `{id, error}`; a connection failed, or, with `id` null, a track was not replaced |
 */
export class Room extends EventTarget {
  /** Name of the room. */
  name;
  /** `out` (also after the client was closed), `joining`, `waiting` (in the queue) or `in`. */
  state = 'out';
  /** Place in the waiting queue: `{ahead, length}`, both in clients. Null outside of it. */
  queuePlace = null;
  /** Maximum members; null for no limit or while unknown. */
  capacity = null;
  #client;
  #options;
  #stream;
  /** Version of the member list. */
  #version = 0;
  #memberById = new Map();
  /** Signals of senders that are not members yet. */
  #earlyById = new Map();
  /** Its abort ends the listeners on the client. */
  #stop = new AbortController();
  /** Last member of the page before the requested one; undefined if none is requested. */
  #after;
  /** Ids of the members on the pages so far, and of later members. */
  #listed = new Set();

  /**
   * @param {import('./client.js').Client} client
   * @param {string} name
   * @param {object} [options]
   * @param {unknown} [options.data] shown to the other members, at most 4 KiB as JSON
   * @param {MediaStream | null} [options.stream] its tracks are sent to the other members
   * @param {() => RTCIceServer[]} [options.iceServers] called for each new connection; the client's
   *   latest ones unless given
   * @param {number} [options.maxPeers] maximum members with a direct connection: 8; further ones
   *   are only listed until a place is free. A connection needs a place on both sides
   * @param {typeof RTCPeerConnection} [options.RTCPeerConnection] the global one unless given
   */
  constructor(client, name, options = {}) {
    super();
    const { RTCPeerConnection } = globalThis;
    this.#client = client;
    this.name = name;
    this.#options = { maxPeers: MAX_PEERS, RTCPeerConnection, ...options };
    this.#stream = options.stream ?? null;
  }

  /**
   * The other members, oldest first: `{id, data, state, channelState, stream, hasLeft}`. The states
   * are those of the direct connection and of its data channel, or `none`. `hasLeft`: the member's
   * seat expired, and the direct connection lasts.
   */
  get members() {
    return [...this.#memberById.values()].map(({ peer, channel, ...member }) => ({
      id: member.id,
      data: member.data,
      state: peer?.connectionState ?? 'none',
      channelState: channel?.readyState ?? 'none',
      stream: member.stream,
      hasLeft: member.hasLeft,
    }));
  }

  /** Joins the room or its waiting queue, and resolves then. Rejects as `Client.join` does. */
  async join() {
    this.#followClient();
    this.#setState('joining');
    try {
      await this.#client.join(this.name, this.#options.data);
    } catch (error) {
      if (this.state === 'joining') this.#leave();
      throw error;
    }
  }

  /** Closes all direct connections, and leaves. Rejects as `Client.leave` does. */
  async leave() {
    this.#leave();
    await this.#client.leave(this.name);
  }

  /**
   * Sends any JSON to all members with an open data channel, or to one. Returns their number.
   *
   * @param {unknown} data
   * @param {string} [to] id of the one member
   */
  send(data, to) {
    const text = JSON.stringify(data);
    const members = to === undefined ? [...this.#memberById.values()] : [this.#memberById.get(to)];
    const open = members.filter((member) => member?.channel?.readyState === 'open');
    for (const { channel } of open) channel.send(text);
    return open.length;
  }

  /** Replaces the stream that the other members get; null for none. */
  setStream(stream) {
    this.#stream = stream;
    for (const { peer } of this.#memberById.values()) {
      if (peer?.connection) this.#sendTracks(peer.connection);
    }
  }

  /** Returns the round trip time to a member, in ms; null while unknown or not connected. */
  async roundTripMs(id) {
    return (await this.#memberById.get(id)?.peer?.roundTripMs()) ?? null;
  }

  #followClient() {
    this.#stop.abort();
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const on = (type, handle) =>
      this.#client.addEventListener(type, ({ detail }) => handle(detail), { signal });
    const onRoom = (type, handle) =>
      on(type, (detail) => detail.room === this.name && handle(detail));
    onRoom('joined', (detail) => this.#joined(detail));
    onRoom('members_changed', (detail) => this.#membersChanged(detail));
    onRoom('waiting', (detail) => this.#waiting(detail));
    onRoom('left', () => this.#leave());
    on('signal', ({ from, data }) => {
      if (data?.room === this.name && data.peer) this.#receive(from, data.peer);
    });
    on('state', ({ state }) => {
      if (state === 'connected') this.#restartFailed();
      if (state === 'closed') this.#leave();
    });
  }

  #waiting({ ahead, queue_length: length }) {
    this.queuePlace = { ahead, length };
    this.#setState('waiting');
  }

  #joined({ version, capacity, members, more, after }) {
    // A page of a list that has begun anew since.
    if (after !== undefined && after !== this.#after) return;
    if (after === undefined) {
      this.capacity = capacity;
      this.queuePlace = null;
      this.#version = version;
      this.#listed.clear();
    }
    for (const member of members) this.#add(member);
    this.#after = more ? members.at(-1).client_id : undefined;
    if (more) {
      this.#client.members(this.name, this.#after);
    } else {
      for (const id of this.#memberById.keys()) if (!this.#listed.has(id)) this.#remove(id, 'expired');
      this.#listed.clear();
    }
    this.#setState('in');
  }

  #membersChanged({ version, joined, left }) {
    if (this.state !== 'in' || version <= this.#version) return;
    const isWhole = version - this.#version <= joined.length + left.length;
    this.#version = version;
    for (const { client_id: id, reason } of left) this.#remove(id, reason);
    for (const member of joined) this.#add(member);
    // Changes are missing: the answer to another join is the whole list.
    if (!isWhole) this.#client.join(this.name, this.#options.data).catch(() => {});
    this.#emit('change');
  }

  #add({ client_id: id, data = null }) {
    if (id === this.#client.clientId) return;
    this.#listed.add(id);
    const known = this.#memberById.get(id);
    if (known) {
      Object.assign(known, { data, hasLeft: false });
      return;
    }
    const member = {
      id,
      data,
      hasLeft: false,
      peer: null,
      channel: null,
      stream: null,
      retryTimer: undefined,
    };
    this.#memberById.set(id, member);
    if (this.#memberById.size <= this.#options.maxPeers) this.#connect(member);
  }

  #connect(member) {
    const { iceServers = () => this.#client.iceServers, RTCPeerConnection } = this.#options;
    member.peer = new PeerConnection({
      polite: this.#client.clientId < member.id,
      configuration: { iceServers: iceServers() },
      RTCPeerConnection,
      send: (message) => this.#send(member, message),
      setUp: (connection) => this.#setUp(member, connection),
    });
    member.peer.addEventListener('change', () => this.#peerChanged(member));
    member.peer.addEventListener('failure', ({ detail: error }) => {
      this.#emit('failure', { id: member.id, error });
    });
    for (const message of this.#earlyById.get(member.id) ?? []) member.peer.receive(message);
    this.#earlyById.delete(member.id);
  }

  #peerChanged(member) {
    if (this.#memberById.get(member.id) !== member) return;
    if (member.hasLeft && member.peer.connectionState !== 'connected') this.#drop(member);
    this.#emit('change');
  }

  #setUp(member, connection) {
    member.stream = null;
    const channel = connection.createDataChannel('room', CHANNEL);
    member.channel = channel;
    channel.onopen = () => {
      this.#emit('change');
      this.#emit('open', { id: member.id });
    };
    channel.onclose = () => this.#emit('change');
    channel.onmessage = ({ data }) => {
      const message = parse(data);
      if (message !== undefined) this.#emit('message', { from: member.id, data: message });
    };
    connection.ontrack = ({ streams }) => {
      member.stream = streams[0] ?? null;
      this.#emit('change');
    };
    this.#sendTracks(connection);
  }

  /** Sends the tracks of the stream. They replace tracks of their kind without a negotiation. */
  #sendTracks(connection) {
    const tracks = this.#stream?.getTracks() ?? [];
    const senders = connection.getSenders().filter((sender) => sender.track);
    for (const sender of senders) {
      const track = tracks.find(({ kind }) => kind === sender.track.kind);
      if (track === undefined) connection.removeTrack(sender);
      else sender.replaceTrack(track).catch((error) => this.#emit('failure', { id: null, error }));
    }
    const sentKinds = senders.map(({ track }) => track?.kind);
    for (const track of tracks) {
      if (!sentKinds.includes(track.kind)) connection.addTrack(track, this.#stream);
    }
  }

  async #send(member, peer) {
    try {
      await this.#client.signal(member.id, { room: this.name, peer });
    } catch (error) {
      const isOver = error.code === 'closed' || this.#memberById.get(member.id) !== member;
      if (isOver || member.peer.connectionState === 'connected') return;
      clearTimeout(member.retryTimer);
      member.retryTimer = setTimeout(() => member.peer.startOver(), RETRY_AFTER);
    }
  }

  #receive(from, message) {
    const member = this.#memberById.get(from);
    if (member) {
      member.peer?.receive(message);
      return;
    }
    const early = this.#earlyById.get(from) ?? [];
    const hasPlace = early.length > 0 || this.#earlyById.size < MAX_EARLY;
    if (hasPlace && early.length < MAX_EARLY) this.#earlyById.set(from, [...early, message]);
  }

  /** A member whose seat expired stays while its direct connection lasts. */
  #remove(id, reason) {
    this.#listed.delete(id);
    const member = this.#memberById.get(id);
    if (!member) return;
    member.hasLeft = true;
    if (reason !== 'expired' || member.peer?.connectionState !== 'connected') this.#drop(member);
  }

  #drop(member) {
    clearTimeout(member.retryTimer);
    this.#memberById.delete(member.id);
    member.peer?.close();
    // A member without a connection takes the free place.
    const next = [...this.#memberById.values()].find(({ peer }) => peer === null);
    if (next && this.state === 'in') this.#connect(next);
  }

  /** Restarts failed connections after the client has reconnected. */
  #restartFailed() {
    for (const { peer } of this.#memberById.values()) {
      if (peer?.connectionState === 'failed') peer.restart();
    }
  }

  #leave() {
    this.#stop.abort();
    this.state = 'out';
    for (const member of this.#memberById.values()) {
      clearTimeout(member.retryTimer);
      member.peer?.close();
    }
    this.#memberById.clear();
    this.#earlyById.clear();
    this.queuePlace = null;
    this.capacity = null;
    this.#version = 0;
    this.#after = undefined;
    this.#listed.clear();
    this.#emit('change');
  }

  #setState(state) {
    this.state = state;
    this.#emit('change');
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** Returns the message, or undefined if it is not JSON. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
