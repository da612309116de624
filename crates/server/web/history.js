/** The latest values of each key. */

export class History {
  #rows = new Map();
  #length;

  /** @param {number} length maximum values kept per key */
  constructor(length) {
    this.#length = length;
  }

  /**
   * Adds a value to the row of each key, and drops rows without a new value.
   *
   * @param {Map<string, number | null>} values by key
   */
  add(values) {
    for (const key of this.#rows.keys()) {
      if (!values.has(key)) this.#rows.delete(key);
    }
    for (const [key, value] of values) {
      const row = this.#rows.get(key) ?? [];
      row.push(value ?? null);
      this.#rows.set(key, row.slice(-this.#length));
    }
  }

  /** Returns the values of a key, oldest first; null: unknown. @returns {(number | null)[]} */
  of(key) {
    return this.#rows.get(key) ?? [];
  }
}
