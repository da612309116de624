/** Numbers as people read them. What is not known is a dash. */

const DASH = '–';
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

const isUnknown = (value) => value === null || value === undefined;

/** @param {number | null} value */
export function count(value) {
  return isUnknown(value) ? DASH : whole.format(value);
}

/** So many a second: small ones with a decimal. @param {number | null} value */
export function rate(value) {
  if (isUnknown(value)) return DASH;
  return value > 0 && value < 10 ? one.format(value) : whole.format(value);
}

/** A time in microseconds. @param {number | null} micros */
export function micros(micros) {
  if (isUnknown(micros)) return DASH;
  if (micros < 1_000) return `${micros} µs`;
  if (micros < 10_000) return `${one.format(micros / 1_000)} ms`;
  return micros < 1_000_000 ? `${whole.format(micros / 1_000)} ms` : `${one.format(micros / 1_000_000)} s`;
}

/** How long something lasts, in its two largest units. @param {number | null} ms */
export function duration(ms) {
  if (isUnknown(ms)) return DASH;
  if (ms < 1_000) return '< 1 s';
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3_600), Math.floor(seconds / 86_400)];
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${days} d ${hours % 24} h`;
}

/** A part of one core. @param {number | null} cores */
export function cpu(cores) {
  return isUnknown(cores) ? DASH : `${one.format(cores * 100)}%`;
}

/** @param {number | null} bytes */
export function bytes(bytes) {
  if (!bytes) return DASH;
  const mebibytes = bytes / 1024 ** 2;
  return mebibytes < 1_024 ? `${whole.format(mebibytes)} MiB` : `${one.format(mebibytes / 1_024)} GiB`;
}

/** The time of day where the reader is. @param {number} ms since 1970 */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString('en-GB');
}
