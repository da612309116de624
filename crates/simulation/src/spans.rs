//! Sets of time spans, used for times of faults.

use crate::agenda::Micros;

/// Spans, each from its start (inclusive) to its end (exclusive). They may overlap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spans(Vec<(Micros, Micros)>);

impl Spans {
    /// Adds a span. [`Micros::MAX`] as its end means that it has none yet.
    pub(crate) fn add(&mut self, from: Micros, until: Micros) {
        self.0.push((from, until));
    }

    /// Ends the last span if it has no end.
    pub(crate) fn end(&mut self, at: Micros) {
        if let Some((_, until)) = self.0.last_mut()
            && *until == Micros::MAX
        {
            *until = at;
        }
    }

    /// Starts a span without an end, unless the last one has none.
    pub(crate) fn begin(&mut self, at: Micros) {
        if self.0.last().is_none_or(|(_, until)| *until != Micros::MAX) {
            self.add(at, Micros::MAX);
        }
    }

    /// Returns the spans of both sets.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Returns `true` if no span overlaps the time between `from` and `until`.
    pub(crate) fn covers_nothing(&self, from: Micros, until: Micros) -> bool {
        self.0.iter().all(|(start, end)| *end <= from || until <= *start)
    }

    /// Returns the longest time between `from` and `until` that no span touches.
    pub(crate) fn longest_gap(&self, from: Micros, until: Micros) -> Micros {
        let mut spans: Vec<_> = self.0.iter().filter(|(start, end)| *end > from && *start < until).collect();
        spans.sort_unstable();
        let (mut longest, mut free_from) = (0, from);
        for (start, end) in spans {
            longest = longest.max(start.saturating_sub(free_from));
            free_from = free_from.max(*end);
        }
        longest.max(until.saturating_sub(free_from))
    }

    /// Returns the latest end of all spans; 0 without a span.
    pub(crate) fn last_end(&self) -> Micros {
        self.0.iter().map(|(_, end)| *end).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_span_touches() {
        let mut spans = Spans::default();
        spans.add(10, 20);
        spans.add(15, 30);
        assert_eq!(spans.longest_gap(0, 100), 70);
        assert_eq!(spans.longest_gap(0, 32), 10);
        assert_eq!(spans.longest_gap(12, 30), 0);
        assert!(spans.covers_nothing(30, 40) && !spans.covers_nothing(29, 40));
        spans.begin(50);
        spans.begin(55);
        spans.end(60);
        assert_eq!((spans.longest_gap(0, 100), spans.last_end()), (40, 60));
    }
}
