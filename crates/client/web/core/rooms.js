import { MAX_REJOIN_WAIT, MAX_ROOMS, MIN_REJOIN_WAIT } from './rules.js';

/** Bounds the wait that a server requires before a repetition. */
export const rejoinWait = (wait) => Math.min(Math.max(wait, MIN_REJOIN_WAIT), MAX_REJOIN_WAIT);

/** Rooms that the client is in or waits for. It rejoins them in a new session. */
export class Rooms {
  /** The latest join of each room, in the order joined. */
  #joinByRoom = new Map();
  /** Times of the next rejoin of rooms without a seat in this session; Infinity while pending. */
  #rejoinAtByRoom = new Map();
  /** Earliest time of the next repetition. */
  #pausedUntil = 0;

  /** @param {{room: string, data?: unknown, rejoins?: boolean}[]} saved */
  constructor(saved = [], now = 0) {
    for (const { rejoins, ...room } of saved) {
      this.enter({ type: 'join', ...room });
      if (rejoins) this.retry(now, room.room, 0);
    }
  }

  /** Returns `true` if the limit allows a join of `room`, counting pending joins. */
  hasPlace(room, pending) {
    return new Set([...this.#joinByRoom.keys(), ...pending, room]).size <= MAX_ROOMS;
  }

  /** @param {{type: string, room: string, data?: unknown}} join without data the present stays */
  enter(join) {
    this.#joinByRoom.set(join.room, { ...this.#joinByRoom.get(join.room), ...join });
    this.#rejoinAtByRoom.delete(join.room);
    this.#pausedUntil = 0;
  }

  leave(room) {
    this.#joinByRoom.delete(room);
    this.#rejoinAtByRoom.delete(room);
  }

  /** Returns `true` for a kept room without a seat in this session. */
  lacksSeat(room) {
    return this.#rejoinAtByRoom.has(room);
  }

  /** Starts a new session, without seats. Returns the rejoins, in the order joined. */
  restart() {
    this.#rejoinAtByRoom.clear();
    for (const room of this.#joinByRoom.keys()) this.#rejoinAtByRoom.set(room, Infinity);
    return [...this.#joinByRoom.values()];
  }

  /** Repeats a refused rejoin after `wait` ms, but after at least 0.1 s and at most 30 s. */
  retry(now, room, wait) {
    this.#rejoinAtByRoom.set(room, now + rejoinWait(wait));
  }

  /** When `due` has a rejoin; Infinity for never. */
  get deadline() {
    return Math.max(this.#pausedUntil, Math.min(...this.#rejoinAtByRoom.values()));
  }

  /** Returns a due rejoin, if any. It waits for a pending join, whose data may be newer. */
  due(now, pending) {
    if (now < this.deadline) return undefined;
    const earliest = Math.min(...this.#rejoinAtByRoom.values());
    const [room] = /** @type {any[]} */ ([...this.#rejoinAtByRoom].find(([, at]) => at === earliest));
    this.#pausedUntil = now + MIN_REJOIN_WAIT;
    this.#rejoinAtByRoom.set(room, this.#pausedUntil);
    if (pending().includes(room)) return undefined;
    this.#rejoinAtByRoom.set(room, Infinity);
    return this.#joinByRoom.get(room);
  }

  /** Returns the saved form. */
  save() {
    return [...this.#joinByRoom.values()].map(({ type: _, ...join }) =>
      ({ ...join, rejoins: this.lacksSeat(join.room) || undefined }));
  }
}
