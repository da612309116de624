/**
 * One client's connection to the mesh, kept up by reconnecting.
 *
 * Events, all with `detail`:
 * - `statechange`: `{state, code, reason, retryInMs}`; state is `connecting`, `connected`, `waiting` or `closed`
 * - `welcome`: what the server said; `node`: our node's name has changed
 * - `signal`: `{from, data}`; `problem`: a SignalingError that answers nothing we await
 */

import { delayBeforeRetry, mayComeBack } from './reconnect.js';

const SUBPROTOCOL = 'signaling.v1';
const PING_EVERY_MS = 10_000;
const PONG_WITHIN_MS = 5_000;
const WELCOME_WITHIN_MS = 10_000;
/** Connected this long, the next loss is a new one and not one more of a row. */
const SETTLED_MS = 10_000;
/** Sends without a fate; a call needs some dozens. */
const MAX_PENDING = 256;
/** What a browser reports for a connection that ended without a close frame. */
const ABNORMAL = 1006;

/** `code` is the server's error code, or `not_connected` or `too_many_pending` of our own. */
export class SignalingError extends Error {
  constructor({ code, message, retry_after_ms }) {
    super(message);
    this.code = code;
    this.retryAfterMs = retry_after_ms;
  }
}

export class Signaling extends EventTarget {
  /** The id to connect with; set another only while `closed`. */
  clientId;
  state = 'closed';
  /** Our node's name, or null where the mesh does not reveal it. */
  node = null;
  /** As RTCPeerConnection takes them. */
  iceServers = [];

  #endpoint;
  #socket = null;
  #resume = null;
  #pendingById = new Map();
  #nextId = 1;
  #attempt = 0;
  #lostAt = 0;
  #retryAfterMs = null;
  #welcomedAt = null;
  #pinging;
  #deadline;
  #retry;

  /** @param {{endpoint: string, clientId: string}} options `endpoint`: the URL of `/v1/connect` */
  constructor({ endpoint, clientId }) {
    super();
    this.#endpoint = endpoint;
    this.clientId = clientId;
  }

  /** Connects now, also when a retry was due later. Does nothing while connected. */
  connect() {
    if (this.#socket) return;
    clearTimeout(this.#retry);
    const url = new URL(this.#endpoint);
    url.searchParams.set('client_id', this.clientId);
    const protocols = this.#resume ? [SUBPROTOCOL, `resume.${this.#resume}`] : [SUBPROTOCOL];
    const socket = new WebSocket(url, protocols);
    socket.onmessage = ({ data }) => this.#take(data);
    socket.onclose = ({ code, reason }) => this.#lost(code, reason);
    this.#socket = socket;
    this.#expect('no welcome from the server', WELCOME_WITHIN_MS);
    this.#enter('connecting');
  }

  /**
   * Sends `data` (any JSON) to another client. Resolves when it was delivered, rejects with a
   * SignalingError when it was not. Over a lost connection it is sent again, so the other side may
   * see it twice.
   */
  send(to, data) {
    if (this.state === 'closed') {
      return Promise.reject(new SignalingError({ code: 'not_connected', message: 'not connected to the mesh' }));
    }
    if (this.#pendingById.size >= MAX_PENDING) {
      return Promise.reject(new SignalingError({ code: 'too_many_pending', message: 'too many signals under way' }));
    }
    const id = this.#nextId++;
    const frame = JSON.stringify({ type: 'signal', to, data, id });
    return new Promise((resolve, reject) => {
      this.#pendingById.set(id, { frame, resolve, reject });
      if (this.state === 'connected') this.#socket.send(frame);
    });
  }

  #take(text) {
    const message = JSON.parse(text);
    switch (message.type) {
      case 'welcome':
        return this.#welcome(message);
      case 'signal':
        return this.#emit('signal', { from: message.from, data: message.data });
      case 'ack':
        return this.#settle(message.id)?.resolve();
      case 'error':
        return this.#failed(message);
      case 'pong':
        return clearTimeout(this.#deadline);
      case 'moved':
        this.node = message.node ?? null;
        return this.#emit('node', { node: this.node });
      case 'ice_servers':
        this.iceServers = message.ice_servers;
        return;
      case 'goodbye':
        this.#retryAfterMs = message.retry_after_ms ?? null;
    }
  }

  #welcome(welcome) {
    clearTimeout(this.#deadline);
    this.clientId = welcome.client_id;
    this.node = welcome.node ?? null;
    this.iceServers = welcome.ice_servers ?? [];
    this.#resume = welcome.resume ?? null;
    this.#welcomedAt = performance.now();
    this.#pinging = setInterval(() => this.#ping(), PING_EVERY_MS);
    this.#enter('connected');
    for (const { frame } of this.#pendingById.values()) this.#socket.send(frame);
    this.#emit('welcome', welcome);
  }

  #failed(message) {
    const error = new SignalingError(message);
    const pending = this.#settle(message.id);
    if (pending) pending.reject(error);
    else this.#emit('problem', error);
  }

  #settle(id) {
    const pending = this.#pendingById.get(id);
    this.#pendingById.delete(id);
    return pending;
  }

  #ping() {
    this.#socket.send('{"type":"ping"}');
    this.#expect('the server no longer answers', PONG_WITHIN_MS);
  }

  /** Gives the connection up unless something clears the deadline. A dead one would take minutes to close. */
  #expect(otherwise, withinMs) {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#lost(ABNORMAL, otherwise), withinMs);
  }

  #lost(code, reason) {
    const socket = this.#socket;
    this.#socket = null;
    socket.onmessage = socket.onclose = null;
    socket.close();
    clearTimeout(this.#deadline);
    clearInterval(this.#pinging);

    const settled = this.#welcomedAt !== null && performance.now() - this.#welcomedAt >= SETTLED_MS;
    if (settled) this.#attempt = 0;
    this.#welcomedAt = null;
    const retryAfterMs = this.#retryAfterMs;
    this.#retryAfterMs = null;

    if (!mayComeBack(code)) {
      this.#enter('closed', { code, reason });
      this.#rejectAll();
      return;
    }
    if (this.#attempt === 0) this.#lostAt = performance.now();
    const awayMs = performance.now() - this.#lostAt;
    const retryInMs = delayBeforeRetry({ attempt: this.#attempt++, awayMs, code, retryAfterMs });
    this.#retry = setTimeout(() => this.connect(), retryInMs);
    this.#enter('waiting', { code, reason, retryInMs });
  }

  #rejectAll() {
    const pending = [...this.#pendingById.values()];
    this.#pendingById.clear();
    const error = new SignalingError({ code: 'not_connected', message: 'the connection to the mesh was closed' });
    for (const { reject } of pending) reject(error);
  }

  #enter(state, detail = {}) {
    this.state = state;
    this.#emit('statechange', { state, ...detail });
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
