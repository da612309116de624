//! One metric: what it is called, what it counts, and by what.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// What a metric does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts times by how long they were.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What a metric is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// All that it can be. None: what the configuration names, so that the program alone cannot list it.
    pub values: &'static [&'static str],
}

/// A metric of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name: what it counts, the base unit, and `_total` if it only grows.
    pub name: &'static str,
    /// What it does.
    pub kind: Kind,
    /// What it is counted by, besides the server.
    pub labels: &'static [Label],
    /// What it means, in a sentence.
    pub help: &'static str,
}

impl Metric {
    /// One that only grows.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels: &[], help }
    }

    /// One that goes up and down.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels: &[], help }
    }

    /// Times, in seconds.
    #[must_use]
    pub const fn times(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, labels: &[], help }
    }

    /// The same, counted by labels.
    #[must_use]
    pub const fn by(self, labels: &'static [Label]) -> Self {
        Self { labels, ..self }
    }

    /// Has the page show it from now on: all that its labels can be, at nothing. Whoever looks then sees the first one that is counted,
    /// and not a series that begins with it.
    pub fn announce(&self) {
        match self.kind {
            Kind::Counter => describe_counter!(self.name, self.help),
            Kind::Gauge => describe_gauge!(self.name, self.help),
            Kind::Histogram => describe_histogram!(self.name, Unit::Seconds, self.help),
        }
        for values in self.all_values() {
            match self.kind {
                Kind::Counter => drop(self.counter_of(&values)),
                Kind::Gauge => drop(self.gauge_of(&values)),
                Kind::Histogram => drop(self.times_of(&values)),
            }
        }
    }

    /// The counter for these values of its labels, in their order.
    pub fn counter_of(&self, values: &[&'static str]) -> Counter {
        counter!(self.name, &self.pairs(values))
    }

    /// The gauge for these values of its labels.
    pub fn gauge_of(&self, values: &[&'static str]) -> Gauge {
        gauge!(self.name, &self.pairs(values))
    }

    /// The histogram for these values of its labels.
    pub fn times_of(&self, values: &[&'static str]) -> Histogram {
        histogram!(self.name, &self.pairs(values))
    }

    fn pairs(&self, values: &[&'static str]) -> Vec<(&'static str, &'static str)> {
        debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
        let pairs = self.labels.iter().zip(values);
        pairs
            .map(|(label, value)| {
                debug_assert!(label.values.is_empty() || label.values.contains(value), "{}: {value}", self.name);
                (label.name, *value)
            })
            .collect()
    }

    /// Every combination of what its labels can be; none if one of them is open.
    fn all_values(&self) -> Vec<Vec<&'static str>> {
        let mut all = vec![Vec::new()];
        for label in self.labels {
            let one_more =
                |so_far: &Vec<_>| label.values.iter().map(|value| [so_far.as_slice(), &[*value]].concat()).collect();
            all = all.iter().flat_map::<Vec<_>, _>(one_more).collect();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Metric = Metric::counter("a_total", "")
        .by(&[Label { name: "x", values: &["1", "2"] }, Label { name: "y", values: &["p", "q"] }]);

    #[test]
    fn every_combination_of_labels_is_announced_and_none_of_open_ones() {
        assert_eq!(BOTH.all_values(), [["1", "p"], ["1", "q"], ["2", "p"], ["2", "q"]]);
        assert_eq!(Metric::gauge("b", "").all_values(), [[""; 0]]);
        let open = Metric::gauge("b", "").by(&[Label { name: "flag", values: &[] }]);
        assert!(open.all_values().is_empty());
    }
}
