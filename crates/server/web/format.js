/** Formats numbers for people. An unknown number is a dash. */

const DASH = '–';
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

const isUnknown = (value) => value === null || value === undefined;

/** Formats a count. @param {number | null} value */
export function count(value) {
  return isUnknown(value) ? DASH : whole.format(value);
}

/** Formats a number per second, below 10 with a decimal. @param {number | null} value */
export function rate(value) {
  if (isUnknown(value)) return DASH;
  return value > 0 && value < 10 ? one.format(value) : whole.format(value);
}

/** Formats a time in microseconds. @param {number | null} micros */
export function micros(micros) {
  if (isUnknown(micros)) return DASH;
  if (micros < 1_000) return `${micros} µs`;
  if (micros < 10_000) return `${one.format(micros / 1_000)} ms`;
  if (micros < 1_000_000) return `${whole.format(micros / 1_000)} ms`;
  return `${one.format(micros / 1_000_000)} s`;
}

/** Formats a duration in milliseconds by its two largest units. @param {number | null} ms */
export function duration(ms) {
  if (isUnknown(ms)) return DASH;
  if (ms < 1_000) return '< 1 s';
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${days} d ${hours % 24} h`;
}

/** Formats a number of busy CPU cores as a percentage of one. @param {number | null} cores */
export function cpu(cores) {
  return isUnknown(cores) ? DASH : `${one.format(cores * 100)}%`;
}

/** Formats bytes in MiB, from 1 GiB on in GiB; 0 is unknown. @param {number | null} bytes */
export function bytes(bytes) {
  if (!bytes) return DASH;
  const mebibytes = bytes / 1024 ** 2;
  if (mebibytes < 1_024) return `${whole.format(mebibytes)} MiB`;
  return `${one.format(mebibytes / 1_024)} GiB`;
}

/** Formats the local time of day. @param {number} ms since 1970 */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString('en-GB');
}
