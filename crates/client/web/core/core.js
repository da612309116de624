import { Connection } from './connection.js';
import { GOODBYE, delay } from './ending.js';
import { isFinal, isPolicyViolation, isTokenRejected } from './ending.js';
import { isEvent, needsWelcome, parse } from './incoming.js';
import { SendError } from './outcome.js';
import { encode, isName } from './outgoing.js';
import { Requests } from './requests.js';
import { RetryState } from './retry_state.js';
import { Rooms } from './rooms.js';
import { DEFAULT_MESSAGE_BYTES, FIRST_BACKOFF } from './rules.js';
import { PAUSE_TOLERANCE, TOKEN_TIMEOUT, WELCOME_TIMEOUT } from './rules.js';
import { SeenMessages } from './seen_messages.js';
import { Tokens } from './tokens.js';

/** State for the application by phase; other phases are states themselves. */
const STATE_BY_PHASE = { fetching: 'connecting', suspended: 'waiting' };

/**
 * Decisions of the client. Nothing here reads a clock, draws a random number or touches the
 * network. Times (`now`, in milliseconds) and random numbers in [0, 1) go in, `takeEffects` returns
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
 * | `{state, ...}` | report the state of the connection |
 * | `{event}` | report a message of the server |
 * | `{settle, as, count?}` | report the outcome of the request with this ticket |
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
   * `by` limits an attempt, `connection` belongs to `connected`. `until`, `why` and `mayHurry`
   * describe a wait; `mayHurry` is false if the server requested it.
   */
  #phase = { is: 'closed' };
  #retries = new RetryState();
  /** Token that resumes the session, or null. */
  #resume = null;
  #tokens;
  /** Wait that the server of this socket requested, or null. */
  #hint = null;
  #maxMessageBytes = DEFAULT_MESSAGE_BYTES;
  #requests;
  #rooms = new Rooms();
  #seen = new SeenMessages();
  #isHidden = false;
  #effects = [];

  /**
   * @param {object} options
   * @param {string} options.clientId
   * @param {number} [options.urls] number of URLs
   * @param {boolean} [options.tokens] whether there is a token callback
   * @param {number} [options.queue] maximum queued requests: 256
   * @param {number} [options.queueBytes] maximum bytes of queued requests: 1 MiB
   * @param {number} [options.timeoutMs] time limit of a request, in milliseconds: 60,000
   * @param {object} [options.session] a session to continue, as a `saved` effect has it
   */
  constructor({ clientId, session, ...options }) {
    const { urls = 1, tokens = false, ...limits } = options;
    const { queue = 256, queueBytes = 1_048_576, timeoutMs = 60_000 } = limits;
    this.#clientId = clientId;
    this.#urls = urls;
    this.#tokens = new Tokens(tokens);
    this.#requests = new Requests({ queue, queueBytes, timeoutMs });
    if (session) this.restore(0, session);
  }

  /** Continues the session of a `saved` effect. Called in the closed state alone. */
  restore(now, session) {
    this.#resume = session.resume;
    this.#requests.restore(now, session);
    this.#rooms = new Rooms(session.rooms, now);
    for (const name of session.names) this.#seen.insert(now, name);
  }

  /** Takes the effects since the last call, in order. */
  takeEffects() {
    return this.#effects.splice(0);
  }

  /** `closed`, `connecting` (also for a token), `connected` or `waiting` (also suspended). */
  get state() {
    return STATE_BY_PHASE[this.#phase.is] ?? this.#phase.is;
  }

  /** Whether the page was left and kept: `suspend` was called last. */
  get isSuspended() {
    return this.#phase.is === 'suspended';
  }

  /** Time at which `tick` is due, in milliseconds like `now`; null for never. */
  get deadline() {
    const deadline = Math.min(this.#phaseDeadline(), this.#requests.deadline);
    return deadline === Infinity ? null : deadline;
  }

  #phaseDeadline() {
    const phase = this.#phase;
    if (phase.is !== 'connected') return phase.by ?? phase.until ?? Infinity;
    return Math.min(phase.connection.deadline, this.#tokens.deadline, this.#rooms.deadline);
  }

  /** Connects now if the client is closed, is suspended or waits. */
  start(now) {
    if (!['closed', 'suspended', 'waiting'].includes(this.#phase.is)) return;
    this.#emit({ state: 'connecting', url: this.#url });
    if (this.#tokens.isMissing(now)) {
      this.#phase = { is: 'fetching', by: now + TOKEN_TIMEOUT };
      this.#emit('ask_token');
    } else this.#open(now);
  }

  #open(now) {
    this.#hint = null;
    this.#phase = { is: 'connecting', by: now + WELCOME_TIMEOUT };
    const open = { url: this.#url };
    if (this.#resume !== null) open.resume = this.#resume;
    const token = this.#tokens.useForAttempt();
    if (token !== undefined) open.token = token;
    this.#emit({ open });
  }

  /** Handles a token from the callback. */
  token(now, token) {
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
    for (const { ticket, sent } of this.#requests.expire(now)) {
      this.#settle(ticket, { expired: { sent } });
    }
    const phase = this.#phase;
    if (phase.is === 'connected') this.#tend(now, random, phase.connection);
    else if (now < this.#phaseDeadline()) return;
    else if (phase.is === 'fetching') this.lost(now, random, { fault: 'no_token' });
    else if (phase.is === 'waiting') this.start(now);
    else if (now >= phase.by + PAUSE_TOLERANCE) phase.by = now + WELCOME_TIMEOUT;
    else this.#giveUp(now, random, 'no_welcome');
  }

  #tend(now, random, connection) {
    if (this.#tokens.startDueRenewal(now)) this.#emit('ask_token');
    const rejoin = this.#rooms.takeDue(now, this.#requests.rooms('join'));
    if (rejoin) {
      this.#requests.rejoin(rejoin);
      this.#flush();
    }
    for (let due = connection.due(now); due !== null; due = connection.due(now)) {
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
    if (phase.is === 'waiting' && phase.mayHurry) {
      const wait = delay(FIRST_BACKOFF, random, null, false);
      if (now + wait >= phase.until) return;
      phase.until = now + wait;
      this.#emit({ state: 'waiting', in_ms: wait, ...phase.why });
    } else if (phase.is === 'connected' && !phase.connection.awaitsAnswer) {
      this.#write(phase.connection.ping(now));
    }
  }

  /** Handles a page that is hidden: its timers are late, so messages are acknowledged at once. */
  hidden() {
    this.#isHidden = true;
    const { connection } = this.#phase;
    if (connection?.hasUnacknowledged) this.#write(connection.acknowledge());
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
   * @param {import('./ending.js').Ending} why
   */
  lost(now, random, why) {
    const phase = this.#phase;
    if (['closed', 'suspended', 'waiting'].includes(phase.is)) return;
    const wasWelcome = phase.is === 'connected';
    if (wasWelcome && phase.connection.isStable(now)) this.#retries = new RetryState();
    const ends = isTokenRejected(why) ? !this.#tokens.reject(wasWelcome) : isFinal(why);
    if (ends) return this.#end(why);
    const hint = this.#hint;
    const isLater = isPolicyViolation(why);
    const wait = delay(this.#retries.window(now), random, hint, isLater);
    const mayHurry = hint === null && !isLater;
    this.#hint = null;
    this.#url = (this.#url + 1) % this.#urls;
    this.#phase = { is: 'waiting', until: now + wait, mayHurry, why };
    this.#emit({ state: 'waiting', in_ms: wait, ...why });
  }

  /**
   * Handles an HTTP answer to the upgrade request. Only the vectors call it: a WebSocket of a
   * browser or of Node.js does not report the status.
   */
  refused(now, random, { status, retry_after_ms: hint = null }) {
    this.#hint = hint;
    this.lost(now, random, { status });
  }

  /** Ends this client. An open socket closes with 1000, which ends the session in the mesh too. */
  close() {
    const { is } = this.#phase;
    if (is === 'closed') return;
    if (is === 'connected') this.#emit({ close: GOODBYE });
    if (is === 'connecting') this.#emit('drop');
    this.#end({});
  }

  /** Ends this client, and saves the session for another page. Does nothing while closed. */
  detach() {
    if (this.#phase.is === 'closed') return;
    const saved = this.#dropAndSave();
    this.#end({});
    this.#emit({ saved });
  }

  /** Saves the session for another page. The client keeps it too, for `start`. */
  suspend() {
    if (this.#phase.is === 'closed' || this.#phase.is === 'suspended') return;
    const saved = this.#dropAndSave();
    this.#phase = { is: 'suspended' };
    this.#hint = null;
    this.#retries = new RetryState();
    this.#emit({ saved });
  }

  #dropAndSave() {
    if (this.#phase.is === 'connected' || this.#phase.is === 'connecting') this.#emit('drop');
    return {
      client_id: this.#clientId,
      resume: this.#resume,
      ...this.#requests.save(),
      rooms: this.#rooms.save(),
      names: this.#seen.latest(),
    };
  }

  #end(why) {
    this.#phase = { is: 'closed' };
    this.#emit({ state: 'closed', ...why });
    for (const ticket of this.#requests.clear()) this.#settle(ticket, 'closed');
    this.#rooms = new Rooms();
    this.#resume = null;
    this.#hint = null;
    this.#retries = new RetryState();
  }

  /**
   * Accepts a `signal`, `join`, `leave` or `broadcast` and returns its ticket. The outcome is a
   * `settle` effect.
   *
   * @throws {SendError} any code but `not_connected`
   * @throws {TypeError} if the request cannot be written as JSON
   */
  request(now, request) {
    if (this.#phase.is === 'closed') throw new SendError('closed');
    if (!isName(request.to ?? request.room)) throw new SendError('bad_name');
    const isJoin = request.type === 'join';
    if (isJoin && !this.#rooms.hasPlaceFor(request.room, this.#requests.rooms('join'))) {
      throw new SendError('too_many_rooms');
    }
    const ticket = this.#requests.push(now, request, this.#maxMessageBytes);
    if (request.type === 'leave') this.#rooms.cancelRejoin(request.room);
    this.#flush();
    return ticket;
  }

  /**
   * Sends a message without a number, `members` or `ice_servers`.
   *
   * @throws {SendError} `closed` or `not_connected`
   */
  ask(message) {
    if (this.#phase.is === 'closed') throw new SendError('closed');
    if (this.#phase.is !== 'connected') throw new SendError('not_connected');
    this.#write(message);
  }

  /** Handles a text message from the socket. */
  text(now, random, text) {
    const { is, connection } = this.#phase;
    if (is !== 'connecting' && is !== 'connected') return;
    connection?.inputArrived();
    const message = parse(text);
    if (message === null || !this.#handle(now, message)) this.#giveUp(now, random, 'protocol_error');
  }

  /** Returns `false` after a protocol error. */
  #handle(now, message) {
    const { connection } = this.#phase;
    if (message.type === 'goodbye') this.#hint = message.retry_after_ms ?? null;
    if (connection !== undefined) return this.#handleConnected(now, connection, message);
    if (message.type !== 'welcome') return !needsWelcome(message);
    this.#welcome(now, message);
    return true;
  }

  #handleConnected(now, connection, message) {
    switch (message.type) {
      case 'welcome':
        return false;
      case 'signal':
      case 'broadcast':
        return this.#receive(now, connection, message);
      case 'ack':
        this.#acknowledged(message);
        return true;
      case 'error':
        this.#failed(now, message);
        return true;
      case 'left':
        this.#rooms.leave(message.room);
    }
    if (isEvent(message)) this.#emit({ event: message });
    return true;
  }

  #welcome(now, welcome) {
    this.#phase = { is: 'connected', connection: new Connection(now) };
    this.#resume = welcome.resume;
    this.#maxMessageBytes = welcome.max_message_bytes;
    this.#emit({ state: 'connected', resumed: welcome.resumed, welcome });
    if (welcome.resumed) {
      for (const text of this.#requests.retransmissions()) this.#emit({ write: text });
    } else {
      this.#requests.startAgain(this.#rooms.startAgain());
      for (const room of this.#requests.rooms('leave')) this.#rooms.cancelRejoin(room);
    }
    this.#flush();
  }

  #receive(now, connection, { n, m: name, ...message }) {
    if (n === undefined || name === undefined) {
      this.#emit({ event: message });
      return true;
    }
    if (!connection.receive(now, n)) return false;
    if (this.#seen.insert(now, name)) this.#emit({ event: message });
    if (this.#isHidden || connection.mustAcknowledge) this.#write(connection.acknowledge());
    return true;
  }

  #acknowledged({ id, delivered }) {
    const answered = this.#requests.answered(id);
    if (answered === undefined) return;
    const { ticket, request, rejoins } = answered;
    const isWanted = !rejoins || this.#rooms.lacksSeat(request.room);
    if (request.type === 'join' && isWanted) this.#rooms.enter(request);
    if (request.type === 'leave') this.#rooms.leave(request.room);
    this.#settle(ticket, 'delivered', delivered);
    this.#flush();
  }

  #failed(now, message) {
    if (message.id === undefined) return this.#emit({ event: message });
    const answered = this.#requests.answered(message.id);
    if (answered === undefined) return;
    const { ticket, request, rejoins } = answered;
    const { room } = request;
    if (rejoins && this.#rooms.lacksSeat(room)) {
      if (typeof message.retry_after_ms === 'number') {
        this.#rooms.retry(now, room, message.retry_after_ms);
      } else {
        this.#rooms.leave(room);
        this.#emit({ event: { type: 'left', room, reason: message.code } });
      }
    }
    this.#settle(ticket, { refused: message.code });
    this.#flush();
  }

  /** Sends queued requests within the limits. */
  #flush() {
    if (this.#phase.is !== 'connected') return;
    for (let text = this.#requests.next(); text !== null; text = this.#requests.next()) {
      this.#emit({ write: text });
    }
  }

  #settle(ticket, as, count) {
    if (ticket === null) return;
    this.#emit(count === undefined ? { settle: ticket, as } : { settle: ticket, as, count });
  }

  #write(message) {
    this.#emit({ write: encode(message) });
  }

  #emit(effect) {
    this.#effects.push(effect);
  }
}
