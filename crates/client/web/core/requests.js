import { MeshError } from './mesh_error.js';
import { bytesOf, encode, numbered } from './outgoing.js';
import { MAX_UNANSWERED, MAX_UNANSWERED_BYTES } from './rules.js';

/** Bytes that each request counts in addition to its text without a number. */
const MAX_HEAD = 48;

/**
 * Requests without an answer: sent ones by their number in the session, and queued ones.
 *
 * @typedef {object} Entry
 * @property {number} id number in the session, once the request has been sent
 * @property {number | null} ticket null for requests of an earlier page and of the client itself,
 *   and for expired and cancelled ones
 * @property {string} type
 * @property {string | undefined} room
 * @property {string} text the request without its number. Later changes of its data have no effect
 * @property {boolean} isOwn whether it is a request of the client itself
 * @property {number} bytes approximate size, for the limits
 * @property {number | null} expires null for own requests, and for expired and cancelled ones,
 *   whose numbers stay in use
 * @property {boolean} hasLeft whether it was sent in an earlier session
 */
export class Requests {
  #limits;
  #nextId = 1;
  #lastTicket = 0;
  /** @type {Entry[]} */
  #sent = [];
  /** Sent requests that the present socket has not sent yet. @type {Entry[]} */
  #again = [];
  /** @type {Entry[]} */
  #queued = [];
  #queuedBytes = 0;

  /** @param {{queue: number, queueBytes: number, timeoutMs: number}} limits */
  constructor(limits) {
    this.#limits = limits;
  }

  /** Restores the requests of an earlier page. */
  restore(now, { next_id: nextId, unanswered, queued }) {
    const expires = now + this.#limits.timeoutMs;
    this.#nextId = nextId;
    this.#sent = unanswered.map(({ id, request }) => makeEntry(request, { id, expires }));
    this.#setQueued(queued.map((request) => makeEntry(request, { expires })));
  }

