/** Types of `peer.js`. */

export interface PeerOptions {
  /** True on exactly one side: this side rolls its offer back when two offers cross. */
  polite: boolean;
  /** Transmits a JSON message to the other side's `receive`. Must keep the order. */
  send: (message: object) => void;
  /** Adds tracks, channels and listeners to each new connection. */
  setUp?: (connection: RTCPeerConnection) => void;
  configuration?: RTCConfiguration;
  /** Constructor of connections; the global one unless given. */
  RTCPeerConnection?: typeof RTCPeerConnection;
}

/** An RTCPeerConnection that negotiates and recovers by itself. */
export class PeerConnection extends EventTarget {
  constructor(options: PeerOptions);
  /** The current connection, which may be replaced; null once closed. */
  readonly connection: RTCPeerConnection | null;
  readonly connectionState: RTCPeerConnectionState;
  /** Handles a message that the other side passed to `send`. */
  receive(message: unknown): void;
  /** Restarts ICE, for example after a network change. */
  restart(): void;
  /** Replaces the connection, for example after messages to the other side were lost. */
  startOver(): void;
  /** Round trip time of the path in use, in milliseconds; null while unknown. */
  roundTripMs(): Promise<number | null>;
  close(): void;
  /** `connectionState` may have changed. */
  addEventListener(
    type: 'change',
    listener: (event: CustomEvent<undefined>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  /** No path was found after three ICE restarts, or a description or candidate is invalid. */
  addEventListener(
    type: 'failure',
    listener: (event: CustomEvent<Error>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
}
