/**
 * The JavaScript SDK. `core` makes the decisions. This module performs them with sockets, timers
 * and promises. README.md is the guide.
 */

import { Core } from './core/core.js';
import { RequestError, SendError } from './core/outcome.js';
import { watchPage } from './page_events.js';
import { SavedSession, parseSession } from './saved_session.js';
import { leaveSocket, openSocket } from './socket.js';

export { RequestError, SendError };

/** Longest timer of a browser, in milliseconds. */
const MAX_TIMER = 2_147_483_647;

/**
 * A client of the mesh. It reconnects by itself, resumes its session, and reports each message
 * once. README.md lists its events; `client.d.ts` has their types.
 */
export class Client extends EventTarget {
  /** Id of the client in the mesh. */
  clientId;
  #urls;
  #WebSocket;
  #core;
  #token;
  /** Number of calls of `#token`. */
  #tokenCalls = 0;
  #saves;
  #socket = null;
  #timer;
  /** `resolve` and `reject` of the promises of requests without an outcome. */
  #settlerByTicket = new Map();
  #iceServers = [];
  #node = null;
  /** The text that was stored when the session was suspended, or null. */
  #suspended = null;
  /** Ends the watch of the page; null while the client is closed. */
  #unwatch = null;
  #isPerforming = false;

  /**
   * Creates a client without a connection: call `connect`.
   *
   * @param {object} options
   * @param {string[]} options.urls at least one address of a balancer, `wss://HOST/v1/connect`.
   *   They are tried in this order, the next one after each failure or loss
   * @param {string} options.clientId 1 to 128 of `A-Z a-z 0-9 . _ ~ : @ -`, without `~` first. The
   *   server refuses others
   * @param {() => Promise<{token: string, valid_ms?: number}>} [options.token] returns a token of
   *   the client and its remaining validity in milliseconds. Without `valid_ms` the token is used
   *   until a server rejects it. Called before the first attempt, before a token expires, and after
   *   a server rejected a token that was used before. After 30 s the call counts as failed. A
   *   failed call for an attempt is a failed attempt; for an open connection it is repeated.
   * @param {typeof WebSocket} [options.WebSocket] the global one unless given
   * @param {Storage | null} [options.storage] where the next page of the tab finds the session:
   *   sessionStorage unless given; null disables this
   * @param {number} [options.queue] maximum requests that are not sent yet, 256 unless given. One
   *   more rejects with `queue_full`
   * @param {number} [options.queueBytes] maximum bytes of requests that are not sent yet, 1 MiB
   *   unless given. More reject with `queue_full`
   * @param {number} [options.timeoutMs] time limit of a request in milliseconds, including time
   *   without a connection, 60,000 unless given. After it the request rejects with `expired`
   */
  constructor({ urls, clientId, token, ...options }) {
    super();
    const { WebSocket = globalThis.WebSocket, ...others } = options;
    const { storage = sessionStorageOfPage(), ...limits } = others;
    this.clientId = clientId;
    this.#urls = urls;
    this.#WebSocket = WebSocket;
    this.#token = token;
    this.#saves = new SavedSession(storage, clientId);
    this.#core = new Core({ clientId, urls: urls.length, tokens: token !== undefined, ...limits });
  }

  /**
   * `closed`, `connecting`, `connected` or `waiting`: for the next attempt, or while the browser
   * keeps the page that was left.
   */
  get state() {
    return this.#core.state;
  }

  /** The latest ICE servers from the mesh, for `RTCPeerConnection`. Empty before `welcome`. */
  get iceServers() {
    return this.#iceServers;
  }

  /** Id of the node that serves this client; null before `welcome`, or if not revealed. */
  get node() {
    return this.#node;
  }

