/** What values were lately: a short row of numbers for each key. */

export class History {
  #rows = new Map();
  #length;

  /** @param {number} length values that are kept of each row */
  constructor(length) {
    this.#length = length;
  }

  /** Adds a value to each row; rows that are not named are forgotten. @param {Map<string, number | null>} values */
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

  /** @param {string} key @returns {(number | null)[]} oldest first */
  of(key) {
    return this.#rows.get(key) ?? [];
  }
}
