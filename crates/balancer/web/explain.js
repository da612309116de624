/** Describes states and errors to the user. */

const ERRORS = {
  room_store_unavailable: 'Rooms are unavailable at the moment. Try again soon.',
  bad_name: 'The name of a room has 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ -',
  bad_message: 'The server rejected the request.',
  too_large: 'That is too long.',
  rate_limited: 'Too many messages. Wait a moment, then try again.',
  overloaded: 'The mesh is busy. Wait a moment, then try again.',
  forbidden: 'You may not enter this room.',
  queue_full: 'Too many requests are waiting for a connection. Wait a moment.',
  expired: 'The mesh could not be reached in time.',
};

const CLOSES = {
  4400: 'The id is invalid: it needs 1 to 128 characters of A-Z a-z 0-9 . _ ~ : @ -',
  4401: 'The server requires a token, which this page does not have.',
  4403: 'The server does not allow clients of this page.',
  4409: 'This id is in use in another window. Close it, or open this page with another ?id=',
  4410: 'Another window has taken over this id.',
  4411: 'The server has removed this client.',
};

const FAULTS = {
  no_welcome: 'The server does not answer',
  silent: 'The server no longer answers',
  protocol_error: 'The server broke the protocol',
};

/** Describes an error of the SDK by its code, or another one by its own message. */
export const explainError = (error) => ERRORS[error.code] ?? error.message;

/**
 * Describes why there is no connection to the mesh; empty while it is open or opening. The first
 * argument is the detail of a client's `state` event, `wasConnected` whether there was one before.
 */
export function explainState({ state, code, fault, in_ms: wait }, wasConnected) {
  if (state === 'closed') return CLOSES[code] ?? `The server closed the connection (${code}).`;
  if (state !== 'waiting') return '';
  const soon = `Trying again in ${Math.max(1, Math.round(wait / 1_000))} s.`;
  if (wasConnected) return `Connection to the mesh lost; calls go on. ${soon}`;
  return `${FAULTS[fault] ?? 'The server is unreachable or full'}. ${soon}`;
}

/** Describes a place in the waiting queue, both numbers in clients. */
export function explainQueuePlace({ ahead, length }) {
  if (ahead === 0) {
    return `The room is full. You are next${length > 1 ? `, of ${length} in the queue` : ''}.`;
  }
  const people = ahead === 1 ? 'One person is' : `${ahead} people are`;
  return `The room is full. ${people} ahead of you, ${length} in the queue.`;
}
