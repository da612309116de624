/** Parses messages of the server. */

/** Fields that the client itself uses, with their types. */
const REQUIRED = {
  __proto__: null,
  welcome: { resume: 'string', resumed: 'boolean', max_message_bytes: 'number' },
  ack: { id: 'number' },
  error: { code: 'string' },
  signal: { from: 'string' },
  broadcast: { from: 'string', room: 'string' },
  joined: { room: 'string', version: 'number', members: 'clients' },
  waiting: { room: 'string', ahead: 'number', queue_length: 'number' },
  members_changed: { room: 'string', version: 'number', joined: 'clients', left: 'clients' },
  left: { room: 'string', reason: 'string' },
};

/** Returns `true` for a type with required fields. Without a `welcome` it breaks the protocol. */
export const needsWelcome = ({ type }) => type in REQUIRED;

const isOf = (type, value) =>
  type === 'clients'
    ? value.every(({ client_id: id }) => typeof id === 'string')
    : typeof value === type;

/** Returns the message, or null if the text breaks the protocol. */
export function parse(text) {
  try {
    const message = JSON.parse(text);
    const required = Object.entries(REQUIRED[message.type] ?? {});
    const isWhole = required.every(([field, type]) => isOf(type, message[field]));
    return typeof message.type === 'string' && isWhole ? message : null;
  } catch {
    return null;
  }
}
