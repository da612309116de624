/**
 * Everybody in a room, each connected directly to each other: follows who comes and goes, keeps a `PeerConnection` to every
 * other member with a data channel on it, and shows them the tracks of a stream. For a handful of people: everybody sends to
 * everybody.
 */

import { PeerConnection } from './peer.js';

/** Members that are connected to; those beyond are listed alone. */
const MAX_PEERS = 8;
/** A signal may come before the news that its sender has joined. So many are kept, of so many senders. */
const MAX_EARLY = 64;
/** After a signal that was not delivered, the peer is tried anew. */
const TRY_AGAIN = 2_000;
/** Both sides make the channel, so that nobody has to wait for the other's. */
const CHANNEL = { negotiated: true, id: 0 };

/**
 * A room, from `join` to `leave`. Events: `change` (`state`, `members` or something of a member is another), `message`
 * (`{from, data}`, by data channel), `open` (`{id}`: the channel to this member has opened), `failure` (`{id, error}`).
 */
export class Room extends EventTarget {
  #client; #options; #stream; #version = 0; #memberById = new Map(); #earlyById = new Map(); #stop = new AbortController();
  /** Where the page of members that was asked for begins. */
  #after = null;

  /** `out`, `joining`, `waiting` (see `line`) or `in`. */
  state = 'out';
  /** While waiting: `{ahead, length}`. */
  line = null;
  /** How many members the room takes, or null. */
  capacity = null;

  /**
   * @param {import('./client.js').Client} client
   * @param {string} name
   * @param {{data?: unknown, stream?: MediaStream | null, iceServers?: () => RTCIceServer[], maxPeers?: number,
   *   RTCPeerConnection?: typeof RTCPeerConnection}} options
   *   `data`: shown to the others; `stream`: its tracks are; `iceServers`: asked for each connection, those of the client's
   *   latest `welcome` unless given
   */
  constructor(client, name, options = {}) {
    super();
    this.#client = client;
    this.name = name;
    this.#options = { maxPeers: MAX_PEERS, RTCPeerConnection: globalThis.RTCPeerConnection, ...options };
    this.#stream = options.stream ?? null;
  }

