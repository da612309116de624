//! What servers say of themselves on their metrics pages.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use signaling_devmesh::MeshFile;

/// How long a server may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A client for metrics pages.
pub(crate) fn http() -> Result<reqwest::Client> {
    let http = reqwest::Client::builder().no_proxy().timeout(ANSWER_WITHIN).build();
    http.context("cannot make an HTTP client")
}

/// The metrics page of a server, by the URL of its internal listener.
pub(crate) async fn fetch(http: &reqwest::Client, internal: &str) -> Result<String, reqwest::Error> {
    http.get(format!("{internal}/metrics")).send().await?.error_for_status()?.text().await
}

/// What a page says under a name, all labels together; 0 where it says nothing.
pub(crate) fn sum(page: &str, name: &str) -> u64 {
    let lines = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|value| value as u64).sum()
}

/// How clients are spread over servers of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) clients_by_server: BTreeMap<String, u64>,
}

impl Spread {
    /// The sessions at each node that answers.
    pub(crate) async fn over_nodes(http: &reqwest::Client, mesh: &MeshFile) -> Self {
        let mut spread = Self::default();
        for node in &mesh.nodes {
            if let Ok(page) = fetch(http, &node.internal).await {
                spread.clients_by_server.insert(node.id.clone(), sum(&page, "signaling_sessions"));
            }
        }
        spread
    }

    pub(crate) fn total(&self) -> u64 {
        self.clients_by_server.values().sum()
    }

    /// How much more than the mean the fullest server has, as a factor; `None` where there is nobody.
    pub(crate) fn unevenness(&self) -> Option<f64> {
        let mean = self.total() as f64 / self.clients_by_server.len() as f64;
        Some(*self.clients_by_server.values().max()? as f64 / mean).filter(|factor| factor.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_by_whole_names_and_labels_are_summed_up() {
        let page = "# TYPE signaling_sessions gauge\nsignaling_sessions{a=\"b\"} 34\nsignaling_sessions 1\n\
                    signaling_sessions_total 40\n";

        assert_eq!(sum(page, "signaling_sessions"), 35);
        assert_eq!(sum(page, "signaling"), 0);
    }

    #[test]
    fn the_fullest_server_is_compared_with_the_mean() {
        let spread = |counts: &[u64]| Spread {
            clients_by_server: counts.iter().enumerate().map(|(number, count)| (number.to_string(), *count)).collect(),
        };

        assert_eq!(spread(&[10, 20, 30]).unevenness(), Some(1.5));
        assert_eq!(spread(&[0, 0]).unevenness(), None);
        assert_eq!(spread(&[]).unevenness(), None);
    }
}
