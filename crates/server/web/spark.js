/**
 * Returns the SVG path of a line. The newest value is at the right edge, and the largest value, or
 * `least` if that is more, touches the top. A missing value leaves a gap.
 *
 * @param {(number | null)[]} values oldest first
 * @param {{width: number, height: number, length: number, least?: number}} box `length`: values
 *   that fill the width
 */
export function path(values, { width, height, length, least = 1 }) {
  const top = Math.max(least, ...values.map((value) => value ?? 0));
  const step = width / (length - 1);
  const start = width - (values.length - 1) * step;
  let isDrawing = false;
  const steps = values.map((value, at) => {
    if (value === null) {
      isDrawing = false;
      return '';
    }
    const point = `${round(start + at * step)} ${round(height - (value / top) * height)}`;
    const command = isDrawing ? 'L' : 'M';
    isDrawing = true;
    return `${command}${point}`;
  });
  return steps.join('');
}

const round = (value) => Math.round(value * 10) / 10;
