/** Checks the options of a client. An error names the option and its value. */

import { isName } from './core/outgoing.js';

const URL_PARTS = /^(ws|http)(s?):\/\/([^/?#]+)([^?#]*)(\?[^#]*)?/i;
const LEVELS = ['debug', 'info', 'warn', 'error', 'none'];

/** @returns {never} */
function refuse(option, value, expected) {
  const shown = ['object', 'string'].includes(typeof value) ? toJson(value) : String(value);
  throw new TypeError(`${option}: must be ${expected}, not ${shown}`);
}

function toJson(value) {
  try {
    return JSON.stringify(value);
  } catch {
    return String(value);
  }
}

/**
 * Returns WebSocket addresses with the path `/v1/connect` unless they have one.
 *
 * @param {unknown} urls
 * @returns {string[]}
 */
export function checkUrls(urls) {
  const list = Array.isArray(urls) ? urls : [urls];
  if (list.length === 0) refuse('url', urls, 'an address or a list of addresses');
  return list.map((url) => {
    const [, , secure, host, path, query = ''] = URL_PARTS.exec(hrefOf(url)) ?? refuse('url', url, 'a ws, wss, http or https address');
    return `ws${secure.toLowerCase()}://${host}${path.length > 1 ? path : '/v1/connect'}${query}`;
  });
}

/** Returns an empty text for an invalid address. */
function hrefOf(url) {
  try {
    return new URL(url).href;
  } catch {
    return '';
  }
}

/** Checks all options but the addresses. @param {Record<string, any>} options */
export function checkOptions(options) {
  const { clientId, token, storage, WebSocket, logLevel, logger } = options;
  const check = (isRight, option, expected) => isRight || refuse(option, options[option], expected);
  const isOwnName = isName(clientId) && !clientId.startsWith('~');
  check(isOwnName, 'clientId', '1 to 128 of A-Z a-z 0-9 . _ ~ : @ -, without ~ first');
  check(['undefined', 'function', 'string'].includes(typeof token), 'token', 'a JWT or a function that returns one');
  for (const option of ['queue', 'queueBytes', 'timeoutMs', 'connectTimeoutMs']) {
    const value = options[option];
    check(value === undefined || (Number.isFinite(value) && value >= 0), option, 'a number of at least 0');
  }
  const hasMethods = (object, methods) => methods.every((method) => typeof object?.[method] === 'function');
  const isStorage = storage === null || hasMethods(storage, ['getItem', 'setItem', 'removeItem']);
  check(storage === undefined || isStorage, 'storage', 'a Storage or null');
  check(WebSocket === undefined || typeof WebSocket === 'function', 'WebSocket', 'a class');
  check(logLevel === undefined || LEVELS.includes(logLevel), 'logLevel', LEVELS.join(', '));
  const isLogger = logger === undefined || hasMethods(logger, LEVELS.slice(0, -1));
  check(isLogger, 'logger', 'an object with the methods debug, info, warn and error');
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
