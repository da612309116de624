//! Times for the page of metrics, as integers: counting one adds to a bucket, whatever was counted before, and keeps nothing else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use metrics_exporter_prometheus::PrometheusRecorder;
use signaling_metrics::BOUNDS;

/// Takes counters and gauges to Prometheus' exporter, and keeps histograms itself: the exporter would keep each time that is counted
/// until somebody asks.
pub(crate) struct Recorder {
    others: PrometheusRecorder,
    histograms: Histograms,
}

impl Recorder {
    pub(crate) fn new(others: PrometheusRecorder) -> Self {
        Self { others, histograms: Histograms::default() }
    }

    pub(crate) fn histograms(&self) -> Histograms {
        self.histograms.clone()
    }

    pub(crate) fn others(&self) -> &PrometheusRecorder {
        &self.others
    }
}

impl ::metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.others.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.others.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.histograms.families().entry(key.as_str().to_owned()).or_default().help = description;
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.others.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.others.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        // Labels come from our own lists: nothing in them needs escaping.
        let labels: String = key.labels().map(|label| format!("{}=\"{}\",", label.key(), label.value())).collect();
        let mut families = self.histograms.families();
        let series = &mut families.entry(key.name().to_owned()).or_default().series;
        Histogram::from_arc(Arc::clone(series.entry(labels).or_default()))
    }
}

/// All histograms of the process. A cheap clone shares them.
#[derive(Clone, Default)]
pub(crate) struct Histograms(Arc<Mutex<BTreeMap<String, Family>>>);

#[derive(Default)]
struct Family {
    help: SharedString,
    series: BTreeMap<String, Arc<Buckets>>,
}

impl Histograms {
    fn families(&self) -> MutexGuard<'_, BTreeMap<String, Family>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends them in Prometheus' text format.
    pub(crate) fn render(&self, page: &mut String) {
        for (name, Family { help, series }) in &*self.families() {
            // Writing to a string cannot fail.
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} histogram\n");
            for (labels, buckets) in series {
                buckets.render(name, labels, page);
            }
            page.push('\n');
        }
    }
}

#[derive(Default)]
struct Buckets {
    /// The last is for what is longer than all bounds.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// Seconds, as the bits of a float.
    sum: AtomicU64,
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl Buckets {
    fn render(&self, name: &str, labels: &str, page: &mut String) {
        let mut count = 0;
        for (at, bucket) in self.counts.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS.get(at).map_or_else(|| "+Inf".to_owned(), |bound| seconds(*bound).to_string());
            let _ = writeln!(page, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let labels = labels.strip_suffix(',').map(|labels| format!("{{{labels}}}")).unwrap_or_default();
        let _ = write!(page, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}\n");
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        let at = BOUNDS.partition_point(|bound| seconds(*bound) < value);
        if let Some(bucket) = self.counts.get(at) {
            bucket.fetch_add(count as u64, Ordering::Relaxed);
        }
        let more = |sum| Some((f64::from_bits(sum) + value * count as f64).to_bits());
        // It is always some, so this cannot fail.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::{describe_histogram, histogram, with_local_recorder};
    use metrics_exporter_prometheus::PrometheusBuilder;
    use signaling_metrics::Spread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_counted_by_bucket_and_added_up() {
        let recorder = Recorder::new(PrometheusBuilder::new().build_recorder());
        with_local_recorder(&recorder, || {
            describe_histogram!("hop_seconds", "A hop.");
            let hop = histogram!("hop_seconds", "to" => "node");
            hop.record(0.000_2);
            hop.record(60.0);
            let mut spread = Spread::default();
            (0..3).for_each(|_| spread.add(Duration::from_millis(1)));
            spread.publish(&hop);
        });
        let mut page = String::new();
        recorder.histograms().render(&mut page);
        for line in [
            "# HELP hop_seconds A hop.",
            "# TYPE hop_seconds histogram",
            "hop_seconds_bucket{to=\"node\",le=\"0.0001\"} 0",
            "hop_seconds_bucket{to=\"node\",le=\"0.00025\"} 1",
            "hop_seconds_bucket{to=\"node\",le=\"0.0005\"} 1",
            "hop_seconds_bucket{to=\"node\",le=\"0.001\"} 4",
            "hop_seconds_bucket{to=\"node\",le=\"30\"} 4",
            "hop_seconds_bucket{to=\"node\",le=\"+Inf\"} 5",
            "hop_seconds_sum{to=\"node\"} 60.0032",
            "hop_seconds_count{to=\"node\"} 5",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }

    #[test]
    fn a_histogram_without_a_time_is_there() {
        let recorder = Recorder::new(PrometheusBuilder::new().build_recorder());
        with_local_recorder(&recorder, || drop(histogram!("hop_seconds")));
        let mut page = String::new();
        recorder.histograms().render(&mut page);
        assert!(page.contains("\nhop_seconds_sum 0\nhop_seconds_count 0\n"), "{page}");
    }
}
