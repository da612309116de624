/**
 * Returns the SVG path of a line over the whole width. The largest value, or `least` if that is
 * more, touches the top. A missing value leaves a gap.
 *
 * @param {(number | null)[]} values oldest first
 * @param {{width: number, height: number, least?: number}} box
 */
export function path(values, { width, height, least = 1 }) {
  const top = Math.max(least, ...values.map((value) => value ?? 0));
  const step = width / Math.max(1, values.length - 1);
  let isDrawing = false;
  const steps = values.map((value, at) => {
    if (value === null) {
      isDrawing = false;
      return '';
    }
    const point = `${round(at * step)} ${round(height - (value / top) * height)}`;
    const command = isDrawing ? 'L' : 'M';
    isDrawing = true;
    return `${command}${point}`;
  });
  return steps.join('');
}

const round = (value) => Math.round(value * 10) / 10;
