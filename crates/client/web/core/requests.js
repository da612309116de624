import { MeshError } from './mesh_error.js';
import { bytesOf } from './outgoing.js';
import { MAX_HEAD, MAX_UNANSWERED, MAX_UNANSWERED_BYTES, QUEUE, QUEUE_BYTES, REQUEST_TIMEOUT } from './rules.js';

/**
 * Requests without an answer: sent ones by their number in the session, and queued ones.
 *
 * @typedef {object} Entry
 * @property {number} [id] number in the session, once the request has been sent
 * @property {number | null} ticket null for requests of an earlier page and of the client itself,
 *   and for expired and cancelled ones
 * @property {string} type
 * @property {string | undefined} room
 * @property {string} text the request without its number. Later changes of its data have no effect
 * @property {boolean} [isOwn] whether it is a request of the client itself
 * @property {number} bytes size of the text
 * @property {number} until its time limit; Infinity for own requests, and for expired and
 *   cancelled ones, whose numbers stay in use
 * @property {boolean} sent whether it was sent, in this or an earlier session
 * @property {boolean} [isDue] whether the present socket has to send it again
 */
export class Requests {
  /** Limits of the queue, in requests and bytes. */
  #queue;
  #queueBytes;
  #timeoutMs;
  #nextId = 1;
  #lastTicket = 0;
  /** @type {Entry[]} */
  #sent = [];
  /** @type {Entry[]} */
  #queued = [];
  /** Bytes that may be queued before the queue is measured again: at most the free ones. */
  #free = 0;

  /** @param {{queue?: number, queueBytes?: number, timeoutMs?: number}} limits */
  constructor({ queue = QUEUE, queueBytes = QUEUE_BYTES, timeoutMs = REQUEST_TIMEOUT }) {
    this.#queue = queue;
    this.#queueBytes = queueBytes;
    this.#timeoutMs = timeoutMs;
  }

  /** Restores the requests of an earlier page. */
  restore(now, saved) {
    const until = now + this.#timeoutMs;
    this.#nextId = saved.next_id;
    this.#sent = saved.unanswered.map(({ request, id }) => makeEntry(request, { id, until, sent: true }));
    this.#queued = saved.queued.map((request) => makeEntry(request, { until }));
  }

