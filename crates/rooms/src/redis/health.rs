//! Decides when a `connection` has failed, and how long to pause before the next attempt.

use std::time::Duration;

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use signaling_protocol::Backoff;

/// Failed rounds in succession before a reconnect, for errors that another server may return too.
const MAX_ERROR_ROUNDS: u32 = 3;
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// With the limit of an attempt at a server (1 s) this stays below the reconnect time of 2 s.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Health of a connection, judged by its answers.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Pauses between connection attempts. `None`: no attempt since the last successful command.
    backoff: Option<Backoff>,
    /// Consecutive rounds in which each command failed.
    errors: u32,
    /// `true` if the present outage was logged.
    is_reported: bool,
}

/// Result of one round of answers.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A command succeeded. `is_news` is `true` if this ends an outage.
    Fit { is_news: bool },
    /// There were no answers, or all commands failed for a reason that may not be the connection.
    Unclear,
    /// Reconnect: the server cannot serve, the connection failed, or commands failed in 3 rounds.
    Failed(RedisError),
}

impl Health {
    /// Judges the final answers of one round.
    pub(super) fn judge(&mut self, answers: &[RedisResult<Value>]) -> Verdict {
        let mut errors = answers.iter().filter_map(|answer| answer.as_ref().err());
        if let Some(error) = errors.clone().find(|error| is_unfit(error)) {
            return Verdict::Failed(error.clone());
        }
        if answers.iter().any(Result::is_ok) {
            let is_news = self.is_reported;
            *self = Self::default();
            return Verdict::Fit { is_news };
        }
        let Some(error) = errors.next() else { return Verdict::Unclear };
        self.errors += 1;
        if !error.is_io_error() && !error.is_unrecoverable_error() && self.errors < MAX_ERROR_ROUNDS {
            return Verdict::Unclear;
        }
        self.errors = 0;
        Verdict::Failed(error.clone())
    }

    /// Returns `true` at the first call in an outage, whose failure has to be logged.
    pub(super) fn is_news(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// Returns `true` if no command succeeded since the last attempt, so the next one pauses first.
    pub(super) fn is_backing_off(&self) -> bool {
        self.backoff.is_some()
    }

    /// Returns the pause before the next attempt: 0 after a success, then 50 ms, doubled for each
    /// attempt up to 500 ms. `jitter`, from 0 (half of the pause) to 1 (all of it), is random.
    pub(super) fn next_pause(&mut self, jitter: f64) -> Duration {
        if let Some(backoff) = &mut self.backoff {
            return backoff.next_wait(jitter);
        }
        self.backoff = Some(Backoff::new(MIN_PAUSE, MAX_PAUSE));
        Duration::ZERO
    }
}

/// Returns `true` if the server cannot serve commands now. Answers are final, so an unknown script
/// is one that could not be loaded.
fn is_unfit(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, NoScript, ReadOnly, ResponseError};
    const CODES: [&str; 4] = ["-READONLY ", "-LOADING ", "-MASTERDOWN ", "-CLUSTERDOWN "];
    match error.kind() {
        ErrorKind::Server(ReadOnly | BusyLoading | MasterDown | ClusterDown | NoScript) => true,
        // Before version 7 Redis wraps the error of a script's command in one of its own.
        ErrorKind::Server(ResponseError) => {
            let detail = error.detail().unwrap_or_default();
            CODES.iter().any(|code| detail.contains(code))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(kinds: &[Option<ServerErrorKind>]) -> Vec<RedisResult<Value>> {
        let answer = |kind: &Option<ServerErrorKind>| match *kind {
            Some(kind) => Err((ErrorKind::Server(kind), "it failed").into()),
            None => Ok(Value::Okay),
        };
        kinds.iter().map(answer).collect()
    }

    fn fails(health: &mut Health, kinds: &[Option<ServerErrorKind>]) -> bool {
        matches!(health.judge(&answers(kinds)), Verdict::Failed(_))
    }

    #[test]
    fn connection_fails_when_one_answer_is_readonly() {
        use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, NoScript, ReadOnly};
        for kind in [ReadOnly, BusyLoading, MasterDown, ClusterDown, NoScript] {
            assert!(fails(&mut Health::default(), &[None, Some(kind)]), "{kind:?}");
        }
        let old = "Error running script (call to f_1): @user_script:6: -READONLY You can't write";
        let old = RedisError::from((ErrorKind::Server(ServerErrorKind::ResponseError), "", old.to_owned()));
        assert!(matches!(Health::default().judge(&[Err(old)]), Verdict::Failed(_)));
    }

    #[test]
    fn connection_fails_after_repeated_script_errors_only() {
        let error = Some(ServerErrorKind::ResponseError);
        let mut health = Health::default();
        assert!(!fails(&mut health, &[error]) && !fails(&mut health, &[error, error]));
        assert!(!fails(&mut health, &[error, None]), "a success begins a new count");
        assert!(!fails(&mut health, &[error]) && !fails(&mut health, &[error]));
        assert!(fails(&mut health, &[error]));
    }

    #[test]
    fn pauses_grow_to_their_limit_until_a_command_succeeds() {
        let mut health = Health::default();
        let pauses: Vec<_> = (0..7).map(|_| health.next_pause(1.0).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 500, 500]);
        assert_eq!(health.next_pause(0.0).as_millis(), 250);
        assert!(matches!(health.judge(&answers(&[None])), Verdict::Fit { is_news: false }));
        assert_eq!(health.next_pause(1.0).as_millis(), 0);
    }

    #[test]
    fn outage_is_news_once_at_its_begin_and_end() {
        let mut health = Health::default();
        assert_eq!([health.is_news(), health.is_news()], [true, false]);
        assert!(matches!(health.judge(&answers(&[None])), Verdict::Fit { is_news: true }));
        assert!(matches!(health.judge(&answers(&[None])), Verdict::Fit { is_news: false }));
    }
}
