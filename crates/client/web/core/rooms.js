import { MAX_ROOMS } from './rules.js';

/** Rooms that the client is in or waits for. It rejoins them in a new session. */
export class Rooms {
  /** The latest join of each room, in the order joined. */
  #joinByRoom = new Map();

  /** @param {{room: string, data?: unknown}[]} saved */
  constructor(saved = []) {
    for (const room of saved) this.enter({ type: 'join', ...room });
  }

  /** Returns `true` if the limit allows a join of `room`, counting pending joins. */
  hasPlaceFor(room, pending) {
    const names = new Set([...this.#joinByRoom.keys(), ...pending]);
    return names.size < MAX_ROOMS || names.has(room);
  }

  /** @param {object} join the request; without data the present data stays, as in the mesh */
  enter(join) {
    this.#joinByRoom.set(join.room, { ...this.#joinByRoom.get(join.room), ...join });
  }

  leave(room) {
    this.#joinByRoom.delete(room);
  }

  /** Returns the requests that join the rooms again. */
  joins() {
    return [...this.#joinByRoom.values()];
  }

  /** Returns the saved form. */
  save() {
    return this.joins().map(({ type: _, ...room }) => room);
  }
}
