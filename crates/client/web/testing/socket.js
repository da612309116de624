/**
 * A WebSocket as the WHATWG standard specifies it (https://websockets.spec.whatwg.org/).
 *
 * A page calls `send` and `close`. The test is the server and calls `open`, `deliver`, `deliverRaw`
 * and `end`. A close frame of the page is answered by itself, in a later task.
 */

/** A welcome without `resume` and `resumed`. */
export const WELCOME = {
  type: 'welcome',
  client_id: 'me',
  heartbeat_ms: 25_000,
  max_message_bytes: 65_536,
  ice_servers: [],
};

const MAX_REASON_BYTES = 123;
const SUBPROTOCOL = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Code of a close event after a close frame without a code. */
const NO_CODE = 1005;
/** Code of a close event without a close frame. */
const NO_FRAME = 1006;
/** Not `setTimeout`, which tests mock. */
const later = setImmediate;

const bytesOf = (text) => new TextEncoder().encode(text).length;
const fail = (name) => {
  throw new DOMException(`as a browser throws it: ${name}`, name);
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
  /** Texts that the page sent. */
  sent = [];
  /** Close code of the page, `without a code` or `without a frame`; undefined: not closed. */
  closed = undefined;

  constructor(url, protocols = []) {
    const isUnique = new Set(protocols).size === protocols.length;
    if (!isUnique || !protocols.every((protocol) => SUBPROTOCOL.test(protocol))) fail('SyntaxError');
    Object.assign(this, { url: new URL(url).href, protocols });
    FakeSocket.latest = this;
    FakeSocket.opened += 1;
  }

  send(text) {
    if (this.readyState === FakeSocket.CONNECTING) fail('InvalidStateError');
    if (this.readyState === FakeSocket.OPEN) this.sent.push(text);
    else this.bufferedAmount += bytesOf(text);
  }

  close(code, reason = '') {
    if (code !== undefined && code !== 1000 && !(code >= 3000 && code <= 4999)) fail('InvalidAccessError');
    if (bytesOf(reason) > MAX_REASON_BYTES) fail('SyntaxError');
    if (this.readyState >= FakeSocket.CLOSING) return;
    const wasOpen = this.readyState === FakeSocket.OPEN;
    this.readyState = FakeSocket.CLOSING;
    this.closed = wasOpen ? (code ?? 'without a code') : 'without a frame';
    later(() => this.end(wasOpen ? (code ?? NO_CODE) : NO_FRAME));
  }

  /** The server accepts the connection. */
  open() {
    if (this.readyState !== FakeSocket.CONNECTING) return;
    this.readyState = FakeSocket.OPEN;
    this.onopen?.(new Event('open'));
  }

  /** The server sends a message, and accepts the connection first. */
  deliver(message) {
    this.deliverRaw(JSON.stringify(message));
  }

  /** The server sends any text or Blob. */
  deliverRaw(data) {
    this.open();
    // A page that closed the socket receives nothing more.
    if (this.readyState === FakeSocket.OPEN) this.onmessage?.(Object.assign(new Event('message'), { data }));
  }

  /** Ends the connection. Code 1005: a close frame without a code; 1006: no close frame. */
  end(code) {
    if (this.readyState === FakeSocket.CLOSED) return;
    this.readyState = FakeSocket.CLOSED;
    if (code === NO_FRAME) this.onerror?.(new Event('error'));
    this.onclose?.(Object.assign(new Event('close'), { code, reason: '', wasClean: code !== NO_FRAME }));
  }
}
