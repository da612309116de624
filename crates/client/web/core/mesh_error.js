/** Error of the SDK. Its `code` is for programs, its `message` for people. */
export class MeshError extends Error {
  name = 'MeshError';
  /** A code of README.md's list, or an error code of the protocol. */
  code;
  /**
   * Time after which another try can succeed, in milliseconds; undefined: unknown.
   * @type {number | undefined}
   */
  retryAfterMs;
  /** False: nothing of the request was sent. True: it may have been carried out. */
  wasSent = false;
  /**
   * Close code of the socket.
   * @type {number | undefined}
   */
  closeCode;

  /**
   * @param {string} code
   * @param {{message?: string, retryAfterMs?: number, wasSent?: boolean, closeCode?: number,
   *   cause?: any}} [details] `message` is without the one of `cause`
   */
  constructor(code, { message = TEXT_BY_CODE[code] ?? code, cause, ...details } = {}) {
    super(cause ? `${message}: ${cause.message ?? cause}` : message, cause && { cause });
    Object.assign(this, details, { code });
  }
}

/**
 * Throws a TypeError for a wrong argument.
 *
 * @param {string} name
 * @param {unknown} value
 * @param {string} expected
 * @returns {never}
 */
export function refuse(name, value, expected) {
  throw new TypeError(`${name}: needs ${expected}, not ${typeof value === 'string' ? `"${value}"` : String(value)}`);
}

/** @type {Record<string, string>} */
export const TEXT_BY_CODE = {
  closed: 'the client or room is closed',
  expired: 'the seat expired',
  forbidden: 'the room is forbidden',
  left: 'the client left the room',
  no_welcome: 'no welcome in time',
  not_in_room: 'join the room first',
  protocol_error: 'the server breaks the protocol',
  queue_full: 'queue full: await earlier requests',
  room_full: 'the room is full',
  silent: 'the server does not answer',
  token_failed: 'the token function failed',
  too_many_rooms: 'at most 256 rooms',
  unreachable: 'no connection in time',
};
