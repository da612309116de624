/**
 * A client of the signaling mesh that comes back by itself and hands each message over once.
 *
 * `Core` decides and touches neither clock, chance nor network: times (milliseconds) and random numbers go in, effects come
 * out of `takeEffects`, and `deadline` says when `tick` is due. `../vectors` are its rules as examples.
 */

const BASE = 1_000, CAP = 30_000, MAX_HINT = 3_600_000, AFTER_POLICY = 30_000, SETTLED = 10_000;
const WELCOME_WITHIN = 10_000, TOKEN_WITHIN = 30_000, RENEW_BEFORE = 30_000;
const PING_EVERY = 10_000, ANSWER_WITHIN = 5_000, OVERSLEPT = 5_000;
const SAY_WITHIN = 200, MOST_UNSAID = 64, NAME_KNOWN = 1_020_000, MAX_NAMES = 65_536, MAX_SAVED_NAMES = 4_096;
const MAX_UNANSWERED = 128, MAX_UNANSWERED_BYTES = 131_072, MAX_ROOMS = 256, HEAD = 48;
const NAME = /^[A-Za-z0-9._~:@-]{1,128}$/;
const STAY_AWAY = new Set([1000, 1002, 1003, 1007, 1009]);
/** What must be there in messages that a client acts on. */
const FIELDS = {
  welcome: { resume: 'string', resumed: 'boolean', max_message_bytes: 'number' },
  ack: { id: 'number' },
  error: { code: 'string' },
  signal: { from: 'string' },
  broadcast: { from: 'string', room: 'string' },
  left: { room: 'string', reason: 'string' },
};
const TOLD = new Set(['joined', 'waiting', 'members_changed', 'left', 'ice_servers', 'moved']);

const isName = (name) => typeof name === 'string' && NAME.test(name);
const bytesOf = (text) => new TextEncoder().encode(text).length;

/** A request that was not taken. `code`: `queue_full`, `too_large`, `bad_name`, `not_connected`, `too_many_rooms` or `closed`. */
export class SendError extends Error {
  constructor(code) {
    super(`the request was not taken: ${code}`);
    this.code = code;
  }
}

/** Milliseconds before the `attempt`-th try in a row, from 0, so long after the loss that began the row. */
function delay(attempt, away, random, hint, later) {
  const window = Math.min(CAP, BASE * 2 ** Math.min(attempt, 16), Math.max(BASE, 2 * away));
  const wait = hint === null ? Math.floor(random * window) : Math.min(hint, MAX_HINT);
  return later ? Math.max(wait, AFTER_POLICY) : wait;
}

function staysAway({ code, status }) {
  if (code !== undefined) return STAY_AWAY.has(code) || (code >= 4400 && code <= 4499);
  return status !== undefined && status !== 429 && status < 500;
}

const tokenIsBad = ({ code, status }) => code === 4401 || code === 4003 || status === 401;

function write({ type, ...fields }, id) {
  return JSON.stringify(id === undefined ? { type, ...fields } : { type, id, ...fields });
}

export class Core {
  #options; #phase = { is: 'closed' }; #url = 0; #attempt = 0; #lostAt = 0; #resume = null; #hint = null; #hidden = false;
  #token = null; #renewingUntil = null; #maxBytes = 65_536;
  #nextId = 1; #tickets = 0; #sent = []; #sentBytes = 0; #queued = []; #queuedBytes = 0;
  #rooms = new Map(); #names = new Map(); #effects = [];

  /** @param {{clientId: string, urls?: number, tokens?: boolean, queue?: number, queueBytes?: number, timeoutMs?: number, session?: object}} options */
  constructor(options) {
    this.#options = { urls: 1, tokens: false, queue: 256, queueBytes: 1_048_576, timeoutMs: 60_000, ...options };
    if (options.session) this.restore(options.session);
  }

  /** Continues a session that `saved` had described. Only from the closed state. */
  restore({ resume, next_id, unanswered, queued, rooms, names }, now = 0) {
    const expires = now + this.#options.timeoutMs;
    this.#resume = resume;
    this.#nextId = next_id;
    this.#sent = unanswered.map(({ id, request }) => ({ ...entry(request), id, expires }));
    this.#queued = queued.map((request) => ({ ...entry(request), expires }));
    this.#count();
    for (const { room, ...data } of rooms) this.#rooms.set(room, data);
    for (const name of names) this.#names.set(name, now);
  }

