/** Types of `client.js`. */

/** Proof of a client's identity. */
export interface Token {
  /** A JWT. */
  token: string;
  /** Remaining validity in milliseconds. Absent: used until a server rejects the token. */
  valid_ms?: number;
}

export interface ClientOptions {
  /**
   * Addresses of balancers, `wss://HOST/v1/connect`. They are tried in this order, the next one
   * after each failure or loss, and then from the first.
   */
  urls: string[];
  /**
   * Id of this client: 1 to 128 of `A-Z a-z 0-9 . _ ~ : @ -`, without `~` first. The server refuses
   * others with 4400 or 4403.
   */
  clientId: string;
  /**
   * Returns a token of the client. Called before the first attempt, before a token expires, and
   * after a server rejected a token that was used before. After 30 s the call counts as failed.
   * Absent: no tokens.
   */
  token?: () => Promise<Token>;
  /** Class of sockets; the global one unless given. Node.js has none before version 22. */
  WebSocket?: typeof WebSocket;
  /**
   * Storage of the session for the next page of the tab: sessionStorage unless given; null disables
   * this. README.md specifies which tab may continue it.
   */
  storage?: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> | null;
  /** Maximum requests that are not sent yet, else `queue_full`; 256 unless given. */
  queue?: number;
  /** Maximum bytes of requests that are not sent yet, else `queue_full`; 1 MiB unless given. */
  queueBytes?: number;
  /**
   * Time limit of a request in ms, including time without a connection, else `expired`; 60,000
   * unless given.
   */
  timeoutMs?: number;
}

/** A member of a room. */
export interface Member {
  client_id: string;
  /** Data that the member shows, any JSON; absent if it has none. */
  data?: unknown;
}

/** First message of a server. */
export interface Welcome {
  type: 'welcome';
  client_id: string;
  /** True if an earlier session was resumed. Otherwise messages for that one may be lost. */
  resumed: boolean;
  /** Largest message that the server accepts, in bytes. */
  max_message_bytes: number;
  ice_servers: RTCIceServer[];
  /** Node that serves the client; absent if the mesh does not reveal it. */
  node?: string;
}

/**
 * Reason for a lost connection: `code` or `fault`. Both are absent if the application closed or
 * detached the client.
 */
export interface Loss {
  /** Close code of the socket; 1006 if it ended without a close frame. */
  code?: number;
  /** HTTP status of a refusal. Always absent: sockets report a refusal as code 1006. */
  status?: number;
  /**
   * Reason for which the client ended it. `no_welcome`: none within 10 s. `no_token`: the function
   * failed or took 30 s. `silent`: no answer within 5 s of a ping. `protocol_error`: by a message.
   */
  fault?: 'no_welcome' | 'no_token' | 'silent' | 'protocol_error';
}

/**
 * State of the connection. `url` is an index of `urls`, from 0. `in_ms` is the wait before the next
 * attempt, in ms. A `closed` client does not reconnect by itself.
 */
export type State =
  | { state: 'connecting'; url: number }
  | { state: 'connected'; resumed: boolean; welcome: Welcome }
  | ({ state: 'waiting'; in_ms: number } & Loss)
  | ({ state: 'closed' } & Loss);

/** A message of another client. `id` is the one of its sender; absent if that gave none. */
export interface Signal {
  type: 'signal';
  from: string;
  data: unknown;
  id?: number;
}

/** A message of another member of a room. `id` as in `Signal`. */
export interface Broadcast {
  type: 'broadcast';
  room: string;
  from: string;
  data: unknown;
  id?: number;
}

/**
 * A page of a room's members: after a join, a resume, the waiting queue or missed changes, or as
 * answer to `members`.
 */
export interface Joined {
  type: 'joined';
  room: string;
  /** Version of the room. Each published change makes it larger. */
  version: number;
  /** Maximum members; null for no limit. */
  capacity: number | null;
  /** Number of members in the whole room. */
  count: number;
  /** At most 500 members, oldest first; fewer if their data is large. */
  members: Member[];
  /** True if members follow the last one: request them by `members`. */
  more: boolean;
  /** Last member of the page before. Absent for the first page, which replaces all former ones. */
  after?: string;
}

/**
 * The room is full, and the client is in its waiting queue. Repeated when its position changes, at
 * most once a second.
 */
export interface Waiting {
  type: 'waiting';
  room: string;
  /** Number of clients ahead in the queue. */
  ahead: number;
  /** Number of clients in the queue, this one included. */
  queue_length: number;
}

/** Members other than the client itself joined or left a room, in at least 0.2 s. */
export interface MembersChanged {
  type: 'members_changed';
  room: string;
  /** Version of the room after these changes. */
  version: number;
  /** New members, and members with new data. */
  joined: Member[];
  /** Former members; `reason` is `left` or `expired`, as in `Left`. */
  left: { client_id: string; reason: string }[];
}

/**
 * The client has no seat in a room and does not rejoin it. `reason` is `left` (by the client),
 * `expired`, `forbidden`, the error code of a refused rejoin, or one that a later release adds.
 * Expired: the client was silent for too long, or a refused `leave` was carried out late.
 * Forbidden: its token does not admit the room.
 */
