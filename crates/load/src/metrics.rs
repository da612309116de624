//! Reader for the metrics pages of servers.

use std::time::Duration;

use anyhow::{Context, Result};

const ANSWER_WITHIN: Duration = Duration::from_secs(1);

pub(crate) fn http() -> Result<reqwest::Client> {
    let http = reqwest::Client::builder().no_proxy().timeout(ANSWER_WITHIN).build();
    http.context("cannot make an HTTP client")
}

/// Returns the metrics page of a server, by the URL of its internal listener.
pub(crate) async fn fetch(http: &reqwest::Client, internal: &str) -> Result<String, reqwest::Error> {
    http.get(format!("{internal}/metrics")).send().await?.error_for_status()?.text().await
}

/// Returns the sum of a metric over all labels, or 0 if the page does not have it.
pub(crate) fn sum(page: &str, name: &str) -> u64 {
    let lines = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|value| value as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_read_by_whole_names_and_labels_are_summed_up() {
        let page = "# TYPE signaling_sessions gauge\nsignaling_sessions{a=\"b\"} 34\nsignaling_sessions 1\n\
                    signaling_sessions_total 40\n";

        assert_eq!(sum(page, "signaling_sessions"), 35);
        assert_eq!(sum(page, "signaling"), 0);
    }
}
