/** Errors of requests, which the application gets. */

/** A request was not accepted. Nothing of it was sent. */
export class SendError extends Error {
  /**
   * @param {'queue_full' | 'too_large' | 'bad_name' | 'not_connected' | 'too_many_rooms' |
   *   'closed'} code `queue_full`: too many requests wait; `too_large`: over the message limit of
   *   the latest `welcome`, 64 KiB before it; `bad_name`: no client id or room name;
   *   `not_connected`: of `members` alone; `too_many_rooms`: a join beyond 256 rooms; `closed`: the
   *   client is closed
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
 *   `closed`: the client was closed or detached before the answer; `refused`: error code of the
 *   server; `expired`: no answer in time; `sent`: whether it may have been delivered
 */
export class RequestError extends Error {
  /** @param {Outcome} outcome its `code` is `closed`, `expired`, or the server's error code */
  constructor(outcome) {
    super(`not known to have been delivered: ${JSON.stringify(outcome)}`);
    this.outcome = outcome;
    this.code = outcome.refused ?? (outcome.expired ? 'expired' : outcome);
  }
}
