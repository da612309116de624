//! Logs, and the page of metrics.

use std::io::IsTerminal as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::metrics::SetRecorderError;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use signaling_wire::limits::SUSPECT_AFTER;
use tokio::time::{MissedTickBehavior, interval};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogConfig, LogFormat};
use crate::histograms::{Histograms, Recorder};
use crate::{metrics, process};

/// How often it is looked how late the event loop is.
const LOOK: Duration = Duration::from_millis(100);
/// What libraries log through the `log` crate goes no deeper: at trace level tungstenite writes whole frames and requests, with the
/// tokens, secrets and session descriptions in them.
const DEEPEST_OF_LIBRARIES: log::LevelFilter = log::LevelFilter::Debug;

/// What is not logged unless the filter names it: the Kubernetes client calls each failed request an error, for as long as the API
/// server is away. Discovery says what it means, once. And the libraries of HTTP and WebSocket write a line for each request.
const QUIET: &str = "kube_client=off,hyper=info,hyper_util=info,reqwest=info,tungstenite=info,tokio_tungstenite=info,tower=info,rustls=info";

/// The metrics of this process. A cheap clone shares them.
#[derive(Clone)]
pub struct Telemetry {
    prometheus: PrometheusHandle,
    histograms: Histograms,
    started: Duration,
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
    #[error("something else counts in this process: {0}")]
    Metrics(String),
}

/// Starts logs, to standard error, and metrics for the whole process. Once, and before anything makes metric handles.
///
/// # Errors
/// If the filter is malformed, or the process has telemetry already.
pub fn start(log: &LogConfig) -> Result<Telemetry, TelemetryError> {
    let filter = EnvFilter::builder().parse(format!("{QUIET},{}", log.filter))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match log.format {
        LogFormat::Text => logs.finish().try_init()?,
        LogFormat::Json => logs.json().finish().try_init()?,
    }
    log::set_max_level(log::max_level().min(DEEPEST_OF_LIBRARIES));
    let recorder = Recorder::new(PrometheusBuilder::new().build_recorder());
    let telemetry = Telemetry::of(&recorder);
    let taken = |error: SetRecorderError<Recorder>| TelemetryError::Metrics(error.to_string());
    ::metrics::set_global_recorder(recorder).map_err(taken)?;
    metrics::announce();
    Ok(telemetry)
}

impl Telemetry {
    fn of(recorder: &Recorder) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { prometheus: recorder.others().handle(), histograms: recorder.histograms(), started }
    }

    /// Metrics that nothing in the process writes to, for tests of what shows them.
    #[must_use]
    pub fn detached() -> Self {
        Self::of(&Recorder::new(PrometheusBuilder::new().build_recorder()))
    }

    /// The page of metrics, in Prometheus' text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = self.prometheus.render();
        self.histograms.render(&mut page);
        process::render(&mut page, self.started);
        page
    }

    /// Measures how late the event loop is, and counts the pauses of this process that others must have noticed. Runs until dropped:
    /// spawn it, and keep its handle.
    pub async fn watch_event_loop(self) {
        let (delay, pauses) = (metrics::EVENT_LOOP_DELAY.times_of(&[]), metrics::PAUSES.counter_of(&[]));
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let late = looks.tick().await.elapsed();
            delay.record(late);
            pauses.increment(u64::from(late >= SUSPECT_AFTER));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ::metrics::with_local_recorder;
    use tokio::time::{advance, timeout};

    use super::*;

    #[test]
    fn metrics_of_this_crate_are_there_before_they_count() {
        let recorder = Recorder::new(PrometheusBuilder::new().build_recorder());
        with_local_recorder(&recorder, metrics::announce);
        let page = Telemetry::of(&recorder).render();
        for line in [
            "signaling_refused_internal_total{reason=\"secret\"} 0",
            "signaling_trunks_ended_total{reason=\"silent\"} 0",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_loop_that_stood_still_is_late_and_a_long_stand_is_a_pause() {
        let recorder = Recorder::new(PrometheusBuilder::new().build_recorder());
        let telemetry = Telemetry::of(&recorder);
        let _local = ::metrics::set_default_local_recorder(&recorder);
        let mut watch = Box::pin(telemetry.clone().watch_event_loop());
        for stand in [LOOK, LOOK + Duration::from_millis(300), LOOK + SUSPECT_AFTER] {
            assert!(timeout(Duration::ZERO, &mut watch).await.is_err());
            advance(stand).await;
        }
        assert!(timeout(Duration::ZERO, &mut watch).await.is_err());
        let page = telemetry.render();
        for line in [
            "signaling_event_loop_delay_seconds_bucket{le=\"0.5\"} 3",
            "signaling_event_loop_delay_seconds_bucket{le=\"2.5\"} 4",
            "signaling_pauses_total 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
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
