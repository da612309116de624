//! Metrics as tables of Markdown.

use std::fmt::Write as _;

use crate::{Label, Metric};

/// Metrics that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// What they are about.
    pub title: &'a str,
    /// Who serves them, and what else there is to say.
    pub about: &'a str,
    /// The metrics.
    pub metrics: &'a [Metric],
}

/// Writes a table for each section, in the order of names.
#[must_use]
pub fn write_tables(sections: &[Section<'_>]) -> String {
    let mut page = String::new();
    for Section { title, about, metrics } in sections {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n{about}\n\n| metric | type | labels | what |\n|---|---|---|---|\n");
        let mut metrics: Vec<_> = metrics.iter().collect();
        metrics.sort_unstable_by_key(|metric| metric.name);
        for Metric { name, kind, labels, help } in metrics {
            let labels: Vec<_> = labels.iter().map(label).collect();
            let _ = writeln!(page, "| `{name}` | {} | {} | {help} |", kind.as_str(), labels.join("; "));
        }
    }
    page
}

fn label(Label { name, values }: &Label) -> String {
    match values {
        [] => format!("`{name}`"),
        _ => format!("`{name}`: {}", values.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_metric_in_the_order_of_names() {
        let metrics = [
            Metric::gauge("b", "Bees.").by(&[Label { name: "kind", values: &["queen", "drone"] }]),
            Metric::counter("a_total", "Ants."),
        ];
        let page = write_tables(&[Section { title: "Insects", about: "All.", metrics: &metrics }]);
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows, ["| `a_total` | counter |  | Ants. |", "| `b` | gauge | `kind`: queen, drone | Bees. |"]);
        assert!(page.starts_with("\n## Insects\n\nAll.\n"), "{page}");
    }
}
