//! Logs, and the page of metrics.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{MissedTickBehavior, interval};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogConfig, LogFormat};
use crate::{metrics, process};

/// Buckets of histograms whose name ends in `_seconds`: from a hop on loopback to the longest hold time.
const SECONDS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Buckets of all others: counts and sizes.
const SIZES: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];
/// What libraries log through the `log` crate goes no deeper: at trace level tungstenite writes whole frames and requests, with the
/// tokens, secrets and session descriptions in them.
const DEEPEST_OF_LIBRARIES: log::LevelFilter = log::LevelFilter::Debug;
/// How often what histograms gathered is folded into buckets; between two folds it takes memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// What is not logged unless the filter names it: the Kubernetes client calls each failed request an error, for as long as the API
/// server is away. Discovery says what it means, once.
const QUIET: &str = "kube_client=off";

/// The metrics of this process. A cheap clone shares them.
#[derive(Clone)]
pub struct Telemetry {
    prometheus: PrometheusHandle,
}

/// Why telemetry cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter of the logs is malformed.
    #[error(transparent)]
    Filter(#[from] ParseError),
    /// Something else logs in this process.
    #[error(transparent)]
    Logs(#[from] TryInitError),
    /// Something else counts in this process.
    #[error(transparent)]
    Metrics(#[from] BuildError),
}

/// Starts logs, to standard error, and metrics for the whole process. Once, and before anything makes metric handles.
///
/// # Errors
/// If the filter is malformed, or the process has telemetry already.
pub fn start(log: &LogConfig) -> Result<Telemetry, TelemetryError> {
    let filter = EnvFilter::builder().parse(format!("{QUIET},{}", log.filter))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => logs.finish().try_init()?,
        LogFormat::Json => logs.json().finish().try_init()?,
    }
    log::set_max_level(log::max_level().min(DEEPEST_OF_LIBRARIES));
    let telemetry = Telemetry { prometheus: builder()?.install_recorder()? };
    metrics::describe();
    Ok(telemetry)
}

impl Telemetry {
    /// Metrics that nothing in the process writes to, for tests of what shows them.
    ///
    /// # Errors
    /// If the recorder cannot be built.
    pub fn detached() -> Result<Self, TelemetryError> {
        Ok(Self { prometheus: builder()?.build_recorder().handle() })
    }

    /// The page of metrics, in Prometheus' text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = self.prometheus.render();
        process::render(&mut page);
        page
    }

    /// Keeps the memory of histograms small. Runs until dropped: spawn it, and keep its handle.
    pub async fn upkeep(self) {
        let mut ticks = interval(UPKEEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.prometheus.run_upkeep();
        }
    }
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets(SIZES)?.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ::metrics::{histogram, with_local_recorder};

    use super::*;

    #[test]
    fn times_and_sizes_have_buckets_of_their_own() {
        let recorder = builder().unwrap().build_recorder();
        with_local_recorder(&recorder, || {
            histogram!("signaling_hop_seconds").record(0.000_2);
            histogram!("signaling_batch_frames").record(5.0);
        });
        let page = Telemetry { prometheus: recorder.handle() }.render();
        assert!(page.contains("signaling_hop_seconds_bucket{le=\"0.00025\"} 1"), "{page}");
        assert!(page.contains("signaling_batch_frames_bucket{le=\"8\"} 1"), "{page}");
    }

    #[test]
    fn counters_of_this_crate_are_there_before_they_count() {
        let recorder = builder().unwrap().build_recorder();
        with_local_recorder(&recorder, metrics::describe);
        let page = Telemetry { prometheus: recorder.handle() }.render();
        assert!(page.contains("signaling_refused_internal_total 0"), "{page}");
        assert!(page.contains("signaling_accept_errors_total 0"), "{page}");
    }

    #[test]
    fn telemetry_starts_once_and_serves_the_whole_process() {
        let log = LogConfig { format: LogFormat::Json, filter: "warn,nobody=trace".into() };
        let telemetry = start(&log).unwrap();
        assert_eq!(log::max_level(), DEEPEST_OF_LIBRARIES);
        metrics::accept_error();
        assert!(telemetry.render().contains("signaling_accept_errors_total"));
        assert!(matches!(start(&log), Err(TelemetryError::Logs(_))));
    }
}
