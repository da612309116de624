/** Messages kept while a step is performed; further ones are dropped. */
const MAX_INBOX = 512;

/**
 * One side of the negotiation of a direct connection (CALL.md): the times of offers, names
 * of connections, and new connections. It uses neither WebRTC nor a clock.
 *
 * The shell performs one step of `next` at a time. Steps but `open`, `send` and `grow` end with
 * `end`:
 *
 * | step | meaning |
 * |---|---|
 * | `{open}` | replace the connection |
 * | `{send}` | send this message to the other side |
 * | `{grow}` | have as many sections as the other side wants, and restart ICE if it wants this |
 * | `{offer}`, `{repeat}` | make an offer; take the present description. The result has it |
 * | `{description, labels}` | set this remote description; the result of an offer is the answer |
 * | `{candidate}` | add this candidate |
 * | `{want}` | the result is `{wanted}`: what this side needs of an offer |
 */
export class Negotiation {
  /** Name of the own connection; null before `start` and after `close`. */
  of = null;
  /** Last known name of the other side's connection; null until a message has it. */
  to;
  #offers;
  #newName;
  /** Whether the connection has a description of the other side. */
  #hasRemote;
  /** Whether an offer waits for its answer; for the other side: a wish for an offer. */
  #isPending;
  #isNeeded;
  /** Connection of the other side that a `reset` was sent to last. */
  #resetFor;
  #inbox = [];
  #steps;

  /**
   * @param {boolean} offers whether this side makes all offers; true on exactly one side
   * @param {() => string} newName returns a new name for each connection
   */
  constructor(offers, newName) {
    this.#offers = offers;
    this.#newName = newName;
  }

  /** Starts a new connection. Steps of the former one are void. */
  start(to = null) {
    this.of = this.#newName();
    this.to = to;
    this.#hasRemote = this.#isPending = false;
    this.#isNeeded = true;
    this.#steps = [{ open: true }];
  }

  /** Ends the negotiation for good. */
  close() {
    this.of = null;
  }

  /** Keeps a message of the other side, which is handled in order. */
  receive(message) {
    const isValid = typeof message?.of === 'string' && this.of;
    if (isValid && this.#inbox.length < MAX_INBOX) this.#inbox.push(message);
  }

  /** The connection needs another negotiation. */
  needed() {
    this.#isNeeded = true;
  }

  /** The latest description or wish may be lost: sends them again. */
  repeat() {
    if (this.#hasRemote || this.#offers) this.#steps.push({ repeat: true });
    if (this.#offers) return;
    this.#isPending = false;
    this.#isNeeded = true;
  }

  /** Returns the next step, or undefined. */
  next() {
    if (!this.of) return undefined;
    while (!this.#steps[0] && this.#inbox[0]) this.#handle(this.#inbox.shift());
    if (this.#steps[0] || !this.#isNeeded || this.#isPending) return this.#steps.shift();
    this.#isNeeded = false;
    this.#isPending = true;
    return this.#offers ? { offer: true } : { want: true };
  }

  /** A step has ended: with what to send, with nothing (undefined), or in an error (null). */
  end({ offer, description }, result) {
    if (description || (offer && result === null)) this.#isPending = false;
    if (description && result !== null) {
      this.#hasRemote = true;
      // The answer has all changes so far.
      if (!this.#offers) this.#isNeeded = false;
    }
    // Candidates of a description follow it.
    if (result) this.#steps.unshift(this.#message(result));
  }

  #handle({ of, to, description, labels, candidate, wanted, offered, reset }) {
    const isNew = of !== this.to;
    if (to && to !== this.of) {
      // A reset for an earlier connection needs none: the present one has begun since.
      if (isNew && !reset && of !== this.#resetFor) {
        this.#resetFor = of;
        this.send({ reset: true }, of);
      }
      return;
    }
    if (reset) {
      // Both sides may have sent one. Only the side without offers follows it then.
      const hasCrossed = this.#offers && of === this.#resetFor;
      if (!hasCrossed && (isNew || !this.#hasRemote)) this.start(of);
      return;
    }
    if (isNew && this.#hasRemote) this.start(of);
    this.to = of;
    if (description && (description.type === 'offer') !== this.#offers) {
      if (!this.#offers || this.#isPending) this.#steps.push({ description, labels });
      // A repeated offer was answered twice: the second answer may have further changes.
      else this.#isNeeded = true;
    }
    if (candidate && this.#hasRemote) this.#steps.push({ candidate });
    if (wanted && this.#offers) {
      this.#steps.push({ grow: wanted });
      if (!this.#isPending) this.#isNeeded = true;
      else if (!this.#hasRemote) {
        // An earlier first offer may still reach the other side, or has reached an earlier page: a
        // question, which comes after that offer, makes it certain.
        if (to) this.repeat();
        else this.send({ offered: true });
      }
    }
    if (offered && !this.#offers && !this.#hasRemote) this.repeat();
  }

  /** Sends a message after the steps so far, for example a candidate. */
  send(message, to) {
    this.#steps.push(this.#message(message, to));
  }

  #message(message, to = this.to) {
    return { send: { of: this.of, to, ...message } };
  }
}
