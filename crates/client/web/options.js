/** Checks the options of a client. An error names the option and its value. */

import { refuse } from './core/mesh_error.js';
import { isName, NAME } from './core/outgoing.js';

const LEVELS = ['debug', 'info', 'warn', 'error', 'none'];

const isFunction = (value) => typeof value === 'function';
const isTime = (value) => Number.isFinite(value) && value >= 0;

/**
 * Whether a value that is given is right, and what it has to be.
 *
 * @type {Record<string, [(value: any) => boolean, string]>}
 */
const RULES = {
  clientId: [(id) => isName(id) && id[0] !== '~', `${NAME}, no ~ first`],
  token: [(token) => isFunction(token) || typeof token === 'string', 'a JWT or a function'],
  queue: [isTime, 'a number >= 0'],
  queueBytes: [isTime, 'a number >= 0'],
  timeoutMs: [isTime, 'a number >= 0'],
  connectTimeoutMs: [isTime, 'a number >= 0'],
  storage: [(storage) => storage === null || ['getItem', 'setItem', 'removeItem'].every((method) => isFunction(storage[method])), 'a Storage or null'],
  WebSocket: [isFunction, 'a class'],
  logLevel: [(level) => LEVELS.includes(level), `${LEVELS}`],
  logger: [(logger) => LEVELS.slice(0, 4).every((level) => isFunction(logger?.[level])), 'a console'],
};

/**
 * Returns WebSocket addresses with the path `/v1/connect` unless they have one.
 *
 * @param {any} urls
 * @returns {string[]}
 */
export function checkUrls(urls) {
  const list = [urls].flat();
  return (list.length > 0 ? list : [urls]).map(addressOf);
}

function addressOf(url) {
  try {
    const { href } = new URL(url.replace(/^http/i, 'ws'));
    const [, origin, rest] = /** @type {any} */ (/^(wss?:\/\/[^/?#]+)\/?([^#]*)/.exec(href));
    return `${origin}/${rest.replace(/^(?=\?|$)/, 'v1/connect')}`;
  } catch {
    refuse('url', url, 'a ws(s) or http(s) URL');
  }
}

/** Checks all options but the addresses. @param {Record<string, any>} options */
export function checkOptions(options) {
  for (const [option, [isRight, expected]] of Object.entries(RULES)) {
    const value = options?.[option];
    const isAbsent = value === undefined && option !== 'clientId';
    if (!isAbsent && !isRight(value)) refuse(option, value, expected);
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
