/** A browser: a sessionStorage for each tab, one localStorage for all, and pages with a client. */

import { Client } from '../client.js';
import { FakeSocket } from './socket.js';

export class FakeStorage {
  #valueByKey;

  constructor(entries = []) {
    this.#valueByKey = new Map(entries);
  }

  get length() {
    return this.#valueByKey.size;
  }

  key(at) {
    return [...this.#valueByKey.keys()][at] ?? null;
  }

  getItem(key) {
    return this.#valueByKey.get(key) ?? null;
  }

  setItem(key, value) {
    this.#valueByKey.set(key, String(value));
  }

  removeItem(key) {
    this.#valueByKey.delete(key);
  }

  copy() {
    return new FakeStorage(this.#valueByKey);
  }
}

export class FakeBrowser {
  localStorage = new FakeStorage();

  /** `context`: of the test, whose end takes the browser away. */
  constructor(context) {
    globalThis.localStorage = this.localStorage;
    context.after(() => {
      delete globalThis.localStorage;
      delete globalThis.addEventListener;
    });
  }

  /** A page with a client, in a tab with this sessionStorage. */
  open(sessionStorage, options = {}) {
    const events = new EventTarget();
    const enter = () => (globalThis.addEventListener = events.addEventListener.bind(events));
    enter();
    const urls = ['ws://mesh.example/v1/connect'];
    const client = new Client({ urls, clientId: 'me', WebSocket: FakeSocket, storage: sessionStorage, ...options });
    const states = [];
    client.addEventListener('state', ({ detail }) => states.push(detail.state));
    client.connect();
    const fire = (type, persisted) => {
      enter();
      events.dispatchEvent(Object.assign(new Event(type), { persisted }));
    };
    return { client, states, fire, socket: FakeSocket.latest };
  }
}

/** The resume token that a socket shows, or undefined. */
export const resumeOf = ({ protocols }) => protocols.find((protocol) => protocol.startsWith('resume.'))?.slice('resume.'.length);
