/** What has happened, in words. */

import { count } from './format.js';

const clients = (number) => (number === 1 ? '1 client' : `${count(number)} clients`);

/** Names as a list: all if they are few. @param {string[]} names */
export function list(names) {
  if (names.length > 4) return `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`;
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** Whose doing it is. */
const SELF = {
  ready: (by, many) => `${by} ${many ? 'take' : 'takes'} work`,
  stale: (by, many) => `${by} cannot read ${many ? 'their' : 'its'} source of discovery: the last view stays`,
  fresh: (by, many) => `${by} ${many ? 'read' : 'reads'} discovery again`,
  unready: (by, many, { why }) => `${by} ${many ? 'take' : 'takes'} no work: ${why}`,
};

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

/** Which stories matter most when something is wrong. */
const TONES = {
  silent: 'bad', suspects: 'bad', stale: 'bad', left: 'busy', unready: 'busy', drains: 'busy', restarted: 'busy', stopped: 'busy',
  ready: 'good', joined: 'good', serves: 'good', answers: 'good', trusts: 'good', fresh: 'good', moved: 'move',
};

/** Shapes that say the same as the tones' colours. */
const MARKS = { bad: '✕', busy: '◐', good: '●', move: '→' };

/**
 * @param {{what: string, by: string[]}} story
 * @returns {{text: string, tone: string, mark: string} | null} nothing for what this page has no words for
 */
export function tell(story) {
  const { what, by } = story;
  const tone = Object.hasOwn(TONES, what) ? TONES[what] : null;
  return tone && { text: sentence(what, by, story), tone, mark: MARKS[tone] };
}

function sentence(what, by, story) {
  const many = by.length > 1;
  if (what in SELF) return SELF[what](list(by), many, story);
  if (what === 'suspects') return `${list(by)} ${many ? 'do' : 'does'} not rely on ${story.node}`;
  if (what === 'trusts') return `${list(by)} ${many ? 'have' : 'has'} no more doubt of ${story.node}`;
  return OTHER[what](story);
}
