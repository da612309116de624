/** Parses messages of the server. */

/** Fields that the client itself uses, with their types. */
const REQUIRED = new Map(Object.entries({
  welcome: { resume: 'string', resumed: 'boolean', max_message_bytes: 'number' },
  ack: { id: 'number' },
  error: { code: 'string' },
  signal: { from: 'string' },
  broadcast: { from: 'string', room: 'string' },
  left: { room: 'string', reason: 'string' },
}));

const EVENTS = new Set(['joined', 'waiting', 'members_changed', 'left', 'ice_servers', 'moved']);

/** Returns `true` for a type that the application gets unchanged. */
export const isEvent = ({ type }) => EVENTS.has(type);

/** Returns `true` for a type with required fields. Without a `welcome` it breaks the protocol. */
export const needsWelcome = ({ type }) => REQUIRED.has(type);

/** Returns the message, or null if the text breaks the protocol. */
export function parse(text) {
  try {
    const message = JSON.parse(text);
    const required = Object.entries(REQUIRED.get(message.type) ?? {});
    const isWhole = required.every(([field, type]) => typeof message[field] === type);
    return typeof message.type === 'string' && isWhole ? message : null;
  } catch {
    return null;
  }
}
