/**
 * A WebSocket as the WHATWG standard specifies it (https://websockets.spec.whatwg.org/).
 *
 * A page calls `send` and `close`. The test is the server and calls `open`, `say`, `sayRaw`, `end`.
 * A close frame of the page is answered in kind by itself, in a later task.
 */

export const WELCOME = { type: 'welcome', client_id: 'me', heartbeat_ms: 25_000, max_message_bytes: 65_536, ice_servers: [] };

const MAX_REASON_BYTES = 123;
const SUBPROTOCOL = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** What a close event says of a close frame without a code, and of an end without a close frame. */
const NO_CODE = 1005, NO_FRAME = 1006;
/** Tests mock `setTimeout`. */
const later = setImmediate;

const bytesOf = (text) => new TextEncoder().encode(text).length;
const fails = (name) => {
  throw new DOMException(`as browsers throw it: ${name}`, name);
};

export class FakeSocket {
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSING = 2;
  static CLOSED = 3;
  static latest = null;
  static opened = 0;

  readyState = FakeSocket.CONNECTING;
  bufferedAmount = 0;
  onopen = null;
  onmessage = null;
  onerror = null;
  onclose = null;
  /** The texts that have left the page. */
  sent = [];
  /** How the page closed it: a code, `without a code`, `without a frame`, or undefined. */
  closed = undefined;

  constructor(url, protocols = []) {
    const isFit = protocols.every((protocol) => SUBPROTOCOL.test(protocol)) && new Set(protocols).size === protocols.length;
    if (!isFit) fails('SyntaxError');
    Object.assign(this, { url: new URL(url).href, protocols });
    FakeSocket.latest = this;
    FakeSocket.opened += 1;
  }

  send(text) {
    if (this.readyState === FakeSocket.CONNECTING) fails('InvalidStateError');
    if (this.readyState === FakeSocket.OPEN) this.sent.push(text);
    else this.bufferedAmount += bytesOf(text);
  }

  close(code, reason = '') {
    if (code !== undefined && code !== 1000 && !(code >= 3000 && code <= 4999)) fails('InvalidAccessError');
    if (bytesOf(reason) > MAX_REASON_BYTES) fails('SyntaxError');
    if (this.readyState >= FakeSocket.CLOSING) return;
    const wasOpen = this.readyState === FakeSocket.OPEN;
    this.readyState = FakeSocket.CLOSING;
    this.closed = wasOpen ? (code ?? 'without a code') : 'without a frame';
    later(() => this.end(wasOpen ? (code ?? NO_CODE) : NO_FRAME));
  }

  /** The server lets the page in. */
  open() {
    if (this.readyState !== FakeSocket.CONNECTING) return;
    this.readyState = FakeSocket.OPEN;
    this.onopen?.(new Event('open'));
  }

  /** The server sends a message, to a page that it lets in first. */
  say(message) {
    this.sayRaw(JSON.stringify(message));
  }

  sayRaw(data) {
    this.open();
    // The page does not get what comes once it has closed.
    if (this.readyState === FakeSocket.OPEN) this.onmessage?.(Object.assign(new Event('message'), { data }));
  }

  /** The connection ends by a close frame with this code. 1005: without a code; 1006: no frame. */
  end(code) {
    if (this.readyState === FakeSocket.CLOSED) return;
    this.readyState = FakeSocket.CLOSED;
    if (code === NO_FRAME) this.onerror?.(new Event('error'));
    this.onclose?.(Object.assign(new Event('close'), { code, reason: '', wasClean: code !== NO_FRAME }));
  }
}
