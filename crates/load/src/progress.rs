use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;

/// A bar on the terminal, and nothing where there is none.
pub(crate) fn progress(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg:<12} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}

/// Waits so many seconds, and shows how many have passed.
pub(crate) async fn wait(seconds: u64, what: &'static str) {
    let bar = progress(seconds, what);
    for _ in 0..seconds {
        sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();
}
