/** Events of the mesh. A change that several servers report is one event. */

/** Time within which all servers report one change: they suspect a silent node after 2 s. */
const ONE_CHANGE_MS = 3_000;
/** Maximum events kept. */
const MAX_EVENTS = 80;

/** The latest 80 events: `{at_ms, by, kind, ...}`; `by` lists the servers that reported it. */
export class EventLog {
  #events = [];

  /**
   * Adds a change that a server reported. If an event of the last 3 s has the same kind, nodes and
   * reason, adds the server to that event instead, and the clients of a move.
   *
   * @param {number} at milliseconds since 1970
   * @param {string} by id of the server
   * @param {{kind: string}} change `node`, `from`, `to`, `why` and `clients` by its kind
   */
  add(at, by, change) {
    const isSame = (event) => at - event.at_ms <= ONE_CHANGE_MS && isAlike(event, change);
    const known = this.#events.findLast(isSame);
    if (!known) {
      this.#events.push({ at_ms: at, by: [by], ...change });
      this.#events = this.#events.slice(-MAX_EVENTS);
      return;
    }
    if (change.kind === 'moved') known.clients += change.clients;
    if (!known.by.includes(by)) known.by.push(by);
  }

  /** Returns the events, oldest first. */
  all() {
    return this.#events;
  }
}

function isAlike(event, change) {
  return ['kind', 'node', 'from', 'to', 'why'].every((key) => event[key] === change[key]);
}
