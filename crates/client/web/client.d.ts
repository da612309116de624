/** Types of `client.js`. */

/** A proof of who the client is, good for `valid_ms` milliseconds from now; without that until a server says otherwise. */
export interface Token {
  token: string;
  valid_ms?: number;
}

export interface ClientOptions {
  /** Where balancers take connections, `wss://HOST/v1/connect`; tried in this order, each failure moving on to the next. */
  urls: string[];
  clientId: string;
  /** Asked before the first try, before a token runs out, and after one that had served is refused. It has 30 s. */
  token?: () => Promise<Token>;
  /** For where there is none, Node.js before 22 say. */
  WebSocket?: typeof WebSocket;
  /**
   * Where the next page of the tab finds the session: sessionStorage unless given; null: nowhere.
   * README.md specifies which tab may take it.
   */
  storage?: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> | null;
  /** Requests that may wait to be sent: 256. */
  queue?: number;
  /** Bytes of them: 1 MiB. */
  queueBytes?: number;
  /** How long a request may take, time without a connection included: 60,000 ms. */
  timeoutMs?: number;
}

export interface Member {
  client_id: string;
  data?: unknown;
}

export interface Welcome {
  type: 'welcome';
  client_id: string;
  resumed: boolean;
  max_message_bytes: number;
  ice_servers: RTCIceServer[];
  node?: string;
}

/** Why there is no connection: a close code, the status of a refusal, or nobody there. */
export interface Loss {
  code?: number;
  status?: number;
  fault?: 'no_welcome' | 'no_token' | 'silent' | 'nonsense';
}

export type State =
  | { state: 'connecting'; url: number }
  | { state: 'connected'; resumed: boolean; welcome: Welcome }
  | ({ state: 'waiting'; in_ms: number } & Loss)
  | ({ state: 'closed' } & Loss);

/** What the events of a client have as `detail`, by type. */
export interface ClientEvents {
  state: State;
  signal: { type: 'signal'; from: string; data: unknown; id?: number };
  broadcast: { type: 'broadcast'; room: string; from: string; data: unknown; id?: number };
  joined: { type: 'joined'; room: string; version: number; capacity: number | null; count: number; members: Member[]; more: boolean };
  waiting: { type: 'waiting'; room: string; ahead: number; queue_length: number };
  members_changed: { type: 'members_changed'; room: string; version: number; joined: Member[]; left: { client_id: string; reason: string }[] };
  left: { type: 'left'; room: string; reason: string };
  ice_servers: { type: 'ice_servers'; ice_servers: RTCIceServer[] };
  moved: { type: 'moved'; node: string };
  error: { type: 'error'; code: string; message: string; retry_after_ms?: number };
}

/** A request was not taken; nothing of it was sent. */
export class SendError extends Error {
  readonly code: 'queue_full' | 'too_large' | 'bad_name' | 'not_connected' | 'too_many_rooms' | 'closed';
}

/** A request that was taken was not carried out, as far as is known. */
export class RequestError extends Error {
  /** `closed`, `expired`, or an error code of the protocol, `recipient_unavailable` above all. */
  readonly code: string;
  readonly outcome: 'closed' | { refused: string } | { expired: { sent: boolean } };
}

/** A client that connects, comes back, and hands each message over once. */
export class Client extends EventTarget {
  constructor(options: ClientOptions);
  readonly clientId: string;
  readonly state: State['state'];
  /** The latest that a server has told. */
  readonly iceServers: RTCIceServer[];
  /** Which node serves this client, where the mesh tells. */
  readonly node: string | null;
  /**
   * Connects now, also when a try was due later. Goes on with the session that a page of this tab
   * has left, if there is one.
   */
  connect(): void;
  /** Resolves when the recipient has it. `ttlMs`: how long to hold it for an absent recipient. Rejects with a SendError or RequestError, as the next three do. */
  signal(to: string, data: unknown, options?: { ttlMs?: number }): Promise<{ members: undefined }>;
  join(room: string, data?: unknown): Promise<{ members: undefined }>;
  leave(room: string): Promise<{ members: undefined }>;
  /** Resolves to how many members have it. Rejects with `rate_limited` if it would reach more members than the server allows lately. */
  broadcast(room: string, data: unknown): Promise<{ members: number }>;
  /** Answered by a `joined` event. Throws a SendError without a connection. */
  members(room: string, after?: string): void;
  /** Ends the session, also one that was left to the next page. */
  close(): void;
  /** Leaves the session to the next page of this tab, or to the next `connect`. */
  detach(): void;
  addEventListener<T extends keyof ClientEvents>(
    type: T, listener: (event: CustomEvent<ClientEvents[T]>) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(
    type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions): void;
}

/** The rules without clock, chance or network; `../vectors` are examples of them. */
export class Core {
  constructor(options: { clientId: string; urls?: number; tokens?: boolean; queue?: number; queueBytes?: number; timeoutMs?: number; session?: object });
  readonly state: State['state'];
  readonly deadline: number | null;
  takeEffects(): unknown[];
}