  /**
   * Connects, and ends the wait for the next attempt. Returns at once. Has no effect while
   * connecting or connected. A closed client resumes the session that a page of this tab saved, if
   * there is one, or starts a new one.
   *
   * @throws {TypeError} if the platform has no WebSocket and the options name none
   * @throws {TypeError | DOMException} if the URL is invalid, unless a token is fetched first. In
   *   both cases the attempt fails after 10 s
   */
  connect() {
    if (!this.#WebSocket) throw new TypeError('this platform has no WebSocket: pass a class as the option WebSocket');
    this.#perform((now) => {
      this.#takeSaved(now);
      this.#core.start(now);
    });
  }

  /**
   * Sends `data`, any JSON, to another client. Messages to one client arrive in the order sent.
   * Resolves when its application, or the socket of a client without an SDK, has the message.
   *
   * @param {string} to id of the recipient
   * @param {unknown} data
   * @param {{ttlMs?: number}} [options] maximum time that the mesh holds the message for an absent
   *   recipient, in whole milliseconds. 0: not at all. The mesh's own hold time is the upper limit
   *   and the default
   * @returns {Promise<{members: undefined}>} rejects with a `SendError` if the request is not
   *   accepted, and with a `RequestError` if it is not known to have been carried out. Rejects with
   *   a `TypeError` if `data` has no JSON form
   */
  signal(to, data, { ttlMs } = {}) {
    const ttl = ttlMs === undefined ? {} : { ttl_ms: ttlMs };
    return this.#request({ type: 'signal', to, data, ...ttl });
  }

  /**
   * Joins a room, or its waiting queue if it is full. Resolves after the `joined` or `waiting`
   * event. After the loss of its session the client rejoins by itself, again after a refusal that
   * names a wait.
   *
   * @param {string} room 1 to 128 of the characters of a client id, without `~` first
   * @param {unknown} [data] shown to the members; the mesh refuses more than 4 KiB. Without it a
   *   member's present data stays
   * @returns {Promise<{members: undefined}>} rejects as `signal` does, with the code
   *   `too_many_rooms` beyond 256 rooms
   */
  join(room, data) {
    return this.#request({ type: 'join', room, ...(data === undefined ? {} : { data }) });
  }

  /**
   * Leaves a room or its waiting queue.
   *
   * @param {string} room
   * @returns {Promise<{members: undefined}>} rejects as `signal` does
   */
  leave(room) {
    return this.#request({ type: 'leave', room });
  }

  /**
   * Sends `data` to all other members of a room that the client is in.
   *
   * @param {string} room
   * @param {unknown} data
   * @returns {Promise<{members: number}>} number of members that the broadcast reached, once the
   *   outcome for each is known; rejects as `signal` does, with the code `rate_limited` above the
   *   server's limit of messages or members
   */
  broadcast(room, data) {
    return this.#request({ type: 'broadcast', room, data });
  }

  /**
   * Requests a page of at most 500 members of a room. The answer is a `joined` or `error` event;
   * none if the connection is lost first.
   *
   * @param {string} room
   * @param {string} [after] id of the last member of the page before; absent for the first page
   * @throws {SendError} `not_connected` or `closed`
   */
  members(room, after) {
    const page = after === undefined ? {} : { after };
    this.#perform(() => this.#core.ask({ type: 'members', room, ...page }));
  }

  /**
   * Ends the session, and removes a saved one from the storage. Without a connection the mesh keeps
   * the session until it expires. Requests without an outcome reject with `closed`.
   */
  close() {
    this.#perform(() => {
      this.#saves.take();
      this.#core.close();
    });
  }

  /**
   * Saves the session for the next page of this tab, or for the next `connect`, and closes.
   * Requests without an outcome reject with `closed`, but stay in the saved session. If the storage
   * is null or refuses it, the session is lost.
   */
  detach() {
    this.#perform(() => this.#core.detach());
  }

  #request(request) {
    return new Promise((resolve, reject) => {
      this.#perform((now) => {
        this.#settlerByTicket.set(this.#core.request(now, request), { resolve, reject });
      });
    });
  }

  #takeSaved(now) {
    const { isSuspended } = this.#core;
    if (this.state !== 'closed' && !isSuspended) return;
    const text = this.#saves.take();
    // The stored session is still the one of this page.
    if (isSuspended && text === this.#suspended) return;
    if (isSuspended) this.#core.close();
    const session = parseSession(text ?? '', this.clientId);
    if (session) this.#core.restore(now, session);
  }

  #watchPage() {
    const core = this.#core;
    const step = (input) => () => this.#perform(input);
    return watchPage({
      networkChanged: step((now, random) => core.networkChanged(now, random)),
      left: (isKept) => this.#perform(() => (isKept ? core.suspend() : core.detach())),
      shownAgain: () => core.isSuspended && this.connect(),
      hidden: step(() => core.hidden()),
      visible: step((now, random) => core.shown(now, random)),
    });
  }

  /**
   * Calls an input of the core and performs the effects. If a listener calls the client, those
   * effects follow, so that requests are sent in the order of their numbers.
   */
  #perform(input) {
    try {
      input(Math.floor(performance.now()), Math.random());
    } finally {
      if (!this.#isPerforming) this.#performEffects();
    }
  }

  #performEffects() {
    const core = this.#core;
    this.#isPerforming = true;
    try {
      for (let effects = core.takeEffects(); effects.length > 0; effects = core.takeEffects()) {
        for (const effect of effects) this.#act(effect);
      }
    } finally {
      this.#isPerforming = false;
      this.#schedule();
    }
  }

  #act(effect) {
    if (effect === 'drop') this.#leaveSocket();
    else if (effect === 'ask_token') this.#fetchToken();
    else if (effect.open) this.#open(effect.open);
    else if (effect.close) this.#leaveSocket(effect.close);
    else if (effect.write) this.#socket?.send(effect.write);
    else if (effect.saved) this.#suspended = this.#saves.put(effect.saved);
    else if (effect.event) this.#report(effect.event);
    else if (effect.state) this.#changeState(effect);
    else if (effect.settle) this.#settle(effect);
  }

  #report(message) {
    if (message.type === 'ice_servers') this.#iceServers = message.ice_servers ?? [];
    if (message.type === 'moved') this.#node = message.node ?? null;
    this.#emit(message.type, message);
  }

  #changeState(effect) {
    if (effect.state === 'connected') {
      this.#iceServers = effect.welcome.ice_servers ?? [];
      this.#node = effect.welcome.node ?? null;
    }
    if (effect.state === 'closed') {
      this.#unwatch?.();
      this.#unwatch = null;
    } else {
      this.#unwatch ??= this.#watchPage();
    }
    this.#emit('state', effect);
  }

  #settle({ settle, as, count }) {
    const settler = this.#settlerByTicket.get(settle);
    this.#settlerByTicket.delete(settle);
    if (as === 'delivered') settler?.resolve({ members: count });
    else settler?.reject(new RequestError(as));
  }

  #open({ url, resume, token }) {
    const session = { clientId: this.clientId, resume, token };
    this.#socket = openSocket(this.#WebSocket, this.#urls[url], session, {
      text: (text) => this.#perform((now, random) => this.#core.text(now, random, text)),
      closed: (code) => {
        this.#socket = null;
        this.#perform((now, random) => this.#core.lost(now, random, { code }));
      },
    });
  }

  #leaveSocket(code) {
    const socket = this.#socket;
    this.#socket = null;
    if (socket !== null) leaveSocket(socket, code);
  }

  async #fetchToken() {
    const call = ++this.#tokenCalls;
    try {
      const token = await this.#token();
      this.#perform((now) => this.#core.token(now, token));
    } catch {
      // A call that fails after its time limit must not end the next one.
      if (call === this.#tokenCalls) this.#perform((now, random) => this.#core.tokenFailed(now, random));
    }
  }

  #schedule() {
    clearTimeout(this.#timer);
    const { deadline } = this.#core;
    if (deadline === null) return;
    const wait = Math.min(MAX_TIMER, Math.max(0, deadline - Math.floor(performance.now())));
    const tick = () => this.#perform((now, random) => this.#core.tick(now, random));
    this.#timer = setTimeout(tick, wait);
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** The page's sessionStorage. null: there is none, or the page may not use it, as in a sandbox. */
function sessionStorageOfPage() {
  try {
    return globalThis.sessionStorage ?? null;
  } catch {
    return null;
  }
}