export interface Left {
  type: 'left';
  room: string;
  reason: string;
}

/** The server refused a message that was no request, for example a renewed token. */
export interface Problem {
  type: 'error';
  /** Error code of the protocol. */
  code: string;
  /** Explanation for people. */
  message: string;
  /** Time after which a retry can succeed, in ms; absent if a wait does not help. */
  retry_after_ms?: number;
}

/** `detail` of each event, by type. */
export interface ClientEvents {
  state: State;
  signal: Signal;
  broadcast: Broadcast;
  joined: Joined;
  waiting: Waiting;
  members_changed: MembersChanged;
  left: Left;
  /** Fresh ICE servers. Servers send them only on request, which this client never makes. */
  ice_servers: { type: 'ice_servers'; ice_servers: RTCIceServer[] };
  /** Another node serves the client now. No action is needed. */
  moved: { type: 'moved'; node: string };
  error: Problem;
}

/** A request was not accepted. Nothing of it was sent. */
export class SendError extends Error {
  /**
   * `queue_full`: await earlier requests. `too_large`: over `max_message_bytes` of the latest
   * `welcome`, or 64 KiB. `bad_name`: no client id or room name. `not_connected`: of `members`
   * alone. `too_many_rooms`: a join beyond 256 rooms. `closed`: the client is closed.
   */
  readonly code:
    | 'queue_full'
    | 'too_large'
    | 'bad_name'
    | 'not_connected'
    | 'too_many_rooms'
    | 'closed';
}

/** An accepted request was not carried out, as far as is known. */
export class RequestError extends Error {
  /** `closed`, `expired`, or an error code of the protocol, usually `recipient_unavailable`. */
  readonly code: string;
  /** `sent` is true if the request was sent, and so may have been delivered. */
  readonly outcome: 'closed' | { refused: string } | { expired: { sent: boolean } };
}

type Listener<E> = (event: CustomEvent<E>) => void;

/**
 * A client of the mesh. It reconnects by itself, resumes its session, and reports each message
 * once.
 */
export class Client extends EventTarget {
  /** Creates a client without a connection: call `connect`. */
  constructor(options: ClientOptions);
  readonly clientId: string;
  /** `closed` at first; `waiting` also while the browser keeps the page that was left. */
  readonly state: State['state'];
  /** The latest ICE servers from the mesh; empty before the first `welcome`. */
  readonly iceServers: RTCIceServer[];
  /** Node that serves this client; null before the first `welcome`, or if not revealed. */
  readonly node: string | null;
  /**
   * Connects, and ends the wait for the next attempt. Returns at once. A closed client resumes the
   * session that a page of this tab saved, if there is one, or starts a new one.
   *
   * @throws {TypeError} if the platform has no WebSocket and the options name none
   * @throws {TypeError | DOMException} if the URL is invalid, unless a token is fetched first
   */
  connect(): void;
  /**
   * Sends `data`, any JSON, to another client. Messages to one client arrive in the order sent.
   * Resolves when its application, or the socket of a client without an SDK, has the message.
   * `ttlMs` limits the time that the mesh holds it for an absent recipient, in whole milliseconds;
   * 0: not at all. The mesh's own hold time is the upper limit and the default.
   *
   * Rejects with a SendError if the request is not accepted, and with a RequestError if it is not
   * known to have been carried out. Rejects with a TypeError if `data` cannot be written as JSON.
   * So do `join`, `leave` and `broadcast`.
   */
  signal(to: string, data: unknown, options?: { ttlMs?: number }): Promise<{ members: undefined }>;
  /**
   * Joins a room, or its waiting queue if it is full, and shows `data` to its members. The mesh
   * refuses more than 4 KiB. Without `data` a member's present data stays. After the loss of its
   * session the client rejoins by itself, again after a refusal that names a wait.
   */
  join(room: string, data?: unknown): Promise<{ members: undefined }>;
  /** Leaves a room or its waiting queue. */
  leave(room: string): Promise<{ members: undefined }>;
  /**
   * Sends `data` to all other members of a room that the client is in. Resolves to the number of
   * members reached, once the outcome for each is known. Rejects with `rate_limited` above the
   * server's limit of messages, or of members reached.
   */
  broadcast(room: string, data: unknown): Promise<{ members: number }>;
  /**
   * Requests at most 500 members of a room, starting after the client `after`, or with the first.
   * The answer is a `joined` or `error` event; none if the connection is lost first. Throws a
   * SendError (`not_connected` or `closed`) without a connection.
   */
  members(room: string, after?: string): void;
  /**
   * Ends the session, and removes a saved one from the storage. Without a connection the mesh keeps
   * the session until it expires. Requests without an outcome reject with `closed`.
   */
  close(): void;
  /**
   * Saves the session for the next page of this tab, or for the next `connect`, and closes.
   * Requests without an outcome reject with `closed`, but stay in the saved session. If the storage
   * is null or refuses it, the session is lost.
   */
  detach(): void;
  addEventListener<T extends keyof ClientEvents>(
    type: T,
    listener: Listener<ClientEvents[T]>,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
}
