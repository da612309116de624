/** What the others see and hear of us: camera or test pattern, and the microphone if it is on. */

import { testPattern } from './pattern.js';

export class Camera {
  #pattern; #picture = null; #sound = null;

  constructor(name) {
    this.#pattern = testPattern(name);
  }

  /** The tracks to show now. A new stream each time. */
  get stream() {
    const picture = this.#picture ?? this.#pattern.stream;
    return new MediaStream([...picture.getVideoTracks(), ...(this.#sound?.getAudioTracks() ?? [])]);
  }

  get hasPicture() {
    return this.#picture !== null;
  }

  get hasSound() {
    return this.#sound !== null;
  }

  /** Turns the camera on or off. Rejects if the browser gives none. */
  async togglePicture() {
    this.#picture = await toggle(this.#picture, { video: { width: 640, height: 360 } });
  }

  /** The microphone likewise. */
  async toggleSound() {
    this.#sound = await toggle(this.#sound, { audio: true });
  }

  stop() {
    this.#pattern.stop();
    for (const stream of [this.#picture, this.#sound]) for (const track of stream?.getTracks() ?? []) track.stop();
  }
}

async function toggle(stream, wanted) {
  if (stream === null) {
    if (!navigator.mediaDevices) throw new Error('Camera and microphone need https, or a page on this very machine.');
    return navigator.mediaDevices.getUserMedia(wanted);
  }
  for (const track of stream.getTracks()) track.stop();
  return null;
}
