/** Describes states and errors to the user. */

const ERRORS = {
  room_unavailable: 'Rooms are unavailable at the moment. Try again soon.',
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

/** Describes an error of the SDK by its code, or another one by its own message. */
export const explainError = (error) => ERRORS[error.code] ?? error.message;

/**
 * Describes why there is no connection to the mesh; empty while it is open or opening. The first
 * argument is a client's `state` event, `wasConnected` whether there was a connection before.
 */
export function explainState({ state, reason, retryInMs }, wasConnected) {
  if (!reason) return '';
  const text = CLOSES[reason.closeCode] ?? `${reason.message}.`;
  if (state === 'disconnected') return text;
  const soon = `Trying again in ${Math.max(1, Math.round(retryInMs / 1_000))} s.`;
  return wasConnected ? `Connection to the mesh lost; calls go on. ${soon}` : `${text} ${soon}`;
}

/** Describes a place in the waiting queue, both numbers in clients. */
export function explainQueuePlace({ ahead, length }) {
  if (ahead === 0) {
    return `The room is full. You are next${length > 1 ? `, of ${length} in the queue` : ''}.`;
  }
  const people = ahead === 1 ? 'One person is' : `${ahead} people are`;
  return `The room is full. ${people} ahead of you, ${length} in the queue.`;
}
