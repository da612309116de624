/**
 * The client. `core` makes the decisions. This module performs them with sockets, timers and
 * promises. README.md is the guide.
 */

import { abortable } from './abort.js';
import { Core } from './core/core.js';
import { NO_FRAME } from './core/ending.js';
import { MeshError, refuse } from './core/mesh_error.js';
import { assertJson, assertName } from './core/outgoing.js';
import { CONNECT_TIMEOUT, MAX_TIMER } from './core/rules.js';
import { Emitter, emit } from './emitter.js';
import { listen } from './listen.js';
import { checkOptions, checkUrls, makeLog, OF_CLIENTS, OF_METHODS } from './options.js';
import { reasonOf } from './reason.js';
import { Room } from './room.js';
import { SavedSession } from './saved_session.js';
import { leaveSocket, openSocket } from './socket.js';
import { fetchToken } from './token_source.js';

/** @template T @typedef {import('./types.js').Writable<T>} Writable */

/**
 * A client of the mesh. It reconnects by itself, resumes its session, and reports each message
 * once.
 *
 * @template [Signal=any] data of signals
 * @extends {Emitter<import('./types.js').ClientEvents<Signal>>}
 */
export class Client extends Emitter {
  /** Id of the client in the mesh. @type {string} @readonly */
  clientId;
  /**
   * `disconnected`, `connecting` (until the first connection), `connected` or `reconnecting`.
   *
   * @type {import('./types.js').ClientState}
   * @readonly
   */
  state = 'disconnected';
  /**
   * The latest ICE servers from the mesh, for `RTCPeerConnection`; empty before the first
   * connection. They are renewed before their credentials end.
   *
   * @type {import('./types.js').IceServer[]}
   * @readonly
   */
  iceServers = [];
  /**
   * Id of the node that serves this client; null before the first connection, or if hidden.
   *
   * @type {string | null}
   * @readonly
   */
  node = null;
  #urls;
  #WebSocket;
  #core;
  #token;
  #connectTimeoutMs;
  #log;
  /** Number of calls of `#token`. */
  #tokenCalls = 0;
  /** Error of the latest call of `#token`, until the next one. */
  #tokenError;
  #saves;
  /** @type {any} */
  #socket;
  /** Resolves once the latest socket is closed. @type {Promise<void> | undefined} */
  #socketClosed;
  #url;
  #timer;
  /** `(error, value) => void` of requests without an outcome. */
  #settleByTicket = new Map();
  /** `(error?) => void` of the promises of `connect`. */
  #connecting = new Set();
  #roomByName = new Map();
  #changedRooms = new Set();
  /** Whether a server has accepted the client since it started. */
  #wasWelcome = false;
  /** Reason of the latest loss, until the next connection. @type {MeshError | undefined} */
  #reason;
  #counts = { connects: 0, resumes: 0, sent: 0, received: 0 };
  /** End the listeners to the page; empty while the client is closed. */
  #removers = /** @type {(() => void)[]} */ ([]);
  #isPerforming = false;

  /**
   * Creates a client without a connection: call `connect`.
   *
   * @param {string | string[]} url address of a balancer, or several, tried in this order, the next
   *   one after each failure or loss: `ws`, `wss`, `http` or `https`. The default path is
   *   `/v1/connect`
   * @param {import('./types.js').ClientOptions} options
   * @throws {TypeError} for an invalid address or option
   */
  constructor(url, options) {
    super();
    this.#urls = checkUrls(url);
    checkOptions(options, OF_CLIENTS);
    this.clientId = options.clientId;
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.#token = options.token;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? CONNECT_TIMEOUT;
    this.#log = makeLog(options);
    this.#saves = new SavedSession(options.clientId, options.storage);
    this.#core = new Core({ ...options, urls: this.#urls.length, tokens: options.token !== undefined });
  }

