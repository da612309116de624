import { abortable } from './abort.js';
import { MeshError } from './core/mesh_error.js';
import { assertJson } from './core/outgoing.js';
import { Emitter } from './emitter.js';
import { checkOptions, OF_METHODS } from './options.js';

/** @type {readonly any[]} */
const NO_MEMBERS = Object.freeze([]);

/**
 * A room of the mesh, by `client.room(name)`. After the loss of its session the client rejoins by
 * itself.
 *
 * @template [Data=any] data that members show
 * @template [Broadcast=any] data of broadcasts
 * @extends {Emitter<import('./types.js').RoomEvents<Data, Broadcast>>}
 */
export class Room extends Emitter {
  /** Name of the room. @type {string} @readonly */
  name;
  /** @type {import('./client.js').Client<any>} @readonly */
  client;
  /** Grows with each change of the other properties. @type {number} @readonly */
  revision = 0;
  #members;
  #send;

  /**
   * Applications call `client.room`.
   *
   * @param {import('./client.js').Client<any>} client
   * @param {string} name
   * @param {() => any} members returns the room in the client's core
   * @param {(request: object, signal?: AbortSignal) => Promise<any>} request
   */
  constructor(client, name, members, request) {
    super();
    this.client = client;
    this.name = name;
    this.#members = members;
    this.#send = request;
  }

  #request(type, data, signal) {
    return this.#send({ type, room: this.name, data }, signal);
  }

  /**
   * `out`, `joining`, `waiting` (in the queue of a full room) or `member`. A member stays one while
   * the client reconnects.
   *
   * @returns {import('./types.js').RoomState}
   */
  get state() {
    return this.#members()?.state ?? 'out';
  }

  /**
   * The other members, oldest first: the same frozen array until a change.
   *
   * @returns {readonly import('./types.js').Member<Data>[]}
   */
  get members() {
    return this.#members()?.list ?? NO_MEMBERS;
  }

  /** Number of members with this client; 0 if it is none. @returns {number} */
  get count() {
    return this.#members()?.count ?? 0;
  }

  /** Maximum members; null for no limit, or while unknown. @returns {number | null} */
  get capacity() {
    return this.#members()?.capacity ?? null;
  }

  /**
   * Place in the waiting queue, in clients; null outside of it.
   *
   * @returns {{ahead: number, length: number} | null}
   */
  get queuePlace() {
    return this.#members()?.queuePlace ?? null;
  }

  /**
   * Returns another member; undefined if it is none.
   *
   * @param {string} id
   * @returns {import('./types.js').Member<Data> | undefined}
   */
  member(id) {
    return this.#members()?.member(id);
  }

  /**
   * Joins the room. If it is full, the client waits in its queue.
   *
   * @param {object} [options]
   * @param {Data} [options.data] any JSON, shown to the members; the mesh refuses more than 4 KiB.
   *   Without it a member's present data stays
   * @param {boolean} [options.queue] false: a full room rejects with `room_full`
   * @param {AbortSignal} [options.signal] an abort leaves too
   * @returns {Promise<void>} resolves once the client is a member. Rejects with a `MeshError`
   * @throws {TypeError} if `data` has no JSON form
   */
  join({ data, queue = true, signal } = {}) {
    if (data !== undefined) assertJson(data);
    checkOptions({ queue }, OF_METHODS);
    return this.#seated(this.#request('join', data, signal), queue, signal);
  }

  async #seated(accepted, queue, signal) {
    try {
      await accepted;
      await this.#seat(queue, signal);
    } catch (error) {
      const { code, wasSent } = /** @type {MeshError} */ (error);
      const isUnwanted = wasSent && (code === 'aborted' || code === 'room_full');
      // The core leaves a room that the client still joins, unless another join wants it.
      if (isUnwanted && (this.state === 'member' || this.state === 'waiting')) this.leave().catch(() => {});
      throw error;
    }
  }

  #seat(queue, signal) {
    let remove;
    const seated = abortable(signal, () => true, (settle) => {
      const check = ({ state, reason = 'left' }) => {
        if (state === 'joining' || (state === 'waiting' && queue)) return;
        const code = state === 'out' ? reason : 'room_full';
        settle(state !== 'member' && new MeshError(code, { wasSent: true }));
      };
      remove = this.on('state', check);
      check(this);
    });
    return seated.finally(remove);
  }

  /**
   * Shows other data to the members.
   *
   * @param {Data} data
   * @returns {Promise<void>} rejects with a `MeshError`, `not_in_room` outside of the room
   * @throws {TypeError} if `data` has no JSON form
   */
  update(data) {
    assertJson(data);
    if (this.state === 'out') return Promise.reject(new MeshError('not_in_room'));
    return this.#request('join', data);
  }

  /**
   * Leaves the room or its queue. `state` is `out` at once.
   *
   * @returns {Promise<void>} rejects with a `MeshError`
   */
  leave() {
    return this.#request('leave');
  }

  /**
   * Sends `data`, any JSON, to all other members.
   *
   * @param {Broadcast} data
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<number>} number of members that received it, once the outcome for each is
   *   known; rejects with a `MeshError`
   * @throws {TypeError} if `data` has no JSON form
   */
  broadcast(data, { signal } = {}) {
    assertJson(data);
    return this.#request('broadcast', data, signal);
  }
}