  /**
   * Queues a request of the application and returns its ticket.
   *
   * @throws {MeshError} `too_large` if its text has more than `maxBytes`; `queue_full` if it
   *   exceeds the limits of the queue and cannot be sent next
   */
  push(now, request, maxBytes) {
    const { queue, queueBytes, timeoutMs } = this.#limits;
    const ticket = this.#lastTicket + 1;
    const entry = makeEntry(request, { ticket, expires: now + timeoutMs });
    const digits = String(this.#nextId + this.#queued.length).length;
    const size = entry.bytes - MAX_HEAD + ',"id":'.length + digits;
    if (size > maxBytes) {
      throw new MeshError('too_large', { message: `${size} bytes, the server accepts ${maxBytes}` });
    }
    const isFull = this.#queued.length >= queue || this.#queuedBytes + entry.bytes > queueBytes;
    const isNext = this.#queued.length === 0 && this.#mayMoreBeSent();
    if (isFull && !isNext) throw new MeshError('queue_full');
    this.#lastTicket = ticket;
    this.#queued.push(entry);
    this.#queuedBytes += entry.bytes;
    return ticket;
  }

  /** Queues a request of the client itself: a rejoin, or a `leave` after a join without a use. */
  pushOwn(request) {
    this.#setQueued([...this.#queued, makeEntry(request, { isOwn: true })]);
  }

  /** Returns the rooms of pending requests of this type, `join` or `leave`. */
  rooms(type) {
    return this.#all().filter((entry) => entry.type === type).map(({ room }) => room);
  }

  /** Returns `true` if a pending join of the room is neither expired nor cancelled. */
  wants(room) {
    const isLive = ({ isOwn, expires }) => isOwn || expires !== null;
    return this.#all().some((entry) => entry.type === 'join' && entry.room === room && isLive(entry));
  }

  /** Number of requests that were not sent, and of sent ones without an answer. */
  get sizes() {
    return { queued: this.#queued.length, unanswered: this.#sent.length };
  }

  /**
   * Returns the text of the next request to send: one of the session that resumes, else a new one.
   * Null if the limits or the pace allow none.
   *
   * @param {import('./pacer.js').Pacer} pacer
   */
  next(now, pacer) {
    const repeated = this.#again[0];
    if (!repeated && (this.#queued.length === 0 || !this.#mayMoreBeSent())) return null;
    const entry = repeated ?? this.#queued[0];
    const id = repeated?.id ?? this.#nextId;
    const text = numbered(entry.type, entry.text, id);
    if (!pacer.take(now, entry.bytes - MAX_HEAD + text.length - entry.text.length)) return null;
    if (repeated) {
      this.#again.shift();
      return text;
    }
    this.#queued.shift();
    this.#queuedBytes -= entry.bytes;
    entry.id = id;
    this.#nextId += 1;
    this.#sent.push(entry);
    return text;
  }

  /** Sends the unanswered requests again: the session resumes on another socket. */
  resume() {
    this.#again = [...this.#sent];
  }

  /**
   * Prepares a new session, whose numbers start at 1. Rejoins come first, then requests without an
   * answer, except expired ones.
   */
  startAgain(joins) {
    const left = this.#sent.map((entry) => ({ ...entry, hasLeft: true }));
    const kept = [...left, ...this.#queued].filter(({ expires }) => expires !== null);
    this.#nextId = 1;
    this.#sent = [];
    this.#again = [];
    this.#setQueued([...joins.map((join) => makeEntry(join, { isOwn: true })), ...kept]);
  }

  /** Removes and returns the answered request with this number; undefined if there is none. */
  answered(id) {
    const at = this.#sent.findIndex((entry) => entry.id === id);
    if (at < 0) return undefined;
    const [entry] = this.#sent.splice(at, 1);
    this.#again = this.#again.filter((other) => other !== entry);
    return entry;
  }

  /** When the next request expires; Infinity for never. Both queues are sorted by time. */
  get deadline() {
    const first = (queue) => queue.find(({ expires }) => expires !== null)?.expires ?? Infinity;
    return Math.min(first(this.#sent), first(this.#queued));
  }

  /** Expires requests. Returns them as `{ticket, sent, type, room}`. */
  expire(now) {
    return this.#remove(({ expires }) => expires !== null && expires <= now);
  }

  /** Cancels a request without an outcome. Returns it like `expire`; undefined if there is none. */
  cancel(ticket) {
    return this.#remove((entry) => entry.ticket === ticket)[0];
  }

  /** Removes queued requests. Sent ones lose their tickets, and keep their numbers. */
  #remove(isOver) {
    const removed = [];
    const report = ({ ticket, type, room }, sent) => removed.push({ ticket, sent, type, room });
    for (const entry of this.#sent.filter(isOver)) {
      report(entry, true);
      entry.expires = null;
      entry.ticket = null;
    }
    for (const entry of this.#queued.filter(isOver)) report(entry, entry.hasLeft);
    this.#setQueued(this.#queued.filter((entry) => !isOver(entry)));
    return removed;
  }

  /** Removes all requests and returns them like `expire`. Numbers start at 1 again. */
  clear() {
    const removed = this.#remove(() => true);
    this.#nextId = 1;
    this.#sent = [];
    this.#again = [];
    return removed;
  }

  /** Returns the saved form. */
  save() {
    const request = ({ text }) => JSON.parse(text);
    return {
      next_id: this.#nextId,
      unanswered: this.#sent.map((entry) => ({ id: entry.id, request: request(entry) })),
      queued: this.#queued.filter(({ isOwn }) => !isOwn).map(request),
    };
  }

  #all() {
    return [...this.#sent, ...this.#queued];
  }

  #mayMoreBeSent() {
    return this.#sent.length < MAX_UNANSWERED && sizeOf(this.#sent) < MAX_UNANSWERED_BYTES;
  }

  #setQueued(entries) {
    this.#queued = entries;
    this.#queuedBytes = sizeOf(entries);
  }
}

const sizeOf = (entries) => entries.reduce((total, { bytes }) => total + bytes, 0);

/** @returns {Entry} */
function makeEntry(request, fields) {
  const text = encode(request);
  return {
    id: 0,
    ticket: null,
    type: request.type,
    room: request.room,
    text,
    isOwn: false,
    bytes: MAX_HEAD + bytesOf(text),
    expires: null,
    hasLeft: false,
    ...fields,
  };
}
