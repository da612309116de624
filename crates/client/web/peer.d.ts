/** Types of `peer.js`. */

export interface PeerOptions {
  /** True on exactly one of the two sides: it gives way when offers cross. */
  polite: boolean;
  /** Carries a message to the other side's `receive`, in order. */
  send: (message: object) => void;
  /** Adds tracks, channels and listeners to a connection that was just made, the first or a later one. */
  setUp?: (connection: RTCPeerConnection) => void;
  configuration?: RTCConfiguration;
  RTCPeerConnection?: typeof RTCPeerConnection;
}

/** An RTCPeerConnection that negotiates by itself and mends itself. */
export class PeerConnection extends EventTarget {
  constructor(options: PeerOptions);
  /** The present one; null once closed. */
  readonly connection: RTCPeerConnection | null;
  readonly connectionState: RTCPeerConnectionState;
  /** Takes what the other side's `send` was given. */
  receive(message: unknown): void;
  /** Looks for a path anew: the network may be another. */
  restart(): void;
  /** Leaves the connection for a fresh one: for when what was sent may not have arrived. */
  startOver(): void;
  /** To the peer and back by the path in use; null while unknown. */
  roundTripMs(): Promise<number | null>;
  close(): void;
  addEventListener(type: 'change', listener: (event: CustomEvent<undefined>) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(type: 'failure', listener: (event: CustomEvent<Error>) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(
    type: string, listener: EventListenerOrEventListenerObject | null, options?: boolean | AddEventListenerOptions): void;
}
