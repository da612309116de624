import { MAX_NAMES, MAX_SAVED_NAMES, NAME_LIFETIME } from './rules.js';

/** Names (`m`) of received messages, kept for a time after their latest arrival. */
export class SeenMessages {
  /** In order of arrival. */
  #seenAtByName = new Map();

  /** Adds a name. Returns `true` if it is new. */
  add(now, name) {
    for (const [oldest, seenAt] of this.#seenAtByName) {
      if (this.#seenAtByName.size < MAX_NAMES && now - seenAt < NAME_LIFETIME) break;
      this.#seenAtByName.delete(oldest);
    }
    const isNew = !this.#seenAtByName.delete(name);
    this.#seenAtByName.set(name, now);
    return isNew;
  }

  /** Returns the latest names, at most 4,096, oldest first. */
  save() {
    return [...this.#seenAtByName.keys()].slice(-MAX_SAVED_NAMES);
  }
}
