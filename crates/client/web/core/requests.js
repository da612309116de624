import { bytesOf, encode } from './outgoing.js';
import { SendError } from './outcome.js';
import { MAX_UNANSWERED, MAX_UNANSWERED_BYTES } from './rules.js';

/** Bytes that each request counts in addition to its text without a number. */
const MAX_HEAD = 48;

/**
 * Requests without an answer: sent ones by their number in the session, and queued ones.
 *
 * @typedef {object} Entry
 * @property {number} id number in the session, once the request has been sent
 * @property {number | null} ticket null for requests of an earlier page and of the client itself,
 *   and for expired ones
 * @property {object} request
 * @property {boolean} rejoins whether the client joins by itself after a lost session
 * @property {number} bytes approximate size, for the limits
 * @property {number | null} expires null for rejoins and for expired requests, whose numbers stay
 *   in use
 * @property {boolean} hasLeft whether it was sent in an earlier session
 */
export class Requests {
  #limits;
  #nextId = 1;
  #lastTicket = 0;
  /** @type {Entry[]} */
  #sent = [];
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
   * @throws {SendError} `too_large` if its text has more than `maxBytes`; `queue_full` if it
   *   exceeds the limits of the queue and cannot be sent next
   */
  push(now, request, maxBytes) {
    const { queue, queueBytes, timeoutMs } = this.#limits;
    const id = this.#nextId + this.#queued.length;
    if (bytesOf(encode(request, id)) > maxBytes) throw new SendError('too_large');
    const ticket = this.#lastTicket + 1;
    const entry = makeEntry(request, { ticket, expires: now + timeoutMs });
    const isFull = this.#queued.length >= queue || this.#queuedBytes + entry.bytes > queueBytes;
    const isNext = this.#queued.length === 0 && this.#mayMoreBeSent();
    if (isFull && !isNext) throw new SendError('queue_full');
    this.#lastTicket = ticket;
    this.#queued.push(entry);
    this.#queuedBytes += entry.bytes;
    return ticket;
  }

  /** Queues a rejoin. */
  rejoin(join) {
    this.#setQueued([...this.#queued, makeEntry(join, { rejoins: true })]);
  }

  /** Returns the rooms of pending requests of this type, `join` or `leave`. */
  rooms(type) {
    const requests = this.#all().filter(({ request }) => request.type === type);
    return requests.map(({ request }) => request.room);
  }

  /** Returns the text of the next request to send, or null if the limits allow none. */
  next() {
    if (this.#queued.length === 0 || !this.#mayMoreBeSent()) return null;
    const entry = this.#queued.shift();
    this.#queuedBytes -= entry.bytes;
    entry.id = this.#nextId;
    this.#nextId += 1;
    this.#sent.push(entry);
    return encode(entry.request, entry.id);
  }

  /** Returns the texts of unanswered requests, which a resumed session retransmits. */
  retransmissions() {
    return this.#sent.map(({ request, id }) => encode(request, id));
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
    this.#setQueued([...joins.map((join) => makeEntry(join, { rejoins: true })), ...kept]);
  }

  /** Removes and returns the answered request with this number; undefined if there is none. */
  answered(id) {
    const at = this.#sent.findIndex((entry) => entry.id === id);
    return at < 0 ? undefined : this.#sent.splice(at, 1)[0];
  }

  /** When the next request expires; Infinity for never. Both queues are sorted by time. */
  get deadline() {
    const first = (queue) => queue.find(({ expires }) => expires !== null)?.expires ?? Infinity;
    return Math.min(first(this.#sent), first(this.#queued));
  }

  /** Expires requests. Returns `{ticket, sent}` of each; `sent` as in `RequestError`. */
  expire(now) {
    const isOver = ({ expires }) => expires !== null && expires <= now;
    const expired = [];
    for (const entry of this.#sent.filter(isOver)) {
      expired.push({ ticket: entry.ticket, sent: true });
      entry.expires = null;
      entry.ticket = null;
    }
    for (const { ticket, hasLeft } of this.#queued.filter(isOver)) {
      expired.push({ ticket, sent: hasLeft });
    }
    this.#setQueued(this.#queued.filter((entry) => !isOver(entry)));
    return expired;
  }

  /** Removes all requests and returns their tickets, also null ones. Numbers start at 1 again. */
  clear() {
    const tickets = this.#all().map(({ ticket }) => ticket);
    this.#nextId = 1;
    this.#sent = [];
    this.#setQueued([]);
    return tickets;
  }

  /** Returns the saved form. */
  save() {
    return {
      next_id: this.#nextId,
      unanswered: this.#sent.map(({ id, request }) => ({ id, request })),
      queued: this.#queued.filter(({ rejoins }) => !rejoins).map(({ request }) => request),
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
  return {
    id: 0,
    ticket: null,
    request,
    rejoins: false,
    bytes: MAX_HEAD + bytesOf(encode(request)),
    expires: null,
    hasLeft: false,
    ...fields,
  };
}
