/** Checks the options of a client. An error names the option and its value. */

import { isName } from './core/outgoing.js';

const ADDRESS = /^(ws|http)(s?):\/\/([^/?#]+)([^?#]*)(\?[^#]*)?/i;
const LEVELS = ['debug', 'info', 'warn', 'error', 'none'];

const isTime = (value) => Number.isFinite(value) && value >= 0;
const has = (object, methods) => methods.every((method) => typeof object?.[method] === 'function');

/**
 * Whether a value that is given is right, and what it has to be.
 *
 * @type {Record<string, [(value: any) => boolean, string]>}
 */
const RULES = {
  clientId: [(id) => isName(id) && id[0] !== '~', '1 to 128 of A-Z a-z 0-9 . _ ~ : @ -, without ~ first'],
  token: [(token) => ['function', 'string'].includes(typeof token), 'a JWT or a function'],
  queue: [isTime, 'a number'],
  queueBytes: [isTime, 'a number'],
  timeoutMs: [isTime, 'a number'],
  connectTimeoutMs: [isTime, 'a number'],
  storage: [(storage) => storage === null || has(storage, ['getItem', 'setItem', 'removeItem']), 'a Storage or null'],
  WebSocket: [(type) => typeof type === 'function', 'a class'],
  logLevel: [(level) => LEVELS.includes(level), LEVELS.join(', ')],
  logger: [(logger) => has(logger, LEVELS.slice(0, 4)), 'an object like console'],
};

/** @returns {never} */
export function refuse(option, value, expected) {
  throw new TypeError(`${option}: needs ${expected}, not ${typeof value === 'string' ? `"${value}"` : String(value)}`);
}

/**
 * Returns WebSocket addresses with the path `/v1/connect` unless they have one.
 *
 * @param {any} urls
 * @returns {string[]}
 */
export function checkUrls(urls) {
  const list = [urls].flat();
  const isAddress = (url) => typeof url === 'string' && ADDRESS.test(url) && new URL(url);
  const check = (url) => {
    try {
      if (isAddress(url)) return;
    } catch {}
    refuse('url', url, 'an address: ws, wss, http or https');
  };
  if (list.length === 0) check(urls);
  list.forEach(check);
  return list.map((url) =>
    new URL(url).href.replace(ADDRESS, (_, scheme, secure, host, path, query = '') =>
      `ws${secure}://${host}${path.length > 1 ? path : '/v1/connect'}${query}`).split('#')[0]);
}

/** Checks all options but the addresses. @param {Record<string, any>} options */
export function checkOptions(options) {
  for (const [option, [isRight, expected]] of Object.entries(RULES)) {
    const value = options[option];
    const isAbsent = value === undefined && option !== 'clientId';
    if (!isAbsent && !isRight(value)) refuse(option, value, expected);
  }
}

/**
 * Returns a function that logs texts of the level and above.
 *
 * @param {string} [level]
 * @param {Record<string, any>} [logger]
 */
export function makeLog(level = 'warn', logger = console) {
  const first = LEVELS.indexOf(level);
  return (of, text) => LEVELS.indexOf(of) >= first && logger[of](`signaling-mesh: ${text}`);
}