  /** The others, oldest first: `{id, data, state, channelState, stream, hasLeft}`. */
  get members() {
    return [...this.#memberById.values()].map(({ id, data, peer, channel, stream, hasLeft }) => ({
      id, data, stream, hasLeft, state: peer?.connectionState ?? 'none', channelState: channel?.readyState ?? 'none',
    }));
  }

  /** Enters the room, or the line in front of it. Resolves when that is done; see `Client.join` for why it may not be. */
  async join() {
    this.#listen();
    this.#become('joining');
    try {
      await this.#client.join(this.name, this.#options.data);
    } catch (error) {
      if (this.state === 'joining') this.#leave();
      throw error;
    }
  }

  /** Leaves the room or the line, and all connections. */
  async leave() {
    this.#leave();
    await this.#client.leave(this.name);
  }

  /** Sends any JSON over the data channels that are open; returns to how many. `to`: one member alone. */
  send(data, to) {
    const text = JSON.stringify(data);
    const isMeant = ({ id, channel }) => channel?.readyState === 'open' && (to === undefined || id === to);
    const open = [...this.#memberById.values()].filter(isMeant);
    for (const { channel } of open) channel.send(text);
    return open.length;
  }

  /** Shows another stream from now on, or none. */
  setStream(stream) {
    this.#stream = stream;
    for (const { peer } of this.#memberById.values()) if (peer?.connection) this.#show(peer.connection);
  }

  async roundTripMs(id) {
    return (await this.#memberById.get(id)?.peer?.roundTripMs()) ?? null;
  }

  #listen() {
    this.#stop.abort();
    this.#stop = new AbortController();
    const on = (type, hear) =>
      this.#client.addEventListener(type, ({ detail }) => hear(detail), { signal: this.#stop.signal });
    const onRoom = (type, hear) => on(type, (detail) => detail.room === this.name && hear(detail));
    onRoom('joined', (detail) => this.#joined(detail));
    onRoom('members_changed', (detail) => this.#changed(detail));
    onRoom('waiting', ({ ahead, queue_length: length }) => {
      this.line = { ahead, length };
      this.#become('waiting');
    });
    onRoom('left', () => this.#leave());
    on('signal', ({ from, data }) => data?.room === this.name && data.peer && this.#receive(from, data.peer));
    on('state', ({ state }) => {
      if (state === 'connected') this.#mend();
      if (state === 'closed') this.#leave();
    });
  }

  #joined({ version, capacity, members, more }) {
    const isNextPage = this.#after !== null && version === this.#version;
    Object.assign(this, { capacity, line: null });
    this.#version = version;
    if (!isNextPage) {
      const present = new Set(members.map(({ client_id: id }) => id));
      for (const id of this.#memberById.keys()) if (!present.has(id)) this.#remove(id, 'expired');
    }
    for (const member of members) this.#add(member);
    this.#after = more ? members.at(-1).client_id : null;
    if (more) this.#client.members(this.name, this.#after);
    this.#become('in');
  }

  #changed({ version, joined, left }) {
    if (this.state !== 'in' || version <= this.#version) return;
    const isWhole = version - this.#version <= joined.length + left.length;
    this.#version = version;
    for (const { client_id: id, reason } of left) this.#remove(id, reason);
    for (const member of joined) this.#add(member);
    // Somebody may be missing: asked again, the server tells the whole state.
    if (!isWhole) this.#client.join(this.name, this.#options.data).catch(() => {});
    this.#emit('change');
  }

  #add({ client_id: id, data = null }) {
    if (id === this.#client.clientId) return;
    const known = this.#memberById.get(id);
    if (known) {
      Object.assign(known, { data, hasLeft: false });
      return;
    }
    const member = { id, data, peer: null, channel: null, stream: null, hasLeft: false, timer: undefined };
    this.#memberById.set(id, member);
    if (this.#memberById.size <= this.#options.maxPeers) this.#connect(member);
  }

  #connect(member) {
    const { iceServers = () => this.#client.iceServers, RTCPeerConnection } = this.#options;
    const isCurrent = () => this.#memberById.get(member.id) === member;
    member.peer = new PeerConnection({
      // Of two whose offers cross, the smaller id gives way.
      polite: this.#client.clientId < member.id,
      configuration: { iceServers: iceServers() },
      RTCPeerConnection,
      send: (message) => this.#send(member, message),
      setUp: (connection) => this.#setUp(member, connection),
    });
    member.peer.addEventListener('change', () => {
      if (!isCurrent()) return;
      if (member.hasLeft && member.peer.connectionState !== 'connected') this.#drop(member);
      this.#emit('change');
    });
    member.peer.addEventListener('failure', ({ detail }) => this.#emit('failure', { id: member.id, error: detail }));
    for (const message of this.#earlyById.get(member.id) ?? []) member.peer.receive(message);
    this.#earlyById.delete(member.id);
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
    this.#show(connection);
  }

  /** Has a connection carry the tracks of our stream: in the place of others of their kind, else beside them. */
  #show(connection) {
    const tracks = this.#stream?.getTracks() ?? [];
    const senders = connection.getSenders();
    for (const sender of senders) {
      if (sender.track && !tracks.some(({ kind }) => kind === sender.track.kind)) connection.removeTrack(sender);
    }
    for (const track of tracks) {
      const sender = senders.find((each) => each.track?.kind === track.kind);
      if (sender) sender.replaceTrack(track).catch((error) => this.#emit('failure', { id: null, error }));
      else connection.addTrack(track, this.#stream);
    }
  }

  async #send(member, peer) {
    try {
      await this.#client.signal(member.id, { room: this.name, peer });
    } catch (error) {
      const isOver = error.code === 'closed' || this.#memberById.get(member.id) !== member;
      if (isOver || member.peer.connectionState === 'connected') return;
      clearTimeout(member.timer);
      member.timer = setTimeout(() => member.peer.startOver(), TRY_AGAIN);
    }
  }

  #receive(from, message) {
    const member = this.#memberById.get(from);
    if (member) {
      member.peer?.receive(message);
      return;
    }
    const early = this.#earlyById.get(from) ?? [];
    if (early.length < MAX_EARLY && (early.length > 0 || this.#earlyById.size < MAX_EARLY)) {
      this.#earlyById.set(from, [...early, message]);
    }
  }

  /** Who is out of the room by mishap, and not by will, is kept for as long as the direct connection lasts. */
  #remove(id, reason) {
    const member = this.#memberById.get(id);
    if (!member) return;
    member.hasLeft = true;
    if (reason !== 'expired' || member.peer?.connectionState !== 'connected') this.#drop(member);
  }

  #drop(member) {
    clearTimeout(member.timer);
    this.#memberById.delete(member.id);
    member.peer?.close();
    // One of those who found no place may have it.
    const next = [...this.#memberById.values()].find(({ peer }) => peer === null);
    if (next && this.state === 'in') this.#connect(next);
  }

  /** Connected to the mesh again, so probably to the network. */
  #mend() {
    for (const { peer } of this.#memberById.values()) if (peer?.connectionState === 'failed') peer.restart();
  }

  #leave() {
    this.#stop.abort();
    this.state = 'out';
    for (const member of this.#memberById.values()) {
      clearTimeout(member.timer);
      member.peer?.close();
    }
    this.#memberById.clear();
    this.#earlyById.clear();
    Object.assign(this, { line: null, capacity: null });
    [this.#version, this.#after] = [0, null];
    this.#emit('change');
  }

  #become(state) {
    this.state = state;
    this.#emit('change');
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** The message, or undefined if it is none. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
