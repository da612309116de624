//! Declarations of metrics over `prometheus-client`, and the `/metrics` page of this process.
//!
//! Each crate declares its metrics once, by [`metrics!`](macro@metrics). Its `METRICS` join the
//! page when they are first used, every series at 0. Pure cores do not depend on this crate: their
//! shells copy plain integers by [`Publish`].

mod by;
mod declare;
mod histogram;

pub use by::{By, Label, Labels};
pub use declare::{encode, in_process, page, register};
pub use histogram::HistogramBuckets;
pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::gauge::Gauge;
pub use prometheus_client::registry::Registry;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A counter with a fractional value, for seconds.
pub type FloatCounter = Counter<f64, AtomicU64>;
/// A gauge with a fractional value, for seconds.
pub type FloatGauge = Gauge<f64, AtomicU64>;

/// A counter or gauge whose value is counted elsewhere.
pub trait Publish {
    /// Replaces the value. A gauge is capped at `i64::MAX`. A counter must not fall.
    fn publish(&self, value: u64);
}

impl Publish for Counter {
    fn publish(&self, value: u64) {
        self.inner().store(value, Ordering::Relaxed);
    }
}

/// Replaces the value of a counter of seconds that is counted elsewhere. `time` must not fall.
pub fn publish_seconds(counter: &FloatCounter, time: Duration) {
    counter.inner().store(time.as_secs_f64().to_bits(), Ordering::Relaxed);
}

impl Publish for Gauge {
    fn publish(&self, value: u64) {
        self.set(i64::try_from(value).unwrap_or(i64::MAX));
    }
}
