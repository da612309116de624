/** Types of `peer.js`. */

export interface PeerOptions {
  /**
   * True on exactly one side. It rolls its offer back when two offers cross, and requests the first
   * offer from the other side.
   */
  polite: boolean;
  /** Transmits a JSON message to the other side's `receive`. Must keep the order. */
  send: (message: object) => void;
  /** Adds tracks, channels and listeners to each new connection. */
  setUp?: (connection: RTCPeerConnection) => void;
  /** Configuration of each connection; empty unless given. */
  configuration?: RTCConfiguration;
  /** Constructor of connections; the global one unless given. */
  RTCPeerConnection?: typeof RTCPeerConnection;
}

/** An RTCPeerConnection that negotiates and recovers by itself. */
export class PeerConnection extends EventTarget {
  constructor(options: PeerOptions);
  /** The current connection, which may be replaced; null once closed. */
  readonly connection: RTCPeerConnection | null;
  /** State of the current connection; `closed` after `close`. */
  readonly connectionState: RTCPeerConnectionState;
  /** Handles a message that the other side passed to `send`, in order. Returns at once. */
  receive(message: unknown): void;
  /** Restarts ICE, for example after a network change. Up to three automatic restarts follow. */
  restart(): void;
  /** Replaces the connection, for example after messages were lost. Does nothing once closed. */
  startOver(): void;
  /** Round trip time of the path in use, in milliseconds; null while unknown. */
  roundTripMs(): Promise<number | null>;
  /** Closes the connection for good, without an event. */
  close(): void;
  /** `connectionState` may have changed, or `connection` was replaced. */
  addEventListener(
    type: 'change',
    listener: (event: CustomEvent<undefined>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  /** No path was found after three ICE restarts, or a step of the negotiation failed. */
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
