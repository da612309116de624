/** Size of the picture, in pixels. */
const WIDTH = 320;
const HEIGHT = 180;
/** Frames per second. */
const FRAMES = 12;
const BARS = ['#c8ccd4', '#d7c43a', '#3ab7c9', '#3fae5a', '#b455b0', '#c74b43', '#3d59c4'];

/**
 * Starts a moving test pattern with a name and the time on it.
 *
 * @param {string} name
 * @returns {{stream: MediaStream, setName: (name: string) => void}}
 */
export function testPattern(name) {
  let shown = name;
  const canvas = Object.assign(document.createElement('canvas'), { width: WIDTH, height: HEIGHT });
  const context = canvas.getContext('2d', { alpha: false });
  draw(context, shown);
  setInterval(() => draw(context, shown), 1_000 / FRAMES);
  const setName = (other) => {
    shown = other;
  };
  return { stream: canvas.captureStream(FRAMES), setName };
}

function draw(context, name) {
  const now = new Date();
  const bar = WIDTH / BARS.length;
  const shift = Math.floor(now.getTime() / 1_000) % BARS.length;
  for (let at = 0; at < BARS.length; at += 1) {
    context.fillStyle = BARS[(at + shift) % BARS.length];
    context.fillRect(at * bar, 0, bar + 1, HEIGHT);
  }
  const angle = ((now.getTime() % 2_000) / 2_000) * 2 * Math.PI;
  context.fillStyle = '#11141acc';
  context.fillRect(0, HEIGHT * 0.08, WIDTH, HEIGHT * 0.42);
  context.fillStyle = '#ffffff';
  context.beginPath();
  context.arc(34 + Math.cos(angle) * 14, HEIGHT * 0.29 + Math.sin(angle) * 14, 6, 0, 2 * Math.PI);
  context.fill();
  context.textBaseline = 'middle';
  context.font = '600 20px system-ui, sans-serif';
  context.fillText(name, 66, HEIGHT * 0.29 - 12, WIDTH - 76);
  context.font = '16px ui-monospace, monospace';
  const time = `${now.toTimeString().slice(0, 8)}.${Math.floor(now.getMilliseconds() / 100)}`;
  context.fillText(time, 66, HEIGHT * 0.29 + 14);
}
