/** Two pages that negotiate over a network with delays, holds and reloads, on its own clock. */

import { Negotiation } from '../core/negotiation.js';

/** Wait of a page whose signal was refused, in milliseconds. */
const RETRY = 200;

/** Returns a generator of numbers in [0, 1) (mulberry32). */
export function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A clock with pending calls, in milliseconds. */
class Clock {
  now = 0;
  #pending = [];

  after(wait, call) {
    this.#pending.push({ at: this.now + wait, call });
  }

  run() {
    for (let turns = 0; this.#pending.length > 0; turns += 1) {
      if (turns > 100_000) throw new Error('the sides never rest');
      this.#pending.sort((one, other) => one.at - other.at);
      const { at, call } = this.#pending.shift();
      this.now = at;
      call();
    }
  }
}

/** The connection of a page, with the rules of RTCPeerConnection that matter here. */
class Connection {
  isOffering = false;
  remote = null;
  /** Changes of the other side that arrived. */
  seen = 0;
  description = null;

  constructor(name) {
    this.name = name;
  }

  offer(changes) {
    if (this.isOffering) throw new Error('offer in an offer');
    this.isOffering = true;
    this.description = { type: 'offer', by: this.name, changes };
  }

  apply({ type, by, to, changes }) {
    if (this.remote !== null && this.remote !== by) throw new Error('description of another connection');
    if (type === 'answer' && !(this.isOffering && to === this.name)) throw new Error('answer without an offer');
    if (type === 'offer' && this.isOffering) throw new Error('offers cross');
    this.remote = by;
    this.isOffering = false;
    this.seen = changes;
  }

  answer(changes) {
    this.description = { type: 'answer', by: this.name, to: this.remote, changes };
  }
}

/** A page of a client. Its messages go to the present page of the other client. */
class Page {
  connection = null;
  isGone = false;
  #isBusy = false;
  #isWaiting = false;
  /** Connection whose message was refused last. */
  #lost = null;
  #early = [];

  constructor(world, client) {
    Object.assign(this, { world, client });
    this.core = new Negotiation(client.offers, () => `${client.id}${(world.connections += 1)}`);
    // It receives signals before its list of members.
    world.clock.after(world.random() * world.loading, () => this.#begin());
  }

  #begin() {
    if (this.isGone) return;
    this.core.start();
    for (const message of this.#early) this.core.receive(message);
    this.step();
  }

  receive(message) {
    if (this.core.of === null) this.#early.push(message);
    else this.core.receive(message);
    this.step();
  }

  change() {
    this.client.changes += 1;
    if (this.core.of === null) return;
    this.core.needed();
    this.step();
  }

  /** A message was refused: as calls do, the page waits, and then repeats it or starts over. */
  refused({ description, wanted }) {
    const isNeeded = description || wanted || !this.world.isConnected();
    if (this.isGone || !isNeeded) return;
    this.#lost = this.connection;
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    this.world.clock.after(RETRY, () => {
      this.#isWaiting = false;
      if (this.isGone || this.#lost !== this.connection) return;
      if (!this.world.isConnected()) return this.startOver();
      this.core.repeat();
      this.step();
    });
  }

  startOver() {
    if (this.core.of === null) return;
    this.core.start();
    this.#isBusy = false;
    this.step();
  }

  step() {
    while (!this.#isBusy && !this.isGone) {
      const step = this.core.next();
      if (step === undefined) return;
      if (step.grow) continue;
      if (step.open) this.connection = new Connection(this.core.of);
      else if (step.send) this.world.send(this.client, step.send);
      else this.#perform(step);
    }
  }

  #perform(step) {
    const { connection } = this;
    this.#isBusy = true;
    const result = this.#start(step, connection);
    this.world.clock.after(this.world.random() * 20, () => {
      if (connection !== this.connection || this.isGone) return;
      this.#isBusy = false;
      this.core.end(step, result);
      // A browser fires `negotiationneeded` again.
      const isMissing = (connection.description?.changes ?? 0) < this.client.changes;
      if (isMissing && !connection.isOffering) this.core.needed();
      this.step();
    });
  }

  #start({ offer, repeat, description, want }, connection) {
    const { client } = this;
    if (want) return { wanted: {} };
    if (description) connection.apply(description);
    if (description?.type === 'offer') connection.answer(client.changes);
    else if (offer) connection.offer(client.changes);
    else if (!repeat) return undefined;
    return { description: connection.description };
  }
}

export class World {
  clock = new Clock();
  connections = 0;
  sent = 0;
  /** Maximum time from a page's load to its first connection. */
  loading = 60;
  clients = [];

  constructor(seed) {
    this.random = randomOf(seed);
    for (const [at, id] of ['b', 'a'].entries()) {
      this.clients.push({ id, offers: id === 'b', other: 1 - at, changes: 0, waiting: [], heldUntil: 0, refusedUntil: 0, pumping: false });
    }
    for (const client of this.clients) this.load(client);
  }

  load(client) {
    if (client.page) client.page.isGone = true;
    client.page = new Page(this, client);
  }

  /** A reload. The signals that the page could not send are lost if it is killed. */
  reload(client) {
    const { waiting } = this.clients[client.other];
    const isKilled = this.random() < 0.3;
    if (isKilled) waiting.length = Math.floor(this.random() * (waiting.length + 1));
    this.load(client);
  }

  hold(client, time) {
    client.heldUntil = Math.max(client.heldUntil, this.clock.now + time);
  }

  /** Sends a signal, which arrives in order, after a delay, and after holds. */
  send(from, message) {
    this.sent += 1;
    const to = this.clients[from.other];
    if (this.clock.now < to.refusedUntil) {
      const { page } = from;
      return this.clock.after(1, () => page.refused(message));
    }
    to.waiting.push(JSON.parse(JSON.stringify(message)));
    this.#pump(to);
  }

  #pump(to) {
    if (to.pumping) return;
    to.pumping = true;
    const wait = Math.max(to.heldUntil - this.clock.now, 0) + this.random() * 30;
    this.clock.after(wait, () => {
      to.pumping = false;
      if (to.heldUntil > this.clock.now) return this.#pump(to);
      const message = to.waiting.shift();
      if (message) to.page.receive(message);
      if (to.waiting.length > 0) this.#pump(to);
    });
  }

  /** For this time signals to the client are refused. */
  refuse(client, time) {
    client.refusedUntil = this.clock.now + time;
  }

  isConnected() {
    const [one, other] = this.clients.map(({ page }) => page.connection);
    return one?.remote === other?.name && other?.remote === one?.name;
  }

  /** Returns what is wrong, or null, once everything has arrived. */
  fault() {
    this.clock.run();
    const [one, other] = this.clients.map(({ page }) => page.connection);
    if (!this.isConnected()) return 'not connected to each other';
    if (one.isOffering || other.isOffering) return 'an offer has no answer';
    const [mine, theirs] = this.clients.map(({ changes }) => changes);
    if (other.seen !== mine || one.seen !== theirs) return 'a change is missing';
    return null;
  }
}
