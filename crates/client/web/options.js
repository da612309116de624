/** Checks options. An error names the option and its value. */

import { refuse } from './core/mesh_error.js';
import { isName, isText, NAME } from './core/outgoing.js';

const LEVELS = ['debug', 'info', 'warn', 'error', 'none'];

export const isFunction = (value) => typeof value === 'function';

/**
 * Whether a value is right, what it has to be, and whether the option is required.
 *
 * @typedef {Record<string, [(value: any) => boolean, string, true?]>} Rules
 */

/** @type {[(value: any) => boolean, string]} */
export const AMOUNT = [(value) => Number.isFinite(value) && value >= 0, 'a number >= 0'];

/** @type {[(value: any) => boolean, string]} */
const TEXT = [isText, 'a text'];

/** @type {Rules} */
export const OF_CLIENTS = {
  clientId: [(id) => isName(id) && id[0] !== '~', `${NAME}, no ~ first`, true],
  token: [(token) => isFunction(token) || isText(token), 'a JWT or a function'],
  queue: AMOUNT,
  queueBytes: AMOUNT,
  timeoutMs: AMOUNT,
  connectTimeoutMs: AMOUNT,
  storage: [(storage) => storage === null || ['getItem', 'setItem', 'removeItem'].every((method) => isFunction(storage[method])), 'a Storage or null'],
  WebSocket: [isFunction, 'a class'],
  logLevel: [(level) => LEVELS.includes(level), `${LEVELS}`],
  logger: [(logger) => LEVELS.slice(0, 4).every((level) => isFunction(logger?.[level])), 'a console'],
};

/** Options of methods of clients, rooms and calls, and the label of tracks. @type {Rules} */
export const OF_METHODS = {
  queue: [(queue) => typeof queue === 'boolean', 'true or false'],
  signal: [(signal) => isFunction(signal?.addEventListener), 'an AbortSignal'],
  ttlMs: AMOUNT,
  to: TEXT,
  label: TEXT,
};

/**
 * Returns WebSocket addresses with the path `/v1/connect` unless they have one.
 *
 * @param {any} urls
 * @returns {string[]}
 */
export function checkUrls(urls) {
  const list = [urls].flat();
  return (list.length ? list : [urls]).map(addressOf);
}

function addressOf(url) {
  try {
    const { href } = new URL(url.replace(/^http/i, 'ws'));
    const [, origin, path = 'v1/connect', query] = /** @type {any} */ (/^(wss?:\/\/[^/?#]+)\/?([^?#]+)?([^#]*)/.exec(href));
    return `${origin}/${path}${query}`;
  } catch {
    refuse('url', url, 'a ws(s) or http(s) URL');
  }
}

/**
 * Throws a TypeError for a wrong option. One that is undefined is absent.
 *
 * @param {any} options
 * @param {Rules} rules
 */
export function checkOptions(options, rules) {
  for (const [option, [isRight, expected, isRequired]] of Object.entries(rules)) {
    const value = options?.[option];
    if ((isRequired || value !== undefined) && !isRight(value)) refuse(option, value, expected);
  }
}

/**
 * Returns a function that logs texts of the level and above.
 *
 * @param {{logLevel?: string, logger?: Record<string, any>}} options
 */
export function makeLog({ logLevel = 'warn', logger = console }) {
  const shown = LEVELS.slice(LEVELS.indexOf(logLevel));
  return (of, text) => shown.includes(of) && logger[of](`signaling-mesh: ${text}`);
}
