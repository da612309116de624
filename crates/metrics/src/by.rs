//! Metrics with labels of fixed values. Crates declare them by `label!` and `metrics!`.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The labels of one series, as (name, value) in their order.
pub type Labels = Vec<(&'static str, &'static str)>;

/// A metric label, as the type of its values, by [`label!`](crate::label!). A pair is one too.
pub trait Label: Copy + 'static {
    /// Returns all values, in the order of their series on the `/metrics` page.
    fn values() -> Vec<Labels>;
    /// Returns the position of this value in [`values`](Self::values), below their number.
    fn index(&self) -> usize;
}

impl<A: Label, B: Label> Label for (A, B) {
    fn values() -> Vec<Labels> {
        A::values().into_iter().flat_map(|a| B::values().into_iter().map(move |b| [a.clone(), b].concat())).collect()
    }

    fn index(&self) -> usize {
        self.0.index() * B::values().len() + self.1.index()
    }
}

/// Declares a [`Label`]: an enum with a text per variant, or a struct around a `u16` code. A code
/// outside the given list counts as `other`.
#[macro_export]
macro_rules! label {
    ($(#[$doc:meta])* $vis:vis enum $name:ident = $label:literal { $($variant:ident = $value:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name { $(#[doc = $value] $variant),* }

        impl $crate::Label for $name {
            fn values() -> Vec<$crate::Labels> {
                vec![$(vec![($label, $value)]),*]
            }
            fn index(&self) -> usize {
                *self as usize
            }
        }
    };
    ($(#[$doc:meta])* $vis:vis struct $name:ident = $label:literal [$($code:literal),* $(,)?]) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $name($vis u16);

        impl $crate::Label for $name {
            fn values() -> Vec<$crate::Labels> {
                vec![$(vec![($label, stringify!($code))],)* vec![($label, "other")]]
            }
            fn index(&self) -> usize {
                let codes = [$($code),*];
                codes.iter().position(|code| *code == self.0).unwrap_or(codes.len())
            }
        }
    };
}

/// One metric per value of a label or pair of labels; all exist from the start. Clones share them.
#[derive(Debug, Clone)]
pub struct By<L, M = Counter> {
    series: Arc<[(Labels, M)]>,
    label: PhantomData<fn(L)>,
}

impl<L: Label, M> By<L, M> {
    /// Returns the metric of a value. Panics if [`Label::index`] is out of range.
    pub fn of(&self, value: L) -> &M {
        &self.series[value.index()].1
    }

    /// Returns the metrics of all values, in the order of [`Label::values`].
    pub fn all(&self) -> impl Iterator<Item = &M> {
        self.series.iter().map(|(_, metric)| metric)
    }
}

impl<L: Label, M: Default> Default for By<L, M> {
    fn default() -> Self {
        Self { series: L::values().into_iter().map(|value| (value, M::default())).collect(), label: PhantomData }
    }
}

impl<L: Label, M: EncodeMetric + TypedMetric> EncodeMetric for By<L, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.series.iter().try_for_each(|(value, metric)| metric.encode(encoder.encode_family(value)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Registry, page, register};

    label! { enum Direction = "direction" { In = "in", Out = "out" } }
    label! { struct Code = "code" [1002, 1009] }

    #[test]
    fn every_label_value_is_on_the_page_at_0_from_the_start() {
        let mut registry = Registry::default();
        let bytes: By<Direction> = register(&mut registry, "bytes_total", "Bytes");
        let closes: By<Code> = register(&mut registry, "closes_total", "Closes");
        assert!(page(&registry).starts_with(
            "# HELP bytes_total Bytes.\n# TYPE bytes_total counter\n\
             bytes_total{direction=\"in\"} 0\nbytes_total{direction=\"out\"} 0\n"
        ));
        bytes.of(Direction::In).inc_by(3);
        bytes.of(Direction::Out).inc();
        closes.of(Code(1009)).inc();
        closes.of(Code(7)).inc_by(2);
        assert_eq!(bytes.all().map(Counter::get).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(closes.all().map(Counter::get).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(page(&registry).contains("\ncloses_total{code=\"other\"} 2\n"));
    }

    #[test]
    fn pair_of_labels_has_a_series_for_each_combination() {
        let mut registry = Registry::default();
        let closes: By<(Direction, Code)> = register(&mut registry, "closes_total", "Closes");
        closes.of((Direction::Out, Code(1009))).inc();
        assert_eq!(closes.all().map(Counter::get).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 0]);
        assert!(page(&registry).contains("\ncloses_total{direction=\"out\",code=\"1009\"} 1\n"));
    }
}
