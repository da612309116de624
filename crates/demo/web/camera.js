import { testPattern } from './pattern.js';

/** The user's stream: camera or test pattern, and the microphone if it is on. */
export class Camera {
  #pattern;
  /** Stream of the camera, or null. */
  #picture = null;
  /** Stream of the microphone, or null. */
  #sound = null;

  /** @param {string} name shown on the test pattern */
  constructor(name) {
    this.#pattern = testPattern(name);
  }

  /** Changes the name on the test pattern. */
  setName(name) {
    this.#pattern.setName(name);
  }

  /** A new stream with the present tracks. A track that is turned off later ends in it. */
  get stream() {
    const picture = this.#picture ?? this.#pattern.stream;
    return new MediaStream([...picture.getVideoTracks(), ...(this.#sound?.getAudioTracks() ?? [])]);
  }

  /** True while the camera is on; the test pattern replaces it otherwise. */
  get hasPicture() {
    return this.#picture !== null;
  }

  /** True while the microphone is on. */
  get hasSound() {
    return this.#sound !== null;
  }

  /**
   * Turns the camera on or off. The next call has to wait for the promise.
   *
   * The promise rejects if there is no camera, the browser or the user refuses it, or the page is
   * neither on https nor on localhost. The camera then stays off.
   */
  async togglePicture() {
    this.#picture = await toggle(this.#picture, { video: { width: 640, height: 360 } });
  }

  /** Turns the microphone on or off. As `togglePicture` otherwise. */
  async toggleSound() {
    this.#sound = await toggle(this.#sound, { audio: true });
  }
}

async function toggle(stream, constraints) {
  if (stream !== null) {
    stopTracks(stream);
    return null;
  }
  if (navigator.mediaDevices) return navigator.mediaDevices.getUserMedia(constraints);
  throw new Error('Camera and microphone need https or a page on localhost.');
}

function stopTracks(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