  /** Numbers since the client was created. @returns {import('./types.js').Stats} */
  get stats() {
    return { ...this.#counts, ...this.#core.stats };
  }

  /**
   * Connects, and ends the wait for the next attempt. A disconnected client resumes the session
   * that a page of this tab saved, or starts a new one.
   *
   * @param {{signal?: AbortSignal}} [options] an abort closes the client
   * @returns {Promise<void>} resolves once connected. Rejects with a `MeshError` if the server
   *   refuses the client for good, if the client is closed, and after `connectTimeoutMs`: then the
   *   client still tries. It may be ignored
   * @throws {TypeError} if the platform has no WebSocket and the options have none
   */
  connect({ signal } = {}) {
    if (!this.#WebSocket) refuse('WebSocket', undefined, 'a class: the platform has none');
    const connected = abortable(signal, () => void this.close(), (settle) => {
      const end = (error) => {
        this.#connecting.delete(end);
        clearTimeout(timer);
        settle(error);
      };
      const timer = setTimeout(() => end(this.#error('expired', { message: 'not connected in time' })), Math.min(this.#connectTimeoutMs, MAX_TIMER));
      this.#connecting.add(end);
      // In a listener that closed the client, the state is still the former one.
      if (this.state === 'connected' && this.#core.is !== 'closed') end();
      else this.#start();
    });
    connected.catch(() => {});
    return connected;
  }

  #start() {
    this.#takeSaved();
    this.#input('start');
  }

  /** Returns an error with the reason of the latest loss, if any. */
  #error(code, details) {
    return new MeshError(code, { ...details, cause: this.#reason });
  }

  /**
   * Sends `data`, any JSON, to another client. Messages to one client arrive in the order sent.
   *
   * @param {string} to id of the recipient
   * @param {Signal} data
   * @param {{ttlMs?: number, signal?: AbortSignal}} [options] `ttlMs`: maximum time that the mesh
   *   holds the message for an absent recipient, in ms; 0: not at all. The mesh's own hold time is
   *   the upper limit and the default
   * @returns {Promise<void>} resolves when the recipient's application has it; rejects with a
   *   `MeshError`
   * @throws {TypeError} if `data` has no JSON form
   */
  signal(to, data, { ttlMs, signal } = {}) {
    assertJson(data);
    checkOptions({ ttlMs }, OF_METHODS);
    return this.#request({ type: 'signal', to, data, ttl_ms: ttlMs && Math.floor(ttlMs) }, signal);
  }

  /**
   * Returns the room with this name, the same object at each call. The client does not join by it.
   *
   * @template [Data=any] data that members show
   * @template [Broadcast=any] data of broadcasts
   * @param {string} name 1 to 128 of the characters of a client id, without `~` first
   * @returns {Room<Data, Broadcast>}
   * @throws {MeshError} `bad_name`
   */
  room(name) {
    assertName(name);
    const members = () => this.#core.room(name);
    const request = (message, signal) => this.#request(message, signal);
    const room = this.#roomByName.get(name) ?? new Room(this, name, members, request);
    this.#roomByName.set(name, room);
    return room;
  }

  /**
   * Ends the session, and removes a saved one from the storage. Without a connection the mesh keeps
   * the session until it expires. Requests without an outcome reject with `closed`.
   *
   * @returns {Promise<void>} resolves when the socket is closed, after at most 2 s
   */
  async close() {
    this.#saves.take();
    this.#input('close');
    // A listener's call leaves the socket after it returned.
    await null;
    return this.#socketClosed;
  }

  /**
   * Saves the session for the next page of this tab, or for the next `connect`, and closes.
   * Requests without an outcome reject with `closed`, but stay in the saved session. If the storage
   * is null or refuses it, the session is lost.
   */
  detach() {
    this.#input('detach');
  }

  /** Reports a change of the network, on platforms without the event `online`. */
  networkChanged() {
    this.#input('networkChanged');
  }

  /** @returns {Promise<any>} */
  #request(request, signal) {
    let ticket;
    const cancel = () => {
      this.#settleByTicket.delete(ticket);
      return this.#input('cancel', ticket);
    };
    return abortable(signal, cancel, (settle) => {
      this.#perform(() => {
        ticket = this.#core.request(now(), request);
        this.#settleByTicket.set(ticket, settle);
      });
    });
  }

  #takeSaved() {
    const isSuspended = this.#core.is === 'suspended';
    if (this.#core.is !== 'closed' && !isSuspended) return;
    const { session, isOwn } = this.#saves.take();
    // The stored session is still the one of this page.
    if (isSuspended && isOwn) return;
    this.#core.close();
    if (session) this.#core.restore(now(), session);
  }

  #watchPage() {
    const { document } = globalThis;
    const networkChanged = () => this.#input('networkChanged');
    return [
      listen(globalThis, 'online', networkChanged),
      listen(globalThis, 'offline', networkChanged),
      // The browser may show a persisted page again.
      listen(globalThis, 'pagehide', ({ persisted }) => this.#input(persisted ? 'suspend' : 'detach')),
      listen(globalThis, 'pageshow', () => this.#core.is === 'suspended' && this.#start()),
      listen(document, 'visibilitychange', () => this.#input(document.hidden ? 'hidden' : 'shown')),
    ];
  }

  /** Calls an input of the core that has this name. */
  #input(name, ...args) {
    return this.#perform(() => /** @type {any} */ (this.#core)[name](now(), Math.random(), ...args));
  }

  /**
   * Calls an input of the core, performs the effects, and returns the result of the input. If a
   * listener calls the client, those effects follow, so that requests are sent in the order of
   * their numbers.
   */
  #perform(input) {
    try {
      return input();
    } finally {
      if (!this.#isPerforming) this.#performEffects();
    }
  }

  #performEffects() {
    this.#isPerforming = true;
    try {
      let effects;
      while ((effects = this.#core.take())[0]) {
        for (const effect of effects) this.#act(effect);
        const changed = this.#changedRooms;
        this.#changedRooms = new Set();
        for (const room of changed) emit(room, 'change');
      }
    } finally {
      this.#isPerforming = false;
      this.#schedule();
    }
  }

  #act(effect) {
    if (effect === 'drop' || effect.close) this.#leaveSocket(effect.close);
    else if (effect === 'ask_token') this.#fetchToken();
    else if (effect.open) this.#open(effect.open);
    else if (effect.write) {
      this.#counts.sent += 1;
      this.#socket?.send(effect.write);
    } else if (effect.saved) {
      this.#saves.put(effect.saved);
      if (this.#core.is === 'suspended') this.#enter(this.#trying);
    } else if (effect.state) this.#changeState(effect);
    else if (effect.settle) this.#settle(effect);
    else if (effect.room) this.#reportRoom(effect);
    else this.#report(effect.event, effect.details);
  }

  #report({ type, room, ...event }, details) {
    if (type === 'signal') {
      // A signal of a call has the name of its room.
      const name = event.data?.['~call'];
      // Names of others create no rooms.
      const isKnown = this.#roomByName.has(name) || this.#core.room(name);
      if (isKnown) emit(this.room(name), '~call', event);
      else if (name === undefined) emit(this, type, event);
    } else if (type === 'broadcast') emit(this.room(room), type, event);
    else if (type === 'moved') /** @type {Writable<Client>} */ (this).node = event.node ?? null;
    else if (type === 'ice_servers') {
      /** @type {Writable<Client>} */ (this).iceServers = event.ice_servers ?? [];
      emit(this, 'iceServers', this.iceServers);
    } else {
      const error = this.#error(event.code, details);
      this.#log('warn', error.message);
      emit(this, type, error);
    }
  }

  #reportRoom({ room: name, type, event }) {
    const room = this.room(name);
    this.#changedRooms.add(room);
    /** @type {Writable<Room>} */ (room).revision += 1;
    emit(room, type, event);
  }

  #changeState(effect) {
    if (effect.state === 'closed') for (const remove of this.#removers.splice(0)) remove();
    else if (!this.#removers[0]) this.#removers = this.#watchPage();
    if (effect.welcome) this.#connected(effect.welcome);
    else if (effect.state === 'connecting') {
      [this.#url] = this.#urls[effect.url].split('?');
      this.#log('debug', `connecting to ${this.#url}`);
      this.#enter(this.#trying);
    } else this.#lost(effect);
  }

  /** State without a connection. @returns {import('./types.js').ClientState} */
  get #trying() {
    return this.#wasWelcome ? 'reconnecting' : 'connecting';
  }

  #connected(welcome) {
    /** @type {Writable<Client>} */ (this).iceServers = welcome.ice_servers ?? [];
    /** @type {Writable<Client>} */ (this).node = welcome.node ?? null;
    this.#counts.connects += 1;
    if (welcome.resumed) this.#counts.resumes += 1;
    this.#wasWelcome = true;
    this.#reason = undefined;
    this.#log('info', `connected to ${this.#url}`);
    this.#settleConnects();
    this.#enter('connected', { isResumed: welcome.resumed });
  }

  #settleConnects(error) {
    for (const settle of this.#connecting) settle(error);
  }

  #lost({ state, retryInMs, repeat, ...why }) {
    const isOver = state === 'closed';
    const reason = reasonOf(why, this.#wasWelcome, this.#tokenError);
    this.#reason = reason;
    // It has ended, or the client has left it.
    this.#socket = null;
    // The reason of a wait that is shortened has been logged.
    if (reason && !repeat) {
      const then = isOver ? 'no retry' : `next attempt in ${retryInMs} ms`;
      this.#log(isOver ? 'error' : 'warn', `${this.#url}: ${reason.message}, ${then}`);
    }
    if (isOver) {
      this.#wasWelcome = false;
      // Unless a listener has connected again.
      if (this.#core.is === 'closed') this.#settleConnects(reason ?? new MeshError('closed'));
    }
    this.#enter(isOver ? 'disconnected' : this.#trying, { reason, retryInMs });
  }

  /** Reports a change of the state, and each failed attempt. */
  #enter(state, details) {
    if (this.state === state && !details?.reason) return;
    /** @type {Writable<Client>} */ (this).state = state;
    emit(this, 'state', { state, ...details });
    emit(this, state, { state, ...details });
  }

  #settle({ settle: ticket, code, details, count }) {
    const settle = this.#settleByTicket.get(ticket);
    this.#settleByTicket.delete(ticket);
    settle?.(code && this.#error(code, details), count);
  }

  #open(attempt) {
    try {
      this.#socket = openSocket(this.#WebSocket, this.#urls[attempt.url], this.clientId, attempt, (input, value) => {
        if (input === 'text') this.#counts.received += 1;
        this.#input(input, value);
      });
    } catch (error) {
      this.#input('lost', { code: NO_FRAME, reason: String(error) });
    }
  }

  #leaveSocket(code) {
    const socket = this.#socket;
    this.#socket = null;
    if (socket) this.#socketClosed = leaveSocket(socket, code);
  }

  async #fetchToken() {
    const call = ++this.#tokenCalls;
    this.#tokenError = undefined;
    try {
      const token = await fetchToken(this.#token);
      if (token) return this.#input('token', token);
      if (call !== this.#tokenCalls) return;
      this.#tokenError = 'it returned null';
      this.#input('close', { fault: 'no_token' });
    } catch (error) {
      // A call that fails after its time limit must not end the next one.
      if (call !== this.#tokenCalls) return;
      this.#tokenError = error;
      const reason = /** @type {MeshError} */ (reasonOf({ fault: 'no_token' }, false, error));
      // Otherwise the end of the attempt is logged.
      if (this.state === 'connected') this.#log('warn', reason.message);
      emit(this, 'error', reason);
      this.#input('tokenFailed');
    }
  }

  #schedule() {
    clearTimeout(this.#timer);
    // Node.js warns of a negative time.
    const wait = Math.max(0, this.#core.deadline - now());
    if (wait < Infinity) this.#timer = setTimeout(() => this.#input('tick'), Math.min(wait, MAX_TIMER));
  }
}

/** Returns whole milliseconds. */
const now = () => Math.floor(performance.now());
