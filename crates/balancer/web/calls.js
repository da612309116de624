/**
 * One call at a time, over any Signaling.
 *
 * The caller says `hello`, the other side says `hello` back, and only then do they negotiate; so a
 * `hello` may be repeated freely. Its `step` is `call`, `answer`, or `node` when only the name of the
 * sender's node is news. Every signal names its call, which tells a new call from the leftovers of
 * an old one.
 *
 * Events: `change`; `text` with `{peerId, text}`; `ended` with `{peerId, why, error}`, where `why` is
 * `hung_up`, `left`, `busy`, `unknown`, `no_answer` or `failed`, the last with its error.
 */

import { randomName } from './identity.js';
import { Peer } from './peer.js';

/** From the delivery of our `hello` to the first sign of the other side's going along. */
const ANSWER_WITHIN_MS = 10_000;

export class Calls extends EventTarget {
  #signaling;
  #call = null;

  constructor(signaling) {
    super();
    this.#signaling = signaling;
    signaling.addEventListener('signal', ({ detail }) => this.#receive(detail.from, detail.data));
    signaling.addEventListener('node', () => this.#sayNode());
    signaling.addEventListener('welcome', () => this.#sayNode());
  }

  /** What to show of the present call, or null. */
  get current() {
    const call = this.#call;
    return call && {
      peerId: call.peerId,
      peerNode: call.peerNode,
      signalMs: call.signalMs,
      connectionState: call.peer?.connectionState ?? 'calling',
      channelState: call.peer?.channelState ?? 'none',
    };
  }

  /** Calls another client, leaving the present call. */
  dial(peerId) {
    this.hangUp();
    this.#hello(this.#begin({ id: randomName(), peerId, caller: true }), 'call');
  }

  hangUp() {
    const call = this.#call;
    if (!call) return;
    this.#bye(call.peerId, call.id, 'left');
    this.#end(call, 'hung_up');
  }

  sendText(text) {
    this.#call.peer.sendText(text);
  }

  async roundTripMs() {
    return (await this.#call?.peer?.roundTripMs()) ?? null;
  }

  #receive(from, signal) {
    if (typeof signal?.call !== 'string') return;
    const call = this.#call;
    if (call?.peerId === from && call.id === signal.call) {
      this.#proceed(call, signal);
    } else if (signal.kind === 'hello' && signal.step === 'call') {
      this.#answer(from, signal);
    } else if (signal.kind === 'hello' || signal.kind === 'description') {
      this.#bye(from, signal.call, 'unknown');
    }
  }

  #answer(from, hello) {
    const call = this.#call;
    if (call && call.peerId !== from) {
      this.#bye(from, hello.call, 'busy');
      return;
    }
    const crossed = call?.caller && !call.heard;
    if (crossed && !this.#politeTo(from)) {
      this.#hello(call, 'call');
      return;
    }
    if (call) this.#discard(call);
    const answered = this.#begin({ id: hello.call, peerId: from, caller: false });
    this.#noteNode(answered, hello);
    this.#connect(answered);
    this.#hello(answered, 'answer');
  }

  #proceed(call, signal) {
    if (signal.kind !== 'hello' || call.caller) this.#hear(call);
    switch (signal.kind) {
      case 'hello':
        this.#noteNode(call, signal);
        if (!call.peer) this.#connect(call);
        return;
      case 'bye':
        return this.#end(call, signal.reason === 'busy' || signal.reason === 'unknown' ? signal.reason : 'left');
      default:
        call.peer?.receive(signal);
    }
  }

  #begin({ id, peerId, caller }) {
    this.#call = { id, peerId, caller, peerNode: null, peer: null, signalMs: null, heard: false, answerTimer: undefined };
    this.#emit('change');
    return this.#call;
  }

  #connect(call) {
    const peer = new Peer({
      polite: this.#politeTo(call.peerId),
      iceServers: this.#signaling.iceServers,
      signal: (message) => this.#send(call, message),
    });
    peer.addEventListener('change', () => this.#emit('change'));
    peer.addEventListener('text', ({ detail }) => this.#emit('text', { peerId: call.peerId, ...detail }));
    peer.addEventListener('failure', ({ detail }) => this.#fail(call, detail));
    call.peer = peer;
    if (call.caller) peer.openChannel();
    this.#emit('change');
  }

  async #hello(call, step) {
    const delivered = await this.#send(call, { kind: 'hello', step, node: this.#signaling.node });
    if (!delivered || call !== this.#call || call.heard) return;
    clearTimeout(call.answerTimer);
    call.answerTimer = setTimeout(() => this.#end(call, 'no_answer'), ANSWER_WITHIN_MS);
  }

  #hear(call) {
    call.heard = true;
    clearTimeout(call.answerTimer);
  }

  #sayNode() {
    if (this.#call?.peer) this.#hello(this.#call, 'node');
  }

  #noteNode(call, hello) {
    call.peerNode = typeof hello.node === 'string' ? hello.node : null;
    this.#emit('change');
  }

  async #send(call, message) {
    const sentAt = performance.now();
    try {
      await this.#signaling.send(call.peerId, { ...message, call: call.id });
    } catch (error) {
      // A call that already runs does without the mesh.
      if (call.peer?.connectionState !== 'connected') this.#fail(call, error);
      return false;
    }
    call.signalMs = performance.now() - sentAt;
    this.#emit('change');
    return true;
  }

  /** Whoever it was for may be gone, and then need not know. */
  #bye(peerId, callId, reason) {
    this.#signaling.send(peerId, { kind: 'bye', call: callId, reason }).catch(() => {});
  }

  #fail(call, error) {
    if (call !== this.#call) return;
    this.#bye(call.peerId, call.id, 'left');
    this.#end(call, 'failed', error);
  }

  #end(call, why, error) {
    if (call !== this.#call) return;
    this.#discard(call);
    this.#emit('change');
    this.#emit('ended', { peerId: call.peerId, why, error });
  }

  #discard(call) {
    clearTimeout(call.answerTimer);
    call.peer?.close();
    this.#call = null;
  }

  /** Of two that call each other at once, or whose offers cross, the smaller id gives way. */
  #politeTo(peerId) {
    return this.#signaling.clientId < peerId;
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