  /**
   * Queues a request of the application and returns its ticket.
   *
   * @throws {MeshError} `too_large` if its text has more than `maxBytes`; `queue_full` if it
   *   exceeds the limits of the queue and cannot be sent next
   */
  push(now, request, maxBytes) {
    const ticket = this.#lastTicket + 1;
    const entry = makeEntry(request, { ticket, until: now + this.#timeoutMs });
    const size = entry.bytes + `,"id":${this.#nextId + this.#queued.length}`.length;
    if (size > maxBytes) throw new MeshError('too_large', { message: `${size} bytes, over ${maxBytes}` });
    this.#free -= sizeOf([entry]);
    if (this.#free < 0) this.#free = this.#queueBytes - sizeOf([...this.#queued, entry]);
    const isFull = this.#queued.length >= this.#queue || this.#free < 0;
    const isNext = this.#queued.length === 0 && this.#mayMoreBeSent();
    if (isFull && !isNext) throw new MeshError('queue_full');
    this.#lastTicket = ticket;
    this.#queued.push(entry);
    return ticket;
  }

  /** Queues a request of the client itself: a rejoin, or a `leave` after a join without a use. */
  add(request) {
    this.#free = 0;
    this.#queued.push(makeEntry(request, { isOwn: true }));
  }

  /** Returns the rooms of pending requests of this type, `join` or `leave`. */
  rooms(type) {
    return this.#all().filter((entry) => entry.type === type).map(({ room }) => room);
  }

  /** Returns `true` if a pending join of the room is neither expired nor cancelled. */
  wants(room) {
    return this.#all().some((entry) => entry.type === 'join' && entry.room === room && (entry.isOwn || isTimed(entry)));
  }

  /** Number of requests that were not sent, and of sent ones without an answer. */
  get stats() {
    return { queued: this.#queued.length, unanswered: this.#sent.length };
  }

  /**
   * Returns the text of the next request to send: one of the session that resumes, else a new one.
   * Undefined if the limits or the pace allow none.
   *
   * @param {import('./pacer.js').Pacer} pacer
   */
  next(now, pacer) {
    const repeated = this.#sent.find(({ isDue }) => isDue);
    const entry = repeated ?? (this.#mayMoreBeSent() && this.#queued[0]);
    if (!entry) return;
    const id = repeated ? repeated.id : this.#nextId;
    // The number follows `type`, the first field.
    const head = `,"id":${id}`;
    if (!pacer.take(now, entry.bytes + head.length)) return;
    const text = entry.text.replace(',', `${head},`);
    if (!repeated) {
      this.#queued.shift();
      this.#sent.push(entry);
      this.#nextId += 1;
    }
    Object.assign(entry, { id, sent: true, isDue: false });
    return text;
  }

  /** Sends the unanswered requests again: the session resumes on another socket. */
  resume() {
    for (const entry of this.#sent) entry.isDue = true;
  }

  /**
   * Prepares a new session, whose numbers start at 1. Rejoins come first, then requests without an
   * answer, except expired ones.
   */
  restart(joins) {
    const kept = this.clear().filter(isTimed);
    this.#queued = [...joins.map((join) => makeEntry(join, { isOwn: true })), ...kept];
  }

  /** Removes and returns the answered request with this number; undefined if there is none. */
  answered(id) {
    const answered = this.#sent.find((entry) => entry.id === id);
    this.#sent = this.#sent.filter((entry) => entry !== answered);
    return answered;
  }

  /** When the next request expires; Infinity for never. All are sorted by time. */
  get deadline() {
    return (this.#sent.find(isTimed) ?? this.#queued.find(isTimed))?.until ?? Infinity;
  }

  /** Expires requests, and returns them. */
  expire(now) {
    return now < this.deadline ? [] : this.#remove((entry) => entry.until <= now);
  }

  /** Cancels a request without an outcome. Returns it; undefined if there is none. */
  cancel(ticket) {
    return this.#remove((entry) => entry.ticket === ticket)[0];
  }

  /** Removes queued requests. Sent ones lose their tickets, and keep their numbers. */
  #remove(isOver) {
    const removed = this.#all().filter(isOver);
    this.#sent = this.#sent.map((entry) => (isOver(entry) ? { ...entry, ticket: null, until: Infinity } : entry));
    this.#queued = this.#queued.filter((entry) => !isOver(entry));
    return removed;
  }

  /** Removes all requests, and returns them. Numbers start at 1 again. */
  clear() {
    const removed = this.#all();
    this.#sent = [];
    this.#queued = [];
    this.#nextId = 1;
    this.#free = 0;
    return removed;
  }

  /** Returns the saved form. */
  save() {
    return {
      next_id: this.#nextId,
      unanswered: this.#sent.map(({ id, text }) => ({ id, request: JSON.parse(text) })),
      queued: this.#queued.filter(({ isOwn }) => !isOwn).map(({ text }) => JSON.parse(text)),
    };
  }

  #all() {
    return [...this.#sent, ...this.#queued];
  }

  #mayMoreBeSent() {
    return this.#sent.length < MAX_UNANSWERED && sizeOf(this.#sent) < MAX_UNANSWERED_BYTES;
  }
}

/** Neither an own request, nor expired or cancelled. */
const isTimed = (entry) => entry.until < Infinity;

const sizeOf = (entries) => entries.reduce((total, { bytes }) => total + MAX_HEAD + bytes, 0);

/** @returns {Entry} */
function makeEntry(request, fields) {
  const text = JSON.stringify(request);
  const { type, room } = request;
  return {
    ticket: null,
    type,
    room,
    text,
    bytes: bytesOf(text),
    until: Infinity,
    sent: false,
    ...fields,
  };
}
