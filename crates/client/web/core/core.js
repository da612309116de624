import { Connection } from './connection.js';
import { GOODBYE, POLICY_VIOLATION, isFinal, isTokenRejected } from './ending.js';
import { needsWelcome, parse } from './incoming.js';
import { Members } from './members.js';
import { MeshError } from './mesh_error.js';
import { assertName, bytesOf } from './outgoing.js';
import { Pacer } from './pacer.js';
import { Requests } from './requests.js';
import { RetryState } from './retry_state.js';
import { Rooms } from './rooms.js';
import { DEFAULT_MESSAGE_BYTES, FIRST_BACKOFF, ICE_RETRY, MAX_HINT, MAX_REASON } from './rules.js';
import { MIN_ICE_WAIT, MIN_POLICY_WAIT } from './rules.js';
import { OPEN_TIMEOUT, PATIENT_ATTEMPT, PAUSE_TOLERANCE, STABLE_AFTER, TOKEN_TIMEOUT, WELCOME_TIMEOUT } from './rules.js';
import { SeenMessages } from './seen_messages.js';
import { Tokens } from './tokens.js';

/**
 * Decisions of the client. Nothing here reads a clock, draws a random number or touches the
 * network. Times (`now`, in milliseconds) and random numbers in [0, 1) go in, `take` returns
 * what to do, and `deadline` returns when `tick` is due. `client.js` calls it. The examples in
 * `../../vectors` test the same rules in the Rust SDK.
 *
 * | effect | action |
 * |---|---|
 * | `{open: {url, resume?, token?}}` | open a socket to the URL with this index |
 * | `'drop'` | leave the socket, or stop opening it; the session stays |
 * | `{close}` | close the socket with this code |
 * | `{write}` | send this text |
 * | `'ask_token'` | call the application's token callback |
 * | `{state, ...}` | report the state of the connection. `repeat`: a wait was shortened |
 * | `{event, details?}` | report a message of the server; `details` of a `MeshError` |
 * | `{room, type, event}` | report a change of a room: `join`, `update`, `leave` or `state` |
 * | `{settle, code?, details?, count?}` | report the outcome of the request with this ticket: delivered, or the `code` of an error |
 * | `{saved}` | store the session for the next page |
 */
export class Core {
  #clientId;
  /** Number of URLs. */
  #urls;
  /** Index of the URL for the next attempt. */
  #url = 0;
  /**
   * `is` is `closed`, `suspended`, `fetching` (a token), `connecting`, `connected` or `waiting`.
   * `connected` has the `connection`. `start` and `limit` end an attempt, with the `fault`. `until`
   * ends the token callback or a wait. A wait has `why` and `isOwn`, which is false if the
   * server requested it.
   */
  #phase = { is: 'closed' };
  #retries = new RetryState();
  /** Attempts in a row without a `welcome`. */
  #attempts = 0;
  /** Token that resumes the session, or null. */
  #resume = null;
  #tokens;
  /** Wait that the server of this socket requested; undefined without one. */
  #hint;
  #maxMessageBytes = DEFAULT_MESSAGE_BYTES;
  #requests;
  #pacer = new Pacer();
  #rooms = new Rooms();
  /** Rooms that the application joins, waits for or is in, by name. */
  #membersByRoom = new Map();
  /** Time at which fresh ICE servers are requested. */
  #iceAt = Infinity;
  #seen = new SeenMessages();
  /** Time from the latest ping to its pong, in milliseconds; null before. */
  #roundTripMs = /** @type {number | null} */ (null);
  #isHidden = false;
  #effects = [];

  /**
   * @param {object} options
   * @param {string} options.clientId
   * @param {number} options.urls number of URLs
   * @param {boolean} options.tokens whether there is a token callback
   * @param {number} [options.queue] maximum queued requests: 4,096
   * @param {number} [options.queueBytes] maximum bytes of queued requests: 2 MiB
   * @param {number} [options.timeoutMs] time limit of a request, in milliseconds: 60,000
   */
  constructor({ clientId, urls, tokens, ...limits }) {
    this.#clientId = clientId;
    this.#urls = urls;
    this.#tokens = new Tokens(tokens);
    this.#requests = new Requests(limits);
  }

