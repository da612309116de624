use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;

/// Returns a progress bar, which is hidden without a terminal.
pub(crate) fn progress(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg:<12} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}

/// Waits this many seconds and shows the progress.
pub(crate) async fn wait(seconds: u64, what: &'static str) {
    let bar = progress(seconds, what);
    for _ in 0..seconds {
        sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
}
