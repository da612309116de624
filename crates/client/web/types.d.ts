/** Data types of the SDK. The declarations of its classes are made from their sources. */

import type { MeshError } from './core/mesh_error.js';

export interface IceServer {
  urls: string | string[];
  username?: string;
  credential?: string;
}

/** A JWT with its remaining validity, in milliseconds. */
export interface Token {
  token: string;
  /** Absent: read from the claims of the JWT. */
  validMs?: number;
}

/** The SDK itself writes properties that are read-only for applications. */
export type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

type TokenResult = string | Token | null;

export interface ClientOptions {
  /** Name of the client: 1 to 128 of `A-Z a-z 0-9 . _ ~ : @ -`, without `~` first. */
  clientId: string;
  /**
   * A JWT, or a function that returns one. It is called before the first attempt, before a token
   * ends, and after a server rejected a token that was used before. It has 30 s. With null the
   * client closes. Absent: no tokens.
   */
  token?: string | (() => TokenResult | Promise<TokenResult>);
  /** Time limit of a request in ms, with time without a connection; 60,000 unless given. */
  timeoutMs?: number;
  /** Time limit of the promise of `connect` in ms; 20,000 unless given. */
  connectTimeoutMs?: number;
  /** Maximum requests that are not sent yet, else `queue_full`; 4,096 unless given. */
  queue?: number;
  /** Maximum bytes of requests that are not sent yet, else `queue_full`; 2 MiB unless given. */
  queueBytes?: number;
  /** Storage of the session for the tab's next page: sessionStorage unless given; null: none. */
  storage?: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> | null;
  /** Class of sockets; the global one unless given. */
  WebSocket?: any;
  /** Least level of logged texts; `warn` unless given. */
  logLevel?: 'debug' | 'info' | 'warn' | 'error' | 'none';
  /** Where texts are logged; `console` unless given. */
  logger?: Record<'debug' | 'info' | 'warn' | 'error', (text: string) => void>;
}

export type ClientState = 'disconnected' | 'connecting' | 'connected' | 'reconnecting';

/** A change of the connection's state, or a failed attempt. */
export interface StateChange {
  state: ClientState;
  /** Reason of the loss, failure or end; absent if the application caused it. */
  reason?: MeshError;
  /** Wait before the next attempt, in milliseconds. */
  retryInMs?: number;
  /** Connected: whether the session continues. If not, messages for the earlier one may be lost. */
  isResumed?: boolean;
}

/** A message of another client. */
export interface Message<Data = any> {
  /** Id of the sender. */
  from: string;
  data: Data;
  /** The sender's number of the message, if it gave one. */
  id?: number;
}

export interface ClientEvents<Signal = any> {
  /** The state changed, or an attempt failed. */
  state: StateChange;
  disconnected: StateChange;
  connecting: StateChange;
  connected: StateChange;
  reconnecting: StateChange;
  signal: Message<Signal>;
  /** Fresh ICE servers. */
  iceServers: IceServer[];
  /**
   * The token function failed, or the server refused a renewed token or another message without a
   * number.
   */
  error: MeshError;
}

export interface Stats {
  /** Connections, and how many of them resumed a session. */
  connects: number;
  resumes: number;
  /** Messages on sockets. */
  sent: number;
  received: number;
  /** Requests that were not sent, and sent ones without an answer. */
  queued: number;
  unanswered: number;
  /** Time from the latest ping to its answer, in ms; null before. */
  roundTripMs: number | null;
}

export type RoomState = 'out' | 'joining' | 'waiting' | 'member';

/** A member of a room. */
export interface Member<Data = any> {
  readonly id: string;
  /** Data that the member shows; null if it has none. */
  readonly data: Data;
}

export interface RoomEvents<Data = any, Broadcast = any> {
  /** `members` has a further member, also at the own join. */
  join: Member<Data>;
  /** A member has other data. */
  update: Member<Data>;
  /** A member left: `left`, `expired`, `removed`, `closed`, or a reason of a later release. */
  leave: { member: Member<Data>; reason: string };
  broadcast: Message<Broadcast>;
  /** The own state; `left`, `expired`, `forbidden`, `removed`, `closed` or a code after its end. */
  state: { state: RoomState; reason?: string };
  /** A property of the room changed. */
  change: undefined;
}

export interface CallOptions {
  /** Its tracks are sent to the other members, as by `publish`; none unless given. */
  stream?: MediaStream | null;
  /** Maximum members with a direct connection; 8 unless given. */
  maxPeers?: number;
  /** Called for each new connection and ICE restart; the client's latest ones unless given. */
  iceServers?: () => RTCIceServer[];
  /** Class of connections; the global one unless given. */
  RTCPeerConnection?: typeof RTCPeerConnection;
  /** Class of streams; the global one unless given. */
  MediaStream?: typeof MediaStream;
}

/** Another member, in a call. */
export interface Peer<Data = any> {
  readonly id: string;
  /** Data that the member shows; null if it has none. */
  readonly data: Data;
  /** State of the direct connection; `none` for a member without a place (`maxPeers`). */
  readonly state: RTCPeerConnectionState | 'none';
  readonly channelState: RTCDataChannelState | 'none';
  /** Same as `streams.main`; null without one. */
  readonly stream: MediaStream | null;
  /** Streams of the member by label. Each stays the same object until its label ends. */
  readonly streams: Readonly<Record<string, MediaStream>>;
  /** The page of the member is gone, or unreachable at present. Its seat may still be there. */
  readonly isAway: boolean;
  readonly connection: RTCPeerConnection | null;
}

export interface CallEvents<Message = any> {
  /** `peers` has changed. */
  change: undefined;
  /** The data channel to this member is open. */
  open: { id: string };
  /** A message by data channel. */
  message: { from: string; data: Message };
  /** A connection, a track of this label, or a message to this member failed. */
  failure: { id: string; label?: string; error: Error };
}
