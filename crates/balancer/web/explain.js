/** What went wrong, in words for whoever sits in front of the page. */

const ERRORS = {
  recipient_unavailable: (peer) => `${peer} is not there. Check the id, or ask for a new invite link.`,
  bad_message: (peer, message) => `The server did not take the call to ${peer}: ${message}`,
  rate_limited: () => 'Too many signals at once. Wait a moment, then call again.',
  overloaded: () => 'The mesh is busy. Wait a moment, then call again.',
  forbidden: (peer) => `You may not call ${peer}.`,
  not_connected: () => 'Not connected to the mesh, so the call could not be made.',
};

const CLOSES = {
  4400: 'The server did not accept this id: 1 to 128 of A-Z a-z 0-9 . _ ~ : @ - are allowed.',
  4401: 'The server wants a token, which this page does not have.',
  4403: 'The server does not admit this page.',
  4409: 'This id is in use in another window. Close that one, or open this page with another ?id=',
  4410: 'Another window has taken over this id.',
  4411: 'The server has removed this client.',
};

/** Why a call ended, or null when there is nothing to say. */
export function explainEnd({ peerId, why, error }) {
  switch (why) {
    case 'left':
      return `${peerId} has left the call.`;
    case 'unknown':
      return `${peerId} no longer knows of this call. Call again.`;
    case 'busy':
      return `${peerId} is in another call.`;
    case 'no_answer':
      return `${peerId} is there but does not answer.`;
    case 'failed':
      return explainError(error, peerId);
    default:
      return null;
  }
}

/** A SignalingError, or any other error of the call. */
export function explainError(error, peerId) {
  return ERRORS[error.code]?.(peerId, error.message) ?? `The call failed: ${error.message}`;
}

/** Why the connection to the mesh is not there, or '' while it is or comes. */
export function explainState({ state, code, reason, retryInMs }, wasConnected) {
  if (state === 'closed') return CLOSES[code] ?? `The server closed the connection${because(code, reason)}.`;
  if (state !== 'waiting') return '';
  const soon = `Trying again in ${Math.max(1, Math.round(retryInMs / 1_000))} s.`;
  if (wasConnected) return `Connection lost${because(code, reason)}. ${soon}`;
  if (code === 1006) return `The server refused or could not be reached; browsers do not tell which. ${soon}`;
  return `The server takes no connection now${because(code, reason)}. ${soon}`;
}

function because(code, reason) {
  return reason ? ` (${code}: ${reason})` : ` (${code})`;
}
