/** A WebSocket whose server is the test. */

export const WELCOME = { type: 'welcome', client_id: 'me', heartbeat_ms: 25_000, max_message_bytes: 65_536, ice_servers: [] };

export class FakeSocket {
  static latest = null;
  static opened = 0;
  sent = [];

  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    FakeSocket.latest = this;
    FakeSocket.opened += 1;
  }

  send(text) {
    this.sent.push(text);
  }

  close(code) {
    this.closed = code ?? 'without a code';
  }

  say(message) {
    this.onmessage({ data: JSON.stringify(message) });
  }

  /** The connection ends: by a close frame, or with 1006 without one, as browsers have it. */
  end(code) {
    this.onclose({ code, reason: '', wasClean: code !== 1006 });
  }
}
