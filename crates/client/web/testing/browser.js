/** A browser with one localStorage, a sessionStorage for each tab, and pages with a client. */

import { Client } from '../client.js';
import { FakeSocket } from './socket.js';

/** Its entries are its properties, as in browsers. */
export class FakeStorage {
  constructor(entries = []) {
    Object.assign(this, Object.fromEntries(entries));
  }

  key(at) {
    return Object.keys(this)[at] ?? null;
  }

  getItem(key) {
    return Object.hasOwn(this, key) ? this[key] : null;
  }

  setItem(key, value) {
    this[key] = String(value);
  }

  removeItem(key) {
    delete this[key];
  }

  get length() {
    return Object.keys(this).length;
  }

  copy() {
    return new FakeStorage(Object.entries(this));
  }
}

export class FakeBrowser {
  localStorage = new FakeStorage();

  /** @param {object} context of the test, whose end removes the browser */
  constructor(context) {
    globalThis.localStorage = this.localStorage;
    context.after(() => {
      delete globalThis.localStorage;
      delete globalThis.addEventListener;
      delete globalThis.removeEventListener;
    });
  }

  /** Opens a page with a client, in a tab with this sessionStorage. */
  open(sessionStorage, options = {}) {
    const events = new EventTarget();
    const enter = () => {
      globalThis.addEventListener = events.addEventListener.bind(events);
      globalThis.removeEventListener = events.removeEventListener.bind(events);
    };
    enter();
    const tab = { storage: sessionStorage, WebSocket: FakeSocket, logLevel: 'none' };
    const client = new Client('ws://mesh.example', { clientId: 'me', ...tab, ...options });
    const states = [];
    client.on('state', ({ state }) => states.push(state));
    client.connect();
    const fire = (type, persisted) => {
      enter();
      events.dispatchEvent(Object.assign(new Event(type), { persisted }));
    };
    return { client, states, fire, socket: FakeSocket.latest };
  }
}

const RESUME = 'resume.';

/** Returns the resume token of a socket, or undefined. */
export const resumeOf = ({ protocols }) =>
  protocols.find((protocol) => protocol.startsWith(RESUME))?.slice(RESUME.length);
