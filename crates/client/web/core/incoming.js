/** Parses messages of the server. */

import { isText } from './outgoing.js';

const CLIENTS = [];
/** Fields that the client itself uses, with values of their types. */
const REQUIRED = {
  welcome: { resume: '', resumed: true, max_message_bytes: 0 },
  ack: { id: 0 },
  error: { code: '' },
  signal: { from: '' },
  broadcast: { from: '', room: '' },
  joined: { room: '', version: 0, members: CLIENTS },
  waiting: { room: '', ahead: 0, queue_length: 0 },
  members_changed: { room: '', version: 0, joined: CLIENTS, left: CLIENTS },
  left: { room: '', reason: '' },
};

/** Returns `true` for a type with required fields. Without a `welcome` it breaks the protocol. */
export const needsWelcome = ({ type }) => type in REQUIRED;

const isLike = (example, value) =>
  example === CLIENTS
    ? value.every(({ client_id: id }) => isText(id))
    : typeof value === typeof example;

/** Returns the message, or undefined if the text breaks the protocol. */
export function parse(text) {
  try {
    const message = JSON.parse(text);
    const required = Object.entries(REQUIRED[message.type] ?? {});
    const isWhole = required.every(([field, example]) => isLike(example, message[field]));
    if (isText(message.type) && isWhole) return message;
  } catch {}
}
