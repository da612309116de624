/** What has happened in the mesh: a change that several servers see is one story. */

/** Servers see one thing within this time: they suspect a silent node after two seconds. */
const ONE_THING_MS = 3_000;
/** Stories that are kept. */
const MAX_STORIES = 80;

export class Stories {
  #stories = [];

  /** Adds a change that a server saw. @param {number} at @param {string} by @param {object} change */
  add(at, by, change) {
    const like = this.#stories.findLast((story) => at - story.at_ms <= ONE_THING_MS && isAlike(story, change));
    if (!like) {
      this.#stories.push({ at_ms: at, by: [by], ...change });
      this.#stories = this.#stories.slice(-MAX_STORIES);
      return;
    }
    if (change.what === 'moved') like.clients += change.clients;
    if (!like.by.includes(by)) like.by.push(by);
  }

  /** @returns {object[]} oldest first */
  all() {
    return this.#stories;
  }
}

function isAlike(story, change) {
  return ['what', 'node', 'from', 'to', 'why'].every((key) => story[key] === change[key]);
}
