/** Tracks by label over the transceivers of a connection, as CALL.md has them. */

/** Maximum transceivers of a kind that the other side can have added. */
const MAX_WANTED = 32;

/**
 * The own tracks on one connection. A transceiver keeps its label while it sends nothing. A track
 * replaces another one of its label and kind without a negotiation.
 */
export class SentTracks {
  #connection;
  /** The track is the one asked for, or null: `sender.track` changes late. */
  #useByTransceiver = new Map();
  /** Number of transceivers that all tracks need, by kind. Absent: no more than there are. */
  wanted = {};

  constructor(connection) {
    this.#connection = connection;
  }

  /** Adds transceivers until there are as many as the other side wants. */
  grow(wanted) {
    for (const kind of ['audio', 'video']) {
      const count = Math.min(wanted[kind], MAX_WANTED);
      while (this.#ofKind(kind).length < count) this.#connection.addTransceiver(kind, { direction: 'recvonly' });
    }
  }

  /** Label by `mid` of the transceivers that send. */
  get labels() {
    const labels = {};
    for (const [{ mid }, { label, track }] of this.#useByTransceiver) if (mid && track) labels[mid] = label;
    return labels;
  }

  /**
   * Sends these tracks and no others. Without `mayAdd` it adds no transceiver but counts them as
   * `wanted`.
   *
   * @param {Map<string, MediaStreamTrack[]>} tracksByLabel
   * @param {boolean} mayAdd
   * @param {(error: Error, label: string) => void} failed a track of the label is not sent
   */
  set(tracksByLabel, mayAdd, failed) {
    this.wanted = {};
    const isWanted = ({ label, track }) => tracksByLabel.get(label)?.includes(track);
    const replace = (transceiver, label, track) => {
      this.#useByTransceiver.set(transceiver, { label, track });
      transceiver.direction = track ? 'sendrecv' : 'recvonly';
      transceiver.sender.replaceTrack(track).catch((error) => failed(error, label));
    };
    for (const [label, tracks] of tracksByLabel) {
      const uses = [...this.#useByTransceiver.values()];
      for (const track of tracks) {
        if (uses.some((use) => use.label === label && use.track === track)) continue;
        const spare = this.#spareFor(label, track.kind, isWanted);
        if (spare) replace(spare, label, track);
        else if (mayAdd) this.#useByTransceiver.set(this.#connection.addTransceiver(track), { label, track });
        else this.wanted[track.kind] = (this.wanted[track.kind] ?? this.#ofKind(track.kind).length) + 1;
      }
    }
    for (const [transceiver, use] of this.#useByTransceiver) {
      if (use.track && !isWanted(use)) replace(transceiver, use.label, null);
    }
  }

  #ofKind(kind) {
    const usable = ({ direction, receiver }) => receiver.track.kind === kind && direction !== 'stopped';
    return this.#connection.getTransceivers().filter(usable);
  }

  /** Returns a transceiver of the label without a wanted track, or one without a label. */
  #spareFor(label, kind, isWanted) {
    const usable = this.#ofKind(kind);
    const own = usable.find((transceiver) => {
      const use = this.#useByTransceiver.get(transceiver);
      return use?.label === label && !isWanted(use);
    });
    return own ?? usable.find((transceiver) => this.#isFree(transceiver));
  }

  /**
   * Whether the transceiver was made for tracks of the other side, or its former label has ended
   * there too: until then, another track would show in the stream of that label.
   */
  #isFree(transceiver) {
    const { direction, currentDirection, sender } = transceiver;
    const use = this.#useByTransceiver.get(transceiver);
    if (!use) return direction === 'recvonly' && !sender.track;
    return !use.track && ['recvonly', 'inactive'].includes(currentDirection);
  }
}

/** The other side's tracks: one stream per label, which stays until the label ends. */
export class ReceivedStreams {
  /** Streams by label; another object after each change. */
  byLabel = Object.freeze({});
  #newStream;
  #streamByLabel = new Map();

  /** @param {() => MediaStream} newStream */
  constructor(newStream) {
    this.#newStream = newStream;
  }

  /** Takes the labels of a description, which the connection has. */
  set(connection, labels) {
    const tracksByLabel = new Map();
    for (const { mid, receiver } of connection.getTransceivers()) {
      const label = labels?.[mid];
      if (typeof label === 'string') tracksByLabel.set(label, [...(tracksByLabel.get(label) ?? []), receiver.track]);
    }
    const former = this.#streamByLabel;
    this.#streamByLabel = new Map();
    for (const [label, tracks] of tracksByLabel) {
      const stream = former.get(label) ?? this.#newStream();
      for (const track of stream.getTracks()) if (!tracks.includes(track)) stream.removeTrack(track);
      for (const track of tracks) stream.addTrack(track);
      this.#streamByLabel.set(label, stream);
    }
    this.byLabel = Object.freeze(Object.fromEntries(this.#streamByLabel));
  }
}
