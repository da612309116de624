/** Sentences about events. */

import { count } from './format.js';

const clients = (number) => (number === 1 ? '1 client' : `${count(number)} clients`);

/** Returns names as a list: up to four, else three and a count. @param {string[]} names */
export function list(names) {
  if (names.length > 4) return `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`;
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** Events of the servers that report them. */
const SELF = {
  ready: (by, many) => `${by} ${many ? 'accept' : 'accepts'} clients`,
  stale: (by) => `${by} cannot read discovery: the last view stays in use`,
  fresh: (by, many) => `${by} ${many ? 'read' : 'reads'} discovery again`,
  unready: (by, many, { why }) => `${by} ${many ? 'accept' : 'accepts'} no clients: ${why}`,
};

/** Events of other servers. */
const OTHER = {
  joined: ({ node }) => `${node} joined the mesh`,
  left: ({ node }) => `${node} left the mesh`,
  drains: ({ node }) => `${node} drains`,
  serves: ({ node }) => `${node} serves again`,
  moved: ({ from, to, clients: number }) => `${clients(number)} moved from ${from} to ${to}`,
  silent: ({ node }) => `${node} does not answer`,
  stopped: ({ node }) => `${node} has drained and stopped`,
  answers: ({ node }) => `${node} answers again`,
  restarted: ({ node }) => `${node} was restarted`,
};

/** Tone of each kind of event. */
const TONES = {
  silent: 'bad',
  suspects: 'bad',
  stale: 'bad',
  left: 'busy',
  unready: 'busy',
  drains: 'busy',
  restarted: 'busy',
  stopped: 'busy',
  ready: 'good',
  joined: 'good',
  serves: 'good',
  answers: 'good',
  trusts: 'good',
  fresh: 'good',
  moved: 'move',
};

/** Mark of each tone, with the meaning of its colour. */
const MARKS = { bad: '✕', busy: '◐', good: '●', move: '→' };

/**
 * Describes an event. Null: the page does not know its kind.
 *
 * @param {{kind: string, by: string[]}} event
 * @returns {{text: string, tone: string, mark: string} | null} `tone`: a key of `MARKS`
 */
export function describe(event) {
  const tone = Object.hasOwn(TONES, event.kind) ? TONES[event.kind] : null;
  return tone && { text: sentence(event), tone, mark: MARKS[tone] };
}

function sentence(event) {
  const { kind, by, node } = event;
  const many = by.length > 1;
  if (kind in SELF) return SELF[kind](list(by), many, event);
  if (kind === 'suspects') return `${list(by)} ${many ? 'suspect' : 'suspects'} ${node}`;
  if (kind === 'trusts') return `${list(by)} ${many ? 'trust' : 'trusts'} ${node} again`;
  return OTHER[kind](event);
}
