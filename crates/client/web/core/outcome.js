/** Errors of requests, which the application gets. */

/** A request was not accepted. Nothing of it was sent. */
export class SendError extends Error {
  /**
   * @param {'queue_full' | 'too_large' | 'bad_name' | 'not_connected' | 'too_many_rooms' |
   *   'closed'} code
   */
  constructor(code) {
    super(`the request was not accepted: ${code}`);
    this.code = code;
  }
}

/**
 * An accepted request was not carried out, as far as is known.
 *
 * @typedef {'closed' | { refused: string } | { expired: { sent: boolean } }} Outcome
 *   `refused`: error code of the server; `sent`: whether it may have been delivered
 */
export class RequestError extends Error {
  /** @param {Outcome} outcome */
  constructor(outcome) {
    super(`not known to have been delivered: ${JSON.stringify(outcome)}`);
    this.outcome = outcome;
    this.code = outcome.refused ?? (outcome.expired ? 'expired' : outcome);
  }
}
