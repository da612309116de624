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
  wasSent;
  /**
   * Close code of the socket.
   * @type {number | undefined}
   */
  closeCode;

  /**
   * @param {string} code
   * @param {{message?: string, retryAfterMs?: number, wasSent?: boolean, closeCode?: number,
   *   cause?: unknown}} [details]
   */
  constructor(code, { message = TEXT_BY_CODE[code] ?? code, cause, ...details } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryAfterMs = details.retryAfterMs;
    this.wasSent = details.wasSent ?? false;
    this.closeCode = details.closeCode;
  }
}

/** @type {Record<string, string>} */
const TEXT_BY_CODE = {
  aborted: 'aborted by its signal',
  bad_name: 'a name has 1 to 128 of A-Z a-z 0-9 . _ ~ : @ -',
  closed: 'the client is closed',
  expired: 'the seat in the room expired',
  forbidden: 'the token does not admit this room',
  left: 'the client left the room',
  not_in_room: 'the client is not in this room: join it first',
  queue_full: 'too many requests wait: await earlier ones',
  room_full: 'the room is full',
  too_many_rooms: 'the client is in 256 rooms',
};
