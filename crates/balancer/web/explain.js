/** What went wrong, in words for whoever sits in front of the page. */

const ERRORS = {
  room_store_unavailable: 'This mesh keeps no rooms now: it has no Redis, or has lost it. Try again in a moment.',
  bad_name: 'A room’s name has 1 to 128 of A-Z a-z 0-9 . _ ~ : @ -',
  bad_message: 'The server did not take the request.',
  too_large: 'That is too long.',
  rate_limited: 'Too much at once. Wait a moment, then try again.',
  overloaded: 'The mesh is busy. Wait a moment, then try again.',
  forbidden: 'You may not enter this room.',
  queue_full: 'Too much waits to be sent already. Wait a moment.',
  expired: 'The mesh could not be reached in time.',
};

const CLOSES = {
  4400: 'The server did not accept this id: 1 to 128 of A-Z a-z 0-9 . _ ~ : @ - are allowed.',
  4401: 'The server wants a token, which this page does not have.',
  4403: 'The server does not admit this page.',
  4409: 'This id is in use in another window. Close that one, or open this page with another ?id=',
  4410: 'Another window has taken over this id.',
  4411: 'The server has removed this client.',
};

const FAULTS = {
  no_welcome: 'The server does not answer',
  silent: 'The server has gone silent',
  nonsense: 'The server made no sense',
};

/** A SendError, a RequestError, or any other error. */
export const explainError = (error) => ERRORS[error.code] ?? error.message;

/** Why the connection to the mesh is not there, or '' while it is or comes. */
export function explainState({ state, code, fault, in_ms: wait }, wasConnected) {
  if (state === 'closed') return CLOSES[code] ?? `The server closed the connection (${code}).`;
  if (state !== 'waiting') return '';
  const soon = `Trying again in ${Math.max(1, Math.round(wait / 1_000))} s.`;
  if (wasConnected) return `Connection to the mesh lost; calls go on. ${soon}`;
  return `${FAULTS[fault] ?? 'The server cannot be reached, or takes nobody now'}. ${soon}`;
}

/** Describes a place in the waiting queue, both numbers in clients. */
export function explainQueuePlace({ ahead, length }) {
  if (ahead === 0) return `The room is full. You are next${length > 1 ? `, of ${length} in line` : ''}.`;
  return `The room is full. ${ahead === 1 ? 'One person is' : `${ahead} people are`} ahead of you, ${length} in line.`;
}
