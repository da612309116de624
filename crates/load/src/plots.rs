//! The plots that the pages of all scenarios have in common.

use crate::html::{Chart, Line, Mark, Page};
use crate::latency::Percentiles;
use crate::timeline::Row;
use crate::watch::{UsageLine, charts};

/// A page of what was begun and done when, how long it took, and what the servers used. `what` is counted, and `took` is what
/// its times are called.
pub(crate) fn page(
    scenario: &str,
    rows: &[Row],
    what: &str,
    took: &str,
    usage: &[UsageLine],
    marks: Vec<Mark>,
) -> Page {
    let mut charts = vec![times(took, rows), counts(what, rows)];
    charts.extend(self::charts(usage));
    Page { title: format!("mesh-load {scenario}"), charts, marks, ..Page::default() }
}

fn times(title: &str, rows: &[Row]) -> Chart {
    let line = |name: &str, value: fn(&Percentiles) -> u64| Line {
        name: name.to_owned(),
        points: rows
            .iter()
            .map(|row| (row.second as f64, row.took_us.as_ref().map(|us| value(us) as f64 / 1e3)))
            .collect(),
    };
    let lines = vec![
        line("p50", |us| us.p50),
        line("p99", |us| us.p99),
        line("p99.9", |us| us.p99_9),
        line("longest", |us| us.max),
    ];
    Chart::new(&capitalised(title), "ms", lines).logarithmic()
}

fn counts(what: &str, rows: &[Row]) -> Chart {
    let line = |name: &str, count: fn(&Row) -> u64| Line {
        name: name.to_owned(),
        points: rows.iter().map(|row| (row.second as f64, Some(count(row) as f64 / row.seconds as f64))).collect(),
    };
    let mut lines = vec![line("begun", |row| row.begun), line("done", |row| row.done)];
    if rows.iter().any(|row| row.failed > 0) {
        lines.push(line("failed", |row| row.failed));
    }
    Chart::new(&capitalised(what), "a second", lines)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Timeline;

    #[test]
    fn a_page_has_times_counts_and_what_the_servers_used_and_failures_only_where_there_are_some() {
        let mut timeline = Timeline::lasting(10);
        timeline.begun(0);
        timeline.done(1_000_000, 2_500);

        let html = page("calls", &timeline.rows(), "calls", "set-up time", &[], vec![]).render();

        assert!(html.contains("<h2>Set-up time <small>ms") && html.contains("<h2>Calls <small>a second"));
        assert!(!html.contains("failed") && !html.contains("<h2>CPU"));
        timeline.failed(0);
        assert!(page("calls", &timeline.rows(), "calls", "set-up time", &[], vec![]).render().contains(">failed<"));
    }
}
