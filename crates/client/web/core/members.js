import { rejoinWait } from './rooms.js';

/** A room that the client joins, waits for or is in, and its other members. `core.js` keeps it. */
export class Members {
  /** `joining`, `waiting` or `member`; `out` at the end. */
  state = 'joining';
  /** Maximum members; null for no limit, or while unknown. */
  capacity = /** @type {number | null} */ (null);
  /** `{ahead, length}` in the waiting queue; else null. */
  queuePlace = /** @type {{ahead: number, length: number} | null} */ (null);
  /** Time at which `page` has a request; Infinity for never. */
  pageAt = Infinity;
  #room;
  #ownId;
  #effects;
  #version = 0;
  /** Number of members that the server named. */
  #count = 0;
  /** Frozen `{id, data}` by id, oldest first. */
  #memberById = new Map();
  /** Members on the pages so far and later ones; null when the list is complete. */
  #listed = /** @type {Map<string, any> | null} */ (null);
  /**
   * Last member of the page before the requested one; undefined if none is requested.
   *
   * @type {string | undefined}
   */
  #after;
  /** The frozen list; null after a change of the members. */
  #list = /** @type {readonly any[] | null} */ (null);

  /** @param {object[]} effects gets effects of `Core` */
  constructor(room, ownId, effects) {
    this.#room = room;
    this.#ownId = ownId;
    this.#effects = effects;
  }

  /** The other members, oldest first: the same frozen array until a change. */
  get list() {
    return (this.#list ??= Object.freeze([...this.#memberById.values()]));
  }

  member(id) {
    return this.#memberById.get(id);
  }

  /** Number of members with this client; 0 if it is none. */
  get count() {
    if (this.state !== 'member') return 0;
    return this.#listed ? this.#count : this.#memberById.size + 1;
  }

  /** Reports the state, with its reason if there is one. */
  enter(state, reason) {
    this.state = state;
    if (state !== 'waiting') this.queuePlace = null;
    if (state !== 'member') {
      this.#memberById = new Map();
      this.#listed = this.#list = null;
      this.lost();
    }
    this.#report('state', reason ? { state, reason } : { state });
  }

  /** Handles `joined`, a page of the member list. */
  joined(now, { version, capacity = null, count, members, more, after }) {
    // A page of a list that has begun anew since.
    if (after && after !== this.#after) return;
    if (!after) {
      const isNews = this.state !== 'member' || this.capacity !== capacity;
      this.#version = version;
      this.#count = count;
      this.#listed = new Map();
      this.capacity = capacity;
      if (isNews) this.enter('member');
    }
    for (const member of members) this.#add(member);
    this.lost();
    if (more && members[0]) {
      this.#after = members.at(-1).client_id;
      this.pageAt = now;
    } else this.#complete();
  }

  /** Handles `members_changed`. */
  changed({ version, joined, left }) {
    if (this.state !== 'member' || version <= this.#version) return;
    this.#version = version;
    for (const { client_id: id, reason } of left) {
      this.#count -= 1;
      this.#listed?.delete(id);
      this.#remove(id, reason);
    }
    for (const member of joined) {
      if (!this.#memberById.has(member.client_id)) this.#count += 1;
      this.#add(member);
    }
  }

  /** Handles `waiting`. */
  waiting({ ahead, queue_length: length }) {
    this.queuePlace = { ahead, length };
    this.enter('waiting');
  }

  /** Returns the due request of a page. */
  page() {
    this.pageAt = Infinity;
    return { type: 'members', room: this.#room, after: this.#after };
  }

  /** Handles an error without a number. Returns `true` if it refuses a page. */
  failed(now, wait) {
    const isPage = this.#after && this.pageAt === Infinity;
    if (isPage && wait >= 0) this.pageAt = now + rejoinWait(wait);
    else if (isPage) this.lost();
    return isPage;
  }

  /** Forgets a requested page, whose answer was lost with its socket. A new list follows. */
  lost() {
    this.#after = undefined;
    this.pageAt = Infinity;
  }

  #add({ client_id: id, data = null }) {
    if (id === this.#ownId) return;
    const known = this.#memberById.get(id);
    const isSame = known && JSON.stringify(known.data) === JSON.stringify(data);
    const member = isSame ? known : Object.freeze({ id, data });
    this.#listed?.set(id, member);
    this.#memberById.set(id, member);
    if (!isSame) this.#report(known ? 'update' : 'join', member);
  }

  #remove(id, reason) {
    const member = this.#memberById.get(id);
    if (this.#memberById.delete(id)) this.#report('leave', { member, reason });
  }

  /** Ends a list: removes members that it does not have, and takes its order, which it reports. */
  #complete() {
    const listed = this.#listed ?? this.#memberById;
    for (const id of this.#memberById.keys()) if (!listed.has(id)) this.#remove(id, 'expired');
    const order = String([...this.#memberById.keys()]);
    this.#memberById = listed;
    this.#listed = null;
    if (String([...listed.keys()]) === order) return;
    this.#list = null;
    this.enter('member');
  }

  #report(type, event) {
    if (type !== 'state') this.#list = null;
    this.#effects.push({ room: this.#room, type, event });
  }
}
