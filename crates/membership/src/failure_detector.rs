//! Reliability of one member for nodes, balancers and discovery, from a server's own observations.
//!
//! A member that fails is suspect until it has answered without failure for a probation time: 5 s.
//! One that never answered before needs no probation. The time doubles, up to 80 s, with each
//! failure within 60 s of the last probation, since moving clients costs more than waiting.

use std::time::{Duration, Instant};

/// Probation after a first failure.
pub const PROBATION: Duration = Duration::from_secs(5);
/// Maximum probation of a flapping member.
const LONGEST_PROBATION: Duration = Duration::from_secs(80);
/// Time of reliability without failure after which earlier failures are forgotten.
const FAILURE_MEMORY: Duration = Duration::from_secs(60);

/// The reliability of one member, which starts as reliable.
#[derive(Debug, Clone)]
pub struct FailureDetector {
    /// `true` if it has ever answered. A starting member needs no probation.
    known: bool,
    suspect: bool,
    /// Time since which a suspect answers without failure.
    answering_since: Option<Instant>,
    trusted_since: Instant,
    probation: Duration,
}

impl FailureDetector {
    /// Returns the detector of a reliable member.
    pub fn new(now: Instant) -> Self {
        Self { known: false, suspect: false, answering_since: None, trusted_since: now, probation: Duration::ZERO }
    }

    /// Returns `true` if other members are to be preferred.
    pub fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Returns `true` unless the last report was a failure. The member may be suspect.
    pub fn is_answering(&self) -> bool {
        !self.suspect || self.answering_since.is_some()
    }

    /// Records an answer. Returns `true` if it is the first one after a failure. A suspect stays
    /// suspect until [`Self::end_probation`].
    pub fn answered(&mut self, now: Instant) -> bool {
        self.known = true;
        let is_news = !self.is_answering();
        if is_news {
            self.answering_since = Some(now);
        }
        is_news
    }

    /// Records a failure. Returns `true` if it is the first one after an answer, also of a suspect.
    pub fn failed(&mut self, now: Instant) -> bool {
        let is_news = self.is_answering();
        self.answering_since = None;
        if self.suspect {
            return is_news;
        }
        let flaps = now.saturating_duration_since(self.trusted_since) < FAILURE_MEMORY;
        self.probation = match self.known {
            false => Duration::ZERO,
            true if flaps => (self.probation * 2).clamp(PROBATION, LONGEST_PROBATION),
            true => PROBATION,
        };
        self.suspect = true;
        true
    }

    /// Ends the probation if it is over. Returns `true` if the member becomes reliable by it. The
    /// owner of the detector calls it from time to time.
    pub fn end_probation(&mut self, now: Instant) -> bool {
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
    fn starting_node_is_trusted_at_its_first_answer() {
        let start = Instant::now();
        let mut trust = FailureDetector::new(start);
        assert!(trust.failed(start));
        assert!(!trust.end_probation(start + SECOND));
        trust.answered(start + SECOND);
        assert!(trust.end_probation(start + SECOND));
    }

    #[test]
    fn suspect_is_trusted_after_answers_without_failure() {
        let start = Instant::now();
        let mut trust = known(start);
        assert!(trust.failed(start));
        assert!(!trust.failed(start), "it has failed already");
        trust.answered(start + SECOND);
        assert!(!trust.end_probation(start + 5 * SECOND));
        assert!(trust.failed(start + 5 * SECOND), "it has answered since");
        trust.answered(start + 6 * SECOND);
        trust.answered(start + 9 * SECOND);
        assert!(!trust.end_probation(start + 10 * SECOND));
        assert!(trust.end_probation(start + 11 * SECOND));
        assert!(!trust.is_suspect());
    }

    #[test]
    fn silence_earns_no_trust() {
        let start = Instant::now();
        let mut trust = FailureDetector::new(start);
        trust.failed(start);
        assert!(!trust.end_probation(start + 1000 * SECOND));
    }

    #[test]
    fn flapping_member_waits_longer_each_time() {
        let mut now = Instant::now();
        let mut trust = known(now);
        let mut probation = |trust: &mut FailureDetector| {
            trust.failed(now);
            trust.answered(now);
            let seconds = (1..=200).find(|&second| trust.end_probation(now + second * SECOND));
            now += seconds.unwrap_or_default() * SECOND;
            seconds
        };
        let waits: Vec<_> = (0..6).map(|_| probation(&mut trust)).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 80].map(Some));
        now += FAILURE_MEMORY;
        trust.failed(now);
        trust.answered(now);
        assert!(trust.end_probation(now + PROBATION));
    }
}
