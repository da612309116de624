/** Types of `room.js`. */

import type { Client } from './client.js';

export interface RoomOptions {
  /** Data that the other members see; the mesh refuses more than 4 KiB as JSON. */
  data?: unknown;
  /** Its tracks are sent to the other members; none unless given. */
  stream?: MediaStream | null;
  /** Returns the ICE servers of a new connection; the client's latest unless given. */
  iceServers?: () => RTCIceServer[];
  /**
   * Maximum members with a direct connection; 8 unless given. Others are only listed until a place
   * is free. A connection needs a place on both sides.
   */
  maxPeers?: number;
  /** The global one unless given. */
  RTCPeerConnection?: typeof RTCPeerConnection;
}

export interface RoomMember {
  id: string;
  /** Data that the member shows, any JSON; null if it has none. */
  data: unknown;
  /** State of the direct connection; `none` for a member that is only listed. */
  state: RTCPeerConnectionState | 'none';
  /** State of its data channel; `none` for a member that is only listed. */
  channelState: RTCDataChannelState | 'none';
  /** The member's stream; null until a track of it arrived. */
  stream: MediaStream | null;
  /** True if the member's seat expired. It is listed while the direct connection lasts. */
  hasLeft: boolean;
}

/** `detail` of each event, by type. */
export interface RoomEvents {
  /** A property of the room or of a member may have changed. */
  change: undefined;
  /** A message by data channel. A text that is not JSON is dropped. */
  message: { from: string; data: unknown };
  /** The data channel to this member is open. */
  open: { id: string };
  /** A direct connection failed. `id` is null if a track of the own stream was not replaced. */
  failure: { id: string | null; error: Error };
}

/** A room whose members are directly connected to each other. */
export class Room extends EventTarget {
  constructor(client: Client, name: string, options?: RoomOptions);
  readonly name: string;
  /** `out` also after `left`, and after the client was closed; `waiting` in the waiting queue. */
  readonly state: 'out' | 'joining' | 'waiting' | 'in';
  /** Place in the waiting queue: clients ahead, and length of the queue; null outside of it. */
  readonly queuePlace: { ahead: number; length: number } | null;
  /** Maximum members; null for no limit or while unknown. */
  readonly capacity: number | null;
  /** The other members, oldest first. */
  readonly members: RoomMember[];
  /** Joins the room or its waiting queue, and resolves then. Rejects as `Client.join` does. */
  join(): Promise<void>;
  /** Closes all direct connections, and leaves. Rejects as `Client.leave` does. */
  leave(): Promise<void>;
  /** Sends JSON to member `to`, or to all, by open data channels. Returns their number. */
  send(data: unknown, to?: string): number;
  /** Replaces the stream that the other members get; null for none. */
  setStream(stream: MediaStream | null): void;
  /** Round trip time to a member, in milliseconds; null while unknown or without a connection. */
  roundTripMs(id: string): Promise<number | null>;
  addEventListener<T extends keyof RoomEvents>(
    type: T,
    listener: (event: CustomEvent<RoomEvents[T]>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
}