  takeEffects() {
    return this.#effects.splice(0);
  }

  get state() {
    const { is } = this.#phase;
    return is === 'fetching' ? 'connecting' : is === 'suspended' ? 'waiting' : is;
  }

  get isSuspended() {
    return this.#phase.is === 'suspended';
  }

  /** When `tick` is due, or null. */
  get deadline() {
    const phase = this.#phase;
    const times = [this.#sent, this.#queued].map((queue) => queue.find(({ expires }) => expires !== null)?.expires);
    if (phase.is === 'fetching' || phase.is === 'connecting') times.push(phase.by);
    if (phase.is === 'waiting') times.push(phase.until);
    if (phase.is === 'connected') times.push(phase.answerBy ?? phase.pingAt, phase.sayBy, this.#renewingUntil ?? this.#token?.renewAt);
    const due = times.filter((time) => time !== null && time !== undefined);
    return due.length === 0 ? null : Math.min(...due);
  }

  /** Connects now, from the closed or suspended state or out of a wait. */
  start(now) {
    if (!['closed', 'suspended', 'waiting'].includes(this.#phase.is)) return;
    this.#out({ state: 'connecting', url: this.#url });
    if (this.#token && this.#token.renewAt !== null && this.#token.renewAt <= now) this.#token = null;
    if (this.#options.tokens && !this.#token) {
      this.#phase = { is: 'fetching', by: now + TOKEN_WITHIN };
      this.#out('ask_token');
    } else this.#open(now);
  }

  #open(now) {
    this.#hint = null;
    this.#phase = { is: 'connecting', by: now + WELCOME_WITHIN };
    const open = { url: this.#url };
    if (this.#resume !== null) open.resume = this.#resume;
    if (this.#token) {
      this.#token.shown += 1;
      open.token = this.#token.text;
    }
    this.#out({ open });
  }

  token(now, { token, valid_ms = null }) {
    this.#renewingUntil = null;
    const renewAt = valid_ms === null ? null : now + valid_ms - Math.min(RENEW_BEFORE, Math.floor(valid_ms / 10));
    this.#token = { text: token, renewAt, shown: 0 };
    if (this.#phase.is === 'fetching') this.#open(now);
    else if (this.#phase.is === 'connected') this.#write({ type: 'token', token });
  }

  tokenFailed(now, random) {
    if (this.#phase.is === 'fetching') this.lost(now, random, { fault: 'no_token' });
  }

  /** A timer. */
  tick(now, random) {
    this.#expire(now);
    const phase = this.#phase;
    if (phase.is === 'fetching' && now >= phase.by) this.lost(now, random, { fault: 'no_token' });
    else if (phase.is === 'connecting' && now >= phase.by + OVERSLEPT) phase.by = now + WELCOME_WITHIN;
    else if (phase.is === 'connecting' && now >= phase.by) this.#giveUp(now, random, 'no_welcome');
    else if (phase.is === 'waiting' && now >= phase.until) this.start(now);
    else if (phase.is === 'connected') this.#tend(now, random, phase);
  }

  #tend(now, random, phase) {
    const renew = this.#renewingUntil ?? this.#token?.renewAt ?? null;
    if (this.#options.tokens && renew !== null && renew <= now) {
      this.#renewingUntil = now + TOKEN_WITHIN;
      this.#out('ask_token');
    }
    if (phase.sayBy !== null && phase.sayBy <= now) this.#say(phase);
    if (phase.answerBy === null ? now >= phase.pingAt : now >= phase.answerBy + OVERSLEPT) this.#ping(now, phase);
    else if (phase.answerBy !== null && now >= phase.answerBy) this.#giveUp(now, random, 'silent');
  }

  #ping(now, phase) {
    phase.pingAt = now + PING_EVERY;
    phase.answerBy = now + ANSWER_WITHIN;
    this.#write({ type: 'ping' });
  }

  #say(phase) {
    phase.said = phase.n;
    phase.sayBy = null;
    this.#write({ type: 'received', n: phase.n });
  }

  /** The network may be back, or another. */
  wake(now, random) {
    const phase = this.#phase;
    if (phase.is === 'waiting' && phase.mayHurry) {
      const wait = delay(0, 0, random, null, false);
      if (now + wait >= phase.until) return;
      phase.until = now + wait;
      this.#out({ state: 'waiting', in_ms: wait, ...phase.why });
    } else if (phase.is === 'connected' && phase.answerBy === null) this.#ping(now, phase);
  }

  /** The page is hidden: its timers cannot be relied on. */
  hidden() {
    this.#hidden = true;
    if (this.#phase.is === 'connected' && this.#phase.sayBy !== null) this.#say(this.#phase);
  }

  shown(now, random) {
    this.#hidden = false;
    this.wake(now, random);
  }

  #giveUp(now, random, fault) {
    this.#out('drop');
    this.lost(now, random, { fault });
  }

  /** The socket has ended (`code`), the upgrade was refused (`status`), or nobody is there (`fault`). */
  lost(now, random, why) {
    const phase = this.#phase;
    if (['closed', 'suspended', 'waiting'].includes(phase.is)) return;
    const wasWelcome = phase.is === 'connected';
    if (wasWelcome && now - phase.welcomed >= SETTLED) this.#attempt = 0;
    let ends = staysAway(why);
    if (tokenIsBad(why)) {
      ends = !(this.#options.tokens && (wasWelcome || this.#token?.shown > 1));
      this.#token = null;
    }
    if (ends) return this.#end(why);
    const later = why.code === 1008;
    if (this.#attempt === 0) this.#lostAt = now;
    const wait = delay(this.#attempt++, now - this.#lostAt, random, this.#hint, later);
    this.#url = (this.#url + 1) % this.#options.urls;
    this.#phase = { is: 'waiting', until: now + wait, mayHurry: this.#hint === null && !later, why };
    this.#hint = null;
    this.#out({ state: 'waiting', in_ms: wait, ...why });
  }

  refused(now, random, { status, retry_after_ms = null }) {
    this.#hint = retry_after_ms;
    this.lost(now, random, { status });
  }

  /** Ends the session for good. */
  close() {
    if (this.#phase.is === 'closed') return;
    if (this.#phase.is === 'connected') this.#out({ close: GOODBYE });
    if (this.#phase.is === 'connecting') this.#out('drop');
    this.#end({});
  }

  /** Leaves the session as it is, for another page: `saved` comes out. */
  detach() {
    if (this.#phase.is === 'closed') return;
    const saved = this.#putAside();
    this.#end({});
    this.#out({ saved });
  }

  /** The same for a page that may be shown again: the session is kept here too, for `start`. */
  suspend() {
    if (this.#phase.is === 'closed' || this.#phase.is === 'suspended') return;
    const saved = this.#putAside();
    this.#phase = { is: 'suspended' };
    this.#hint = null;
    this.#attempt = 0;
    this.#out({ saved });
  }

  #putAside() {
    if (this.#phase.is === 'connected' || this.#phase.is === 'connecting') this.#out('drop');
    return {
      client_id: this.#options.clientId,
      resume: this.#resume,
      next_id: this.#nextId,
      unanswered: this.#sent.map(({ id, request }) => ({ id, request })),
      queued: this.#queued.filter(({ rejoins }) => !rejoins).map(({ request }) => request),
      rooms: [...this.#rooms].map(([room, data]) => ({ room, ...data })),
      names: [...this.#names.keys()].slice(-MAX_SAVED_NAMES),
    };
  }

  #end(why) {
    this.#phase = { is: 'closed' };
    this.#out({ state: 'closed', ...why });
    for (const { ticket } of [...this.#sent, ...this.#queued]) this.#settle(ticket, 'closed');
    this.#sent = [];
    this.#queued = [];
    this.#count();
    this.#rooms.clear();
    this.#resume = this.#hint = null;
    this.#attempt = 0;
    this.#nextId = 1;
  }

  /** Takes a `signal`, `join`, `leave` or `broadcast` and returns its ticket: its outcome comes as `settle`. */
  request(now, request) {
    if (this.#phase.is === 'closed') throw new SendError('closed');
    if (!isName(request.to ?? request.room)) throw new SendError('bad_name');
    if (request.type === 'join' && !this.#hasRoomFor(request.room)) throw new SendError('too_many_rooms');
    const added = { ...entry(request), ticket: this.#tickets + 1, expires: now + this.#options.timeoutMs };
    if (bytesOf(write(request, this.#nextId + this.#queued.length)) > this.#maxBytes) throw new SendError('too_large');
    const full = this.#queued.length >= this.#options.queue || this.#queuedBytes + added.bytes > this.#options.queueBytes;
    if (full && !(this.#queued.length === 0 && this.#hasRoom())) throw new SendError('queue_full');
    this.#tickets += 1;
    this.#queued.push(added);
    this.#queuedBytes += added.bytes;
    this.#flush();
    return this.#tickets;
  }

  /** Whether this room can be joined, beside those that are asked for and not answered yet. */
  #hasRoomFor(room) {
    const asked = [...this.#sent, ...this.#queued].filter(({ request }) => request.type === 'join');
    const names = new Set([...this.#rooms.keys(), ...asked.map(({ request }) => request.room)]);
    return names.size < MAX_ROOMS || names.has(room);
  }

  /** Asks for `members` or `ice_servers`, on an open connection alone. */
  ask(message) {
    if (this.#phase.is === 'closed') throw new SendError('closed');
    if (this.#phase.is !== 'connected') throw new SendError('not_connected');
    this.#write(message);
  }

  /** A text has come on the socket. */
  text(now, random, text) {
    const phase = this.#phase;
    if (phase.is !== 'connecting' && phase.is !== 'connected') return;
    if (phase.is === 'connected') phase.answerBy = null;
    const message = read(text);
    if (message === null || !this.#hear(now, phase, message)) this.#giveUp(now, random, 'nonsense');
  }

  #hear(now, phase, message) {
    if (message.type === 'goodbye') this.#hint = message.retry_after_ms ?? null;
    if (phase.is === 'connecting') {
      if (message.type === 'welcome') this.#welcome(now, message);
      return !(message.type in FIELDS) || message.type === 'welcome';
    }
    switch (message.type) {
      case 'welcome':
        return false;
      case 'signal':
      case 'broadcast':
        return this.#receive(now, phase, message);
      case 'ack':
      case 'error':
        this.#answer(message);
        return true;
      case 'left':
        this.#rooms.delete(message.room);
    }
    if (TOLD.has(message.type)) this.#out({ tell: message });
    return true;
  }

  #welcome(now, welcome) {
    this.#phase = { is: 'connected', welcomed: now, pingAt: now + PING_EVERY, answerBy: null, n: 0, said: 0, sayBy: null };
    this.#resume = welcome.resume;
    this.#maxBytes = welcome.max_message_bytes;
    this.#out({ state: 'connected', resumed: welcome.resumed, welcome });
    if (welcome.resumed) for (const { request, id } of this.#sent) this.#write(request, id);
    else this.#startAgain();
    this.#flush();
  }

  #startAgain() {
    this.#nextId = 1;
    const left = this.#sent.map((sent) => ({ ...sent, hasLeft: true }));
    const kept = [...left, ...this.#queued].filter(({ rejoins, expires }) => !rejoins && expires !== null);
    const joins = [...this.#rooms].map(([room, data]) => ({ ...entry({ type: 'join', room, ...data }), rejoins: true }));
    this.#sent = [];
    this.#queued = [...joins, ...kept];
    this.#count();
  }

  #receive(now, phase, { n, m, ...message }) {
    if (n === undefined || m === undefined) {
      this.#out({ tell: message });
      return true;
    }
    if (n !== phase.n + 1) return false;
    phase.n = n;
    for (const [name, seen] of this.#names) {
      if (this.#names.size < MAX_NAMES && now - seen < NAME_KNOWN) break;
      this.#names.delete(name);
    }
    const isNews = !this.#names.delete(m);
    this.#names.set(m, now);
    if (isNews) this.#out({ tell: message });
    if (this.#hidden || phase.n - phase.said >= MOST_UNSAID) this.#say(phase);
    else phase.sayBy ??= now + SAY_WITHIN;
    return true;
  }

  #answer(message) {
    const at = this.#sent.findIndex(({ id }) => id === message.id);
    if (at < 0) {
      if (message.type === 'error' && message.id === undefined) this.#out({ tell: message });
      return;
    }
    const [{ ticket, request, rejoins, bytes }] = this.#sent.splice(at, 1);
    this.#sentBytes -= bytes;
    if (message.type === 'ack') {
      const { type, room, ...data } = request;
      if (type === 'join') this.#rooms.set(room, data);
      if (type === 'leave') this.#rooms.delete(room);
      this.#settle(ticket, 'delivered', message.delivered);
    } else {
      if (rejoins) {
        this.#rooms.delete(request.room);
        this.#out({ tell: { type: 'left', room: request.room, reason: message.code } });
      }
      this.#settle(ticket, { refused: message.code });
    }
    this.#flush();
  }

  #expire(now) {
    for (const sent of this.#sent) {
      if (sent.expires === null || sent.expires > now) continue;
      this.#settle(sent.ticket, { expired: { sent: true } });
      sent.expires = sent.ticket = null;
    }
    const isOver = ({ expires }) => expires !== null && expires <= now;
    for (const { ticket, hasLeft } of this.#queued.filter(isOver)) this.#settle(ticket, { expired: { sent: hasLeft } });
    this.#queued = this.#queued.filter((queued) => !isOver(queued));
    this.#count();
  }

  #hasRoom() {
    return this.#sent.length < MAX_UNANSWERED && this.#sentBytes < MAX_UNANSWERED_BYTES;
  }

  #flush() {
    while (this.#phase.is === 'connected' && this.#queued.length > 0 && this.#hasRoom()) {
      const next = this.#queued.shift();
      next.id = this.#nextId++;
      this.#sent.push(next);
      this.#queuedBytes -= next.bytes;
      this.#sentBytes += next.bytes;
      this.#write(next.request, next.id);
    }
  }

  #count() {
    const sum = (queue) => queue.reduce((total, { bytes }) => total + bytes, 0);
    [this.#sentBytes, this.#queuedBytes] = [sum(this.#sent), sum(this.#queued)];
  }

  #settle(ticket, as, count) {
    if (ticket !== null) this.#out(count === undefined ? { settle: ticket, as } : { settle: ticket, as, count });
  }

  #write(message, id) {
    this.#out({ write: write(message, id) });
  }

  #out(effect) {
    this.#effects.push(effect);
  }
}

const SUBPROTOCOL = 'signaling.v1';
/** Longest that a timer can be set for. */
const MAX_TIMER = 2_147_483_647;
const STORED = 'signaling-mesh:';
const CLAIM = 'signaling-mesh-claim:';
/** How long the claim of a saved session is kept: twice as long as any server keeps a session. */
const CLAIM_KEPT = 600_000;
/** The client ends its session. */
const GOODBYE = 1000;
/** The client leaves this socket and keeps its session. */
const SOCKET_LEFT = 4001;

/** A request was not carried out. `outcome`: `closed`, `{refused: code}` or `{expired: {sent}}`. */
export class RequestError extends Error {
  constructor(outcome) {
    super(`not known to have been delivered: ${JSON.stringify(outcome)}`);
    this.outcome = outcome;
    this.code = outcome.refused ?? (outcome.expired ? 'expired' : outcome);
  }
}

/**
 * A client that connects and comes back. Events, all with `detail`: `state` (`{state, ...}`; `connected` has `welcome`), and
 * each message by its type: `signal`, `broadcast`, `joined`, `waiting`, `members_changed`, `left`, `ice_servers`, `moved`, `error`.
 */
export class Client extends EventTarget {
  #core; #urls; #WebSocket; #socket = null; #timer; #token; #saves; #settlers = new Map();
  #iceServers = []; #node = null;
  /** The text that was stored when the session was suspended, or null. */
  #saved = null;
  /** Aborted to stop listening to the browser, when the session has ended. */
  #listening = null;
  #isActing = false;

  /**
   * @param {{urls: string[], clientId: string, token?: () => Promise<{token: string, valid_ms?: number}>,
   *   WebSocket?: typeof WebSocket, storage?: Storage | null, queue?: number, queueBytes?: number, timeoutMs?: number}} options
   *   `urls`: of the balancers' `/v1/connect`; `storage`: where a reload finds the session, sessionStorage unless given
   */
  constructor({ urls, clientId, token, WebSocket = globalThis.WebSocket, storage = globalThis.sessionStorage ?? null, ...limits }) {
    super();
    this.#urls = urls;
    this.#WebSocket = WebSocket;
    this.#token = token;
    this.#saves = new SavedSession(storage, clientId);
    this.clientId = clientId;
    this.#core = new Core({ clientId, urls: urls.length, tokens: token !== undefined, ...limits });
  }

  get state() {
    return this.#core.state;
  }

  /** The latest that a server has told, for `RTCPeerConnection`. */
  get iceServers() {
    return this.#iceServers;
  }

  /** Which node serves this client, where the mesh tells; else null. */
  get node() {
    return this.#node;
  }

  /**
   * Connects now, also when a try was due later. Goes on with the session that a page of this tab
   * has left, if there is one.
   */
  connect() {
    this.#do((now) => {
      this.#takeSaved(now);
      this.#core.start(now);
    });
  }

  /** Resolves when the recipient has it; rejects with a RequestError when that is not known. Throws a SendError if it is not taken. */
  signal(to, data, { ttlMs } = {}) {
    return this.#request({ type: 'signal', to, data, ...(ttlMs === undefined ? {} : { ttl_ms: ttlMs }) });
  }

  join(room, data) {
    return this.#request({ type: 'join', room, ...(data === undefined ? {} : { data }) });
  }

  leave(room) {
    return this.#request({ type: 'leave', room });
  }

  broadcast(room, data) {
    return this.#request({ type: 'broadcast', room, data });
  }

  /** Answered by a `joined` event. */
  members(room, after) {
    this.#do(() => this.#core.ask({ type: 'members', room, ...(after === undefined ? {} : { after }) }));
  }

  /** Ends the session, also one that was left to the next page. */
  close() {
    this.#do(() => {
      this.#saves.take();
      this.#core.close();
    });
  }

  /** Leaves the session to the next page of this tab, or to the next `connect`. */
  detach() {
    this.#do(() => this.#core.detach());
  }

  #request(request) {
    return new Promise((resolve, reject) => {
      this.#do((now) => this.#settlers.set(this.#core.request(now, request), { resolve, reject }));
    });
  }

  #takeSaved(now) {
    if (this.state !== 'closed' && !this.#core.isSuspended) return;
    const text = this.#saves.take();
    if (this.#core.isSuspended) {
      // Nothing has happened to the session meanwhile: what this page knows of it is all there is.
      if (text === this.#saved) return;
      this.#core.close();
    }
    const session = readSession(text ?? '', this.clientId);
    if (session) this.#core.restore(session, now);
  }

  #listen() {
    this.#listening = new AbortController();
    const { signal } = this.#listening;
    const on = (target, type, step) =>
      target?.addEventListener?.(type, (event) => this.#do((now, random) => step(now, random, event)), { signal });
    const wake = (now, random) => this.#core.wake(now, random);
    on(globalThis, 'online', wake);
    on(globalThis, 'offline', wake);
    // A persisted page may be shown again as it was.
    on(globalThis, 'pagehide', (now, random, { persisted }) => (persisted ? this.#core.suspend() : this.#core.detach()));
    on(globalThis, 'pageshow', (now, random, { persisted }) => persisted && this.#core.isSuspended && this.connect());
    on(globalThis.document, 'visibilitychange', (now, random) =>
      globalThis.document.hidden ? this.#core.hidden() : this.#core.shown(now, random));
  }

  /** What listeners ask for meanwhile is carried out behind what comes before it: requests leave in the order of their numbers. */
  #do(step) {
    try {
      step(Math.floor(performance.now()), Math.random());
    } finally {
      if (!this.#isActing) this.#carryOut();
    }
  }

  #carryOut() {
    this.#isActing = true;
    try {
      for (let effects = this.#core.takeEffects(); effects.length > 0; effects = this.#core.takeEffects()) {
        for (const effect of effects) this.#act(effect);
      }
    } finally {
      this.#isActing = false;
      this.#schedule();
    }
  }

  #act(effect) {
    if (effect === 'drop') this.#drop(SOCKET_LEFT);
    else if (effect === 'ask_token') this.#askToken();
    else if (effect.open) this.#open(effect.open);
    else if (effect.close) this.#drop(effect.close);
    else if (effect.write) this.#socket?.send(effect.write);
    else if (effect.saved) this.#saved = this.#saves.put(effect.saved);
    else if (effect.tell) this.#tell(effect.tell);
    else if (effect.state) this.#changeState(effect);
    else if (effect.settle) this.#settle(effect);
  }

  #tell(message) {
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
      this.#listening?.abort();
      this.#listening = null;
    } else if (this.#listening === null) this.#listen();
    this.#emit('state', effect);
  }

  #settle({ settle, as, count }) {
    const settler = this.#settlers.get(settle);
    this.#settlers.delete(settle);
    if (as === 'delivered') settler?.resolve({ members: count });
    else settler?.reject(new RequestError(as));
  }

  #open({ url, resume, token }) {
    const address = new URL(this.#urls[url]);
    address.searchParams.set('client_id', this.clientId);
    address.searchParams.set('reliable', '1');
    const protocols = [SUBPROTOCOL];
    if (resume) protocols.push(`resume.${resume}`);
    if (token) protocols.push(`bearer.${token}`);
    const socket = new this.#WebSocket(address.href, protocols);
    const current = (step) => (event) => {
      if (socket === this.#socket) this.#do((now, random) => step(now, random, event));
    };
    socket.onmessage = current((now, random, { data }) => this.#core.text(now, random, data));
    socket.onclose = current((now, random, { code }) => {
      this.#socket = null;
      this.#core.lost(now, random, { code });
    });
    this.#socket = socket;
  }

  #drop(code) {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close(code);
  }

  async #askToken() {
    try {
      const token = await this.#token();
      this.#do((now) => this.#core.token(now, token));
    } catch {
      this.#do((now, random) => this.#core.tokenFailed(now, random));
    }
  }

  #schedule() {
    clearTimeout(this.#timer);
    const { deadline } = this.#core;
    if (deadline === null) return;
    const wait = Math.min(MAX_TIMER, Math.max(0, deadline - Math.floor(performance.now())));
    this.#timer = setTimeout(() => this.#do((now, random) => this.#core.tick(now, random)), wait);
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/**
 * The session that a page leaves to the next page of its tab.
 *
 * A browser copies the sessionStorage of a tab that it duplicates. So a saved session names a
 * claim, an entry of the localStorage that all tabs share. The first page that takes the session
 * removes the claim. A copy without its claim is void.
 */
class SavedSession {
  #storage; #key;

  constructor(storage, clientId) {
    this.#storage = storage;
    this.#key = STORED + clientId;
  }

  /** Returns the text that is stored now, or null where there is no room for it. */
  put(session) {
    if (this.#storage === null) return null;
    try {
      const text = JSON.stringify({ ...session, claim: makeClaim() });
      this.#storage.setItem(this.#key, text);
      return text;
    } catch {
      return null;
    }
  }

  /** Returns the text that was stored, once, or null. */
  take() {
    const text = this.#storage?.getItem(this.#key) ?? null;
    this.#storage?.removeItem(this.#key);
    return text !== null && takeClaim(text) ? text : null;
  }
}

/** The key of a new claim; undefined where pages share no storage. */
function makeClaim() {
  try {
    const claims = globalThis.localStorage;
    const keys = Array.from({ length: claims.length }, (_, at) => claims.key(at)).filter((key) => key.startsWith(CLAIM));
    for (const key of keys) if (Date.now() - Number(claims.getItem(key)) >= CLAIM_KEPT) claims.removeItem(key);
    const claim = CLAIM + crypto.getRandomValues(new Uint32Array(4)).join('-');
    claims.setItem(claim, String(Date.now()));
    return claim;
  } catch {
    return undefined;
  }
}

/** Whether a stored session is this page's to take. */
function takeClaim(text) {
  try {
    const { claim } = JSON.parse(text);
    if (claim === undefined) return true;
    const isFree = globalThis.localStorage.getItem(claim) !== null;
    globalThis.localStorage.removeItem(claim);
    return isFree;
  } catch {
    return false;
  }
}

function entry(request) {
  return { id: 0, ticket: null, request, rejoins: false, bytes: HEAD + bytesOf(write(request)), expires: null, hasLeft: false };
}

/** What an earlier page of this client has left, or undefined if it is nothing of use. */
function readSession(text, clientId) {
  try {
    const session = JSON.parse(text);
    const lists = [session.unanswered, session.queued, session.rooms, session.names];
    const requests = [...session.unanswered.map(({ request }) => request), ...session.queued];
    const isWhole =
      session.client_id === clientId &&
      (session.resume === null || typeof session.resume === 'string') &&
      Number.isSafeInteger(session.next_id) &&
      lists.every(Array.isArray) &&
      session.unanswered.every(({ id }) => Number.isSafeInteger(id)) &&
      requests.every(({ type }) => typeof type === 'string') &&
      session.rooms.every(({ room }) => isName(room));
    return isWhole ? session : undefined;
  } catch {
    return undefined;
  }
}

/** The message, or null if it makes no sense. */
function read(text) {
  try {
    const message = JSON.parse(text);
    const fields = Object.entries(FIELDS[message.type] ?? {});
    return typeof message.type === 'string' && fields.every(([name, type]) => typeof message[name] === type) ? message : null;
  } catch {
    return null;
  }
}