  /** Continues the session of a `saved` effect. Called in the closed state alone. */
  restore(now, session) {
    this.#resume = session.resume;
    this.#requests.restore(now, session);
    this.#rooms = new Rooms(session.rooms, now);
    // An unanswered leave is sent again. Its room stays out.
    const left = this.#requests.rooms('leave');
    for (const { room } of session.rooms) if (!left.includes(room)) this.#follow(room);
    for (const room of this.#requests.rooms('join')) this.#follow(room);
    for (const name of session.names) this.#seen.add(now, name);
  }

  /** Takes the effects since the last call, in order. */
  take() {
    return this.#effects.splice(0);
  }

  /** `closed`: the client waits for `start`. `suspended`: `suspend` was called last. */
  get is() {
    return this.#phase.is;
  }

  /** Whether a socket is open or opens. */
  get #hasSocket() {
    return this.#phase.connection || this.#phase.is === 'connecting';
  }

  /** Whether there is no attempt and no connection. */
  get #isIdle() {
    return !this.#hasSocket && this.#phase.is !== 'fetching';
  }

  /** The room that the application joins, waits for or is in; undefined: it is out. */
  room(name) {
    return this.#membersByRoom.get(name);
  }

  /** Numbers of requests, and the latest round trip. */
  get stats() {
    return { ...this.#requests.stats, roundTripMs: this.#roundTripMs };
  }

  /** Time at which `tick` is due, in milliseconds like `now`; Infinity for never. */
  get deadline() {
    return Math.min(this.#phaseDeadline(), this.#requests.deadline);
  }

  #phaseDeadline() {
    const phase = this.#phase;
    if (phase.is === 'connecting') return phase.start + phase.limit;
    if (!phase.connection) return phase.until ?? Infinity;
    const pages = [...this.#membersByRoom.values()].map(({ pageAt }) => pageAt);
    return Math.min(phase.connection.deadline, this.#tokens.deadline, this.#rooms.deadline, this.#iceAt, this.#pacer.freeAt, ...pages);
  }

  /** Connects now if the client is closed, is suspended or waits. */
  start(now) {
    if (!this.#isIdle) return;
    this.#hint = undefined;
    this.#emit({ state: 'connecting', url: this.#url });
    if (this.#tokens.isMissing(now)) {
      this.#phase = { is: 'fetching', until: now + TOKEN_TIMEOUT };
      this.#emit('ask_token');
    } else this.#open(now);
  }

  #open(now) {
    const limit = ++this.#attempts % PATIENT_ATTEMPT ? OPEN_TIMEOUT : WELCOME_TIMEOUT;
    this.#phase = { is: 'connecting', start: now, limit, fault: 'unreachable' };
    this.#emit({ open: { url: this.#url, resume: this.#resume ?? undefined, token: this.#tokens.use() } });
  }

  /** Handles the open socket of an attempt, before its `welcome`. */
  opened() {
    if (this.#phase.is === 'connecting') Object.assign(this.#phase, { limit: WELCOME_TIMEOUT, fault: 'no_welcome' });
  }

  /** Handles a token from the callback. */
  token(now, _random, token) {
    this.#tokens.set(now, token);
    if (this.#phase.is === 'fetching') this.#open(now);
    else if (this.#phase.is === 'connected') this.#write({ type: 'token', token: token.token });
  }

  /** Handles a failed callback. A failed renewal is retried, with the old token still in use. */
  tokenFailed(now, random) {
    if (this.#phase.is === 'fetching') this.lost(now, random, { fault: 'no_token' });
  }

  /** Handles expired timers. */
  tick(now, random) {
    for (const expired of this.#requests.expire(now)) {
      this.#fail(expired, 'expired', 'no answer in time');
      this.#gaveUp(expired, 'expired');
    }
    const phase = this.#phase;
    if (phase.is === 'connected') this.#tend(now, random, phase.connection);
    else if (now < this.#phaseDeadline()) return;
    else if (phase.is === 'fetching') this.tokenFailed(now, random);
    else if (phase.is === 'waiting') this.start(now);
    // The page was paused: the time of the attempt starts anew.
    else if (now >= this.#phaseDeadline() + PAUSE_TOLERANCE) phase.start = now;
    else this.#giveUp(now, random, phase.fault);
  }

  #tend(now, random, connection) {
    if (this.#tokens.due(now)) this.#emit('ask_token');
    const rejoin = this.#rooms.due(now, () => this.#requests.rooms('join'));
    if (rejoin) this.#requests.add(rejoin);
    this.#flush(now);
    if (now >= this.#iceAt) {
      this.#iceAt = now + ICE_RETRY;
      this.#write({ type: 'ice_servers' });
    }
    let due;
    while ((due = connection.due(now))) {
      if (due === 'silent') return this.#giveUp(now, random, 'silent');
      this.#write(due);
    }
  }

  /**
   * Handles a network change. Shortens a wait that the server did not request, or sends a ping on
   * an open socket.
   */
  networkChanged(now, random) {
    const phase = this.#phase;
    if (phase.is === 'waiting' && phase.isOwn) {
      const wait = Math.floor(random * FIRST_BACKOFF);
      if (now + wait < phase.until) {
        phase.until = now + wait;
        this.#emit({ state: 'waiting', retryInMs: wait, ...phase.why, repeat: true });
      }
    } else if (phase.connection?.answerBy === Infinity) {
      this.#write(phase.connection.ping(now));
    }
  }

  /** Handles a page that is hidden: its timers are late, so messages are acknowledged at once. */
  hidden() {
    this.#isHidden = true;
    if (this.#phase.connection?.ackAt < Infinity) this.#write(this.#phase.connection.received());
  }

  /** Handles a page that is visible again. */
  shown(now, random) {
    this.#isHidden = false;
    this.networkChanged(now, random);
  }

  #giveUp(now, random, fault) {
    this.#emit('drop');
    this.lost(now, random, { fault });
  }

  /**
   * Handles the end of a socket or a failed attempt: waits for the next one, or closes. Does
   * nothing while closed, suspended or waiting.
   *
   * @param {number} now
   * @param {number} random
   * @param {import('./ending.js').Ending} ending
   */
  lost(now, random, { reason, ...ending }) {
    if (this.#isIdle) return;
    const why = { ...ending, reason: reason?.slice(0, MAX_REASON) || undefined };
    const phase = this.#phase;
    const wasWelcome = phase.is === 'connected';
    if (wasWelcome && now - phase.connection.start >= STABLE_AFTER) this.#retries = new RetryState();
    const ends = isTokenRejected(why) ? !this.#tokens.reject(wasWelcome) : isFinal(why);
    if (ends) return this.#end(why);
    const least = why.code === POLICY_VIOLATION ? MIN_POLICY_WAIT : 0;
    // An attempt without an answer was a wait itself.
    const waited = why.fault === 'unreachable' ? now - phase.start : 0;
    const backoff = Math.floor(random * this.#retries.window(now)) - waited;
    const wait = Math.max(least, Math.min(this.#hint ?? backoff, MAX_HINT));
    this.#url = (this.#url + 1) % this.#urls;
    this.#phase = { is: 'waiting', until: now + wait, isOwn: this.#hint === undefined && !least, why };
    this.#emit({ state: 'waiting', retryInMs: wait, ...why });
  }

  /**
   * Ends this client. An open socket closes with 1000, which ends the session in the mesh too.
   *
   * @param {number} [_now]
   * @param {number} [_random]
   * @param {import('./ending.js').Ending} [why] absent: the application wants it
   */
  close(_now, _random, why) {
    if (this.#phase.is === 'closed') return;
    if (this.#hasSocket) this.#emit(this.#phase.connection ? { close: GOODBYE } : 'drop');
    this.#end(why);
  }

  /** Ends this client, and saves the session for another page. Does nothing while closed. */
  detach() {
    if (this.#phase.is === 'closed') return;
    const saved = this.#dropAndSave();
    this.#end();
    this.#emit({ saved });
  }

  /** Saves the session for another page. The client keeps it too, for `start`. */
  suspend() {
    if (this.#phase.is === 'closed' || this.#phase.is === 'suspended') return;
    const saved = this.#dropAndSave();
    this.#phase = { is: 'suspended' };
    this.#retries = new RetryState();
    this.#emit({ saved });
  }

  #dropAndSave() {
    if (this.#hasSocket) this.#emit('drop');
    return {
      client_id: this.#clientId,
      resume: this.#resume,
      ...this.#requests.save(),
      rooms: this.#rooms.save(),
      names: this.#seen.save(),
    };
  }

  /** @param {import('./ending.js').Ending} [why] */
  #end(why) {
    this.#phase = { is: 'closed' };
    this.#emit({ state: 'closed', ...why });
    for (const request of this.#requests.clear()) this.#fail(request, 'closed');
    for (const room of this.#membersByRoom.keys()) this.#out(room, 'closed');
    this.#rooms = new Rooms();
    this.#resume = null;
    this.#retries = new RetryState();
    this.#attempts = 0;
  }

  /**
   * Accepts a `signal`, `join`, `leave` or `broadcast` and returns its ticket. The outcome is a
   * `settle` effect.
   *
   * @throws {MeshError}
   * @throws {TypeError} if the request cannot be written as JSON
   */
  request(now, request) {
    const { type, room } = request;
    if (this.#phase.is === 'closed') throw new MeshError('closed');
    assertName(request.to ?? room);
    if (type === 'join' && !this.#rooms.hasPlace(room, this.#requests.rooms('join'))) {
      throw new MeshError('too_many_rooms');
    }
    const ticket = this.#requests.push(now, request, this.#maxMessageBytes);
    if (type === 'join') this.#follow(room);
    if (type === 'leave') {
      this.#rooms.leave(room);
      this.#out(room, 'left');
    }
    this.#flush(now);
    return ticket;
  }

  /**
   * Cancels a request without an outcome. A sent one keeps its number.
   *
   * @returns {boolean | undefined} whether it was sent; undefined if it has its outcome
   */
  cancel(_now, _random, ticket) {
    const cancelled = this.#requests.cancel(ticket);
    if (cancelled) this.#gaveUp(cancelled, 'aborted');
    return cancelled?.sent;
  }

  /** Ends a room whose last join is over. If the mesh still executes it, the client leaves. */
  #gaveUp({ type, room }, reason) {
    if (type !== 'join' || this.#requests.wants(room) || this.#rooms.lacksSeat(room)) return;
    if (this.room(room)?.state === 'joining') this.#out(room, reason);
  }

  #follow(room) {
    if (this.room(room)) return;
    const members = new Members(room, this.#clientId, this.#effects);
    this.#membersByRoom.set(room, members);
    members.enter('joining');
  }

  #out(room, reason) {
    this.room(room)?.enter('out', reason);
    this.#membersByRoom.delete(room);
  }

  /** Handles a text message from the socket. */
  text(now, random, text) {
    const { connection } = this.#phase;
    if (!this.#hasSocket) return;
    if (connection) connection.answerBy = Infinity;
    const message = parse(text);
    const isRight = message && this.#handle(now, connection, message);
    if (!isRight) this.#giveUp(now, random, 'protocol_error');
    this.#flush(now);
  }

  /** Returns `false` after a protocol error. */
  #handle(now, connection, message) {
    const { type } = message;
    if (type === 'goodbye') this.#hint = message.retry_after_ms;
    if (type === 'welcome') return !connection && this.#welcome(now, message);
    if (!connection) return !needsWelcome(message);
    if (type === 'signal' || type === 'broadcast') return this.#receive(now, connection, message);
    const members = this.#followed(message.room);
    if (type === 'ack') this.#acknowledged(message);
    if (type === 'error') this.#failed(now, message);
    if (type === 'joined') members?.joined(now, message);
    if (type === 'waiting') members?.waiting(message);
    if (type === 'members_changed') members?.changed(message);
    if (type === 'left') this.#left(message);
    if (type === 'pong') this.#roundTripMs = connection.pong(now);
    if (type === 'ice_servers') this.#refreshIce(now, message);
    if (type === 'ice_servers' || type === 'moved') this.#emit({ event: message });
    return true;
  }

  /** Returns the room of a message; undefined if it precedes the answer to a `leave`. */
  #followed(room) {
    if (this.room(room) && !this.#requests.rooms('leave').includes(room)) return this.room(room);
  }

  #left({ room, reason }) {
    this.#rooms.leave(room);
    const members = this.#followed(room);
    // A pending join brings the client back.
    if (members && this.#requests.wants(room)) members.enter('joining', reason);
    else if (members) this.#out(room, reason);
  }

  /** Requests ICE servers again once half of the credentials' time is over. */
  #refreshIce(now, { ice_valid_ms: validMs }) {
    const half = typeof validMs === 'number' ? Math.floor(validMs / 2) : Infinity;
    this.#iceAt = now + Math.max(MIN_ICE_WAIT, half);
  }

  /** Returns `true`: the socket may be used. */
  #welcome(now, welcome) {
    this.#phase = { is: 'connected', connection: new Connection(now) };
    this.#attempts = 0;
    for (const members of this.#membersByRoom.values()) members.lost();
    this.#resume = welcome.resume;
    this.#maxMessageBytes = welcome.max_message_bytes;
    this.#pacer.start(now, welcome.rate ?? {});
    this.#refreshIce(now, welcome);
    this.#emit({ state: 'connected', welcome });
    if (welcome.resumed) this.#requests.resume();
    else this.#requests.restart(this.#rooms.restart());
    return true;
  }

  #receive(now, connection, { n, m: name, ...message }) {
    if (n === undefined || name === undefined) {
      this.#emit({ event: message });
      return true;
    }
    if (!connection.receive(now, n)) return false;
    if (this.#seen.add(now, name)) this.#emit({ event: message });
    if (this.#isHidden || connection.mustAcknowledge) this.#write(connection.received());
    return true;
  }

  #acknowledged({ id, delivered }) {
    const { ticket, type, room, text, isOwn } = this.#requests.answered(id) ?? {};
    if (type === 'join') {
      const isWanted = isOwn ? this.#rooms.lacksSeat(room) : this.#followed(room);
      if (isWanted) this.#rooms.enter(JSON.parse(text));
      else if (!this.room(room) && !this.#requests.rooms('leave').includes(room)) {
        this.#requests.add({ type: 'leave', room });
      }
    }
    this.#settle(ticket, { count: delivered });
  }

  #failed(now, error) {
    const { id, code, message, retry_after_ms: wait } = error;
    const details = { message, retryAfterMs: wait, wasSent: true };
    const answered = this.#requests.answered(id) ?? {};
    const { ticket, room, isOwn } = answered;
    if (!id) {
      const isPage = this.room(error.room)?.failed(now, wait);
      if (!isPage) this.#emit({ event: error, details });
    } else if (!isOwn) {
      this.#settle(ticket, { code, details });
      this.#gaveUp(answered, code);
    } else if (this.#rooms.lacksSeat(room)) {
      if (wait >= 0 && code !== 'forbidden') this.#rooms.retry(now, room, wait);
      else {
        this.#rooms.leave(room);
        if (!this.#requests.wants(room)) this.#out(room, code);
      }
    }
  }

  /** Sends pages and queued requests within the limits and the pace. */
  #flush(now) {
    if (!this.#phase.connection) return;
    let text;
    this.#pacer.freeAt = Infinity;
    for (const members of this.#membersByRoom.values()) {
      if (now < members.pageAt) continue;
      text = JSON.stringify(members.page());
      if (!this.#pacer.take(now, bytesOf(text))) {
        members.pageAt = this.#pacer.freeAt;
        return;
      }
      this.#emit({ write: text });
    }
    while ((text = this.#requests.next(now, this.#pacer))) this.#emit({ write: text });
  }

  #fail({ ticket, sent: wasSent }, code, message) {
    this.#settle(ticket, { code, details: { message, wasSent } });
  }

  #settle(ticket, outcome) {
    if (ticket) this.#emit({ settle: ticket, ...outcome });
  }

  #write(message) {
    this.#emit({ write: JSON.stringify(message) });
  }

  #emit(effect) {
    this.#effects.push(effect);
  }
}
