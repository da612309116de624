/** Types of `room.js`. */

import type { Client } from './client.js';

export interface RoomOptions {
  /** Shown to the others, up to 4 KiB. */
  data?: unknown;
  /** Its tracks are sent to the others. */
  stream?: MediaStream | null;
  /** Asked for each connection: the client's latest unless given. */
  iceServers?: () => RTCIceServer[];
  /** How many members are connected to: 8. Those beyond are listed alone. */
  maxPeers?: number;
  RTCPeerConnection?: typeof RTCPeerConnection;
}

export interface RoomMember {
  id: string;
  data: unknown;
  /** Of the direct connection; `none` for one who is listed alone. */
  state: RTCPeerConnectionState | 'none';
  channelState: RTCDataChannelState | 'none';
  /** What the member shows. */
  stream: MediaStream | null;
  /** Out of the room by mishap; kept while the direct connection lasts. */
  hasLeft: boolean;
}

export interface RoomEvents {
  change: undefined;
  message: { from: string; data: unknown };
  open: { id: string };
  /** `id`: null where it concerns our own stream. */
  failure: { id: string | null; error: Error };
}

/** Everybody in a room, each connected directly to each other. */
export class Room extends EventTarget {
  constructor(client: Client, name: string, options?: RoomOptions);
  readonly name: string;
  readonly state: 'out' | 'joining' | 'waiting' | 'in';
  /** The place in line, while waiting. */
  readonly line: { ahead: number; length: number } | null;
  readonly capacity: number | null;
  /** The others, oldest first. */
  readonly members: RoomMember[];
  join(): Promise<void>;
  leave(): Promise<void>;
  /** Sends any JSON over the open data channels, to all or to one; returns to how many. */
  send(data: unknown, to?: string): number;
  setStream(stream: MediaStream | null): void;
  roundTripMs(id: string): Promise<number | null>;
  addEventListener<T extends keyof RoomEvents>(
    type: T, listener: (event: CustomEvent<RoomEvents[T]>) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(
    type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions): void;
}
