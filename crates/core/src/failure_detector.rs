//! Whether one member can be relied on, by what this server itself has seen of it.
//!
//! A member that fails is suspect until it has answered without a failure for a while. The while doubles when it fails again
//! soon after: moving clients to and fro costs more than doing without the member.

use std::time::{Duration, Instant};

/// A suspect that has answered for so long is trusted again.
pub const PROBATION: Duration = Duration::from_secs(5);
/// The longest that a flapping member has to answer.
const LONGEST_PROBATION: Duration = Duration::from_secs(80);
/// Trusted for so long without a failure, earlier ones are forgotten.
const LIVED_DOWN: Duration = Duration::from_secs(60);

/// What is thought of one member. Starts out trusting.
#[derive(Debug, Clone)]
pub struct FailureDetector {
    /// It has answered before. One that never has is only starting: its first answer is enough.
    known: bool,
    suspect: bool,
    /// Since when a suspect has answered without a failure.
    answering_since: Option<Instant>,
    trusted_since: Instant,
    probation: Duration,
}

impl FailureDetector {
    /// A member of which nothing bad is known.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { known: false, suspect: false, answering_since: None, trusted_since: now, probation: Duration::ZERO }
    }

    /// Whether the member is to be skipped where there are others.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Whether the member answers now, be it suspect or not.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        !self.suspect || self.answering_since.is_some()
    }

    /// The member has answered. Says whether it had stopped to.
    pub fn answered(&mut self, now: Instant) -> bool {
        self.known = true;
        let is_news = !self.is_answering();
        if is_news {
            self.answering_since = Some(now);
        }
        is_news
    }

    /// The member has refused, or been silent for too long. Says whether it was trusted until now.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.answering_since = None;
        if self.suspect {
            return false;
        }
        let flaps = now.saturating_duration_since(self.trusted_since) < LIVED_DOWN;
        self.probation = match self.known {
            false => Duration::ZERO,
            true if flaps => (self.probation * 2).clamp(PROBATION, LONGEST_PROBATION),
            true => PROBATION,
        };
        self.suspect = true;
        true
    }

    /// Says whether the member is trusted again from now on.
    pub fn look(&mut self, now: Instant) -> bool {
        let over = |since: Instant| now.saturating_duration_since(since) >= self.probation;
        if !self.suspect || !self.answering_since.is_some_and(over) {
            return false;
        }
        self.suspect = false;
        self.trusted_since = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn known(now: Instant) -> FailureDetector {
        let mut trust = FailureDetector::new(now);
        trust.answered(now);
        trust
    }

    #[test]
    fn one_that_is_only_starting_is_trusted_at_its_first_answer() {
        let start = Instant::now();
        let mut trust = FailureDetector::new(start);
        assert!(trust.failed(start));
        assert!(!trust.look(start + SECOND));
        trust.answered(start + SECOND);
        assert!(trust.look(start + SECOND));
    }

    #[test]
    fn a_suspect_is_trusted_again_after_answers_without_a_failure_between() {
        let start = Instant::now();
        let mut trust = known(start);
        assert!(trust.failed(start));
        assert!(!trust.failed(start), "it is suspect already");
        trust.answered(start + SECOND);
        assert!(!trust.look(start + 5 * SECOND));
        trust.failed(start + 5 * SECOND);
        trust.answered(start + 6 * SECOND);
        trust.answered(start + 9 * SECOND);
        assert!(!trust.look(start + 10 * SECOND));
        assert!(trust.look(start + 11 * SECOND));
        assert!(!trust.is_suspect());
    }

    #[test]
    fn silence_earns_no_trust() {
        let start = Instant::now();
        let mut trust = FailureDetector::new(start);
        trust.failed(start);
        assert!(!trust.look(start + 1000 * SECOND));
    }

    #[test]
    fn a_flapping_member_waits_longer_each_time_until_it_has_lived_it_down() {
        let mut now = Instant::now();
        let mut trust = known(now);
        let mut probation = |trust: &mut FailureDetector| {
            trust.failed(now);
            trust.answered(now);
            let seconds = (1..=200).find(|&second| trust.look(now + second * SECOND));
            now += seconds.unwrap_or_default() * SECOND;
            seconds
        };
        let waits: Vec<_> = (0..6).map(|_| probation(&mut trust)).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 80].map(Some));
        now += LIVED_DOWN;
        trust.failed(now);
        trust.answered(now);
        assert!(trust.look(now + PROBATION));
    }
}
