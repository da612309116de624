//! Logs, the metrics page, and the measurement of the event loop. `runtime` starts the logs.

use std::cell::RefCell;
use std::error::Error;
use std::io::IsTerminal as _;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use signaling_wire::limits::SUSPECT_AFTER;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::clock::ticks;
use crate::config::LogFormat;
use crate::metrics::METRICS;
use crate::process;

/// Interval at which the delay of the event loop is measured.
const DELAY_INTERVAL: Duration = Duration::from_millis(250);
/// Most verbose level of the `log` crate.
///
/// At trace level tungstenite logs whole frames and requests, with tokens, secrets and payloads.
const DEEPEST_OF_LIBRARIES: log::LevelFilter = log::LevelFilter::Debug;

/// Default filter for libraries. The Kubernetes client logs each failed request while the API is
/// unreachable; discovery reports that once. HTTP and WebSocket libraries log each request.
const QUIET: &str = "kube_client=off,hyper=info,hyper_util=info,reqwest=info,tungstenite=info,tokio_tungstenite=info,tower=info,rustls=info";

/// Starts logs of this process to standard error, and the metrics of every server at 0. `filter` is
/// a level, or levels by module (`EnvFilter`); libraries stay quiet unless it names them.
///
/// # Errors
/// If the filter is malformed, or logs are already started.
pub fn start(format: LogFormat, filter: &str) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::builder().parse(format!("{QUIET},{filter}"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => logs.finish().try_init()?,
        LogFormat::Json => logs.json().finish().try_init()?,
    }
    log::set_max_level(log::max_level().min(DEEPEST_OF_LIBRARIES));
    LazyLock::force(&METRICS);
    Ok(())
}

thread_local! {
    static PUBLISHERS: RefCell<Vec<Box<dyn Fn()>>> = RefCell::default();
}

/// Calls `publish` before each `/metrics` page that this thread renders, while `source` lives. For
/// metrics whose values are counted elsewhere.
pub fn publish_on_scrape<T: 'static>(source: &Rc<T>, publish: impl Fn(&T) + 'static) {
    let source = Rc::downgrade(source);
    let publish = move || {
        if let Some(source) = source.upgrade() {
            publish(&source);
        }
    };
    PUBLISHERS.with_borrow_mut(|publishers| publishers.push(Box::new(publish)));
}

/// Returns the `/metrics` page of this thread, in Prometheus' text format.
pub(crate) fn page() -> String {
    process::publish();
    PUBLISHERS.with_borrow(|publishers| publishers.iter().for_each(|publish| publish()));
    signaling_metrics::encode()
}

/// Measures the delay of the event loop every 250 ms, and counts stalls of 2 s or more, which peers
/// must have noticed. Suspension of the machine does not count on Linux. Runs until dropped.
pub async fn watch_event_loop() {
    let mut ticks = ticks(DELAY_INTERVAL);
    loop {
        let delay = ticks.tick().await.elapsed();
        METRICS.event_loop_delay.observe(delay);
        METRICS.process_pauses.inc_by(u64::from(delay >= SUSPECT_AFTER));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stalled_event_loop_is_late_and_a_long_stall_is_a_pause() {
        let mut watch = Box::pin(watch_event_loop());
        for stall in [Duration::ZERO, Duration::from_millis(100), SUSPECT_AFTER] {
            assert!(timeout(Duration::ZERO, &mut watch).await.is_err());
            advance(DELAY_INTERVAL + stall).await;
        }
        assert!(timeout(Duration::ZERO, &mut watch).await.is_err());
        let page = page();
        for line in [
            "signaling_event_loop_delay_seconds_bucket{le=\"0.5\"} 2",
            "signaling_event_loop_delay_seconds_bucket{le=\"2.5\"} 3",
            "signaling_process_pauses_total 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }

    #[test]
    fn telemetry_starts_once_with_every_metric_at_0() {
        let start = || start(LogFormat::Json, "warn,some_module=trace");
        start().unwrap();
        assert_eq!(log::max_level(), DEEPEST_OF_LIBRARIES);
        let page = page();
        for line in [
            "signaling_refused_internal_total{reason=\"secret\"} 0",
            "signaling_trunks_ended_total{reason=\"protocol_error\"} 0",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert!(start().is_err());
    }
}
