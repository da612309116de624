//! How the rows are written: a Markdown table whose columns are aligned, so that it is readable as it stands.

use std::collections::BTreeMap;

use super::contestant::Contestant;
use super::rows::{Row, Unit};

/// The table of these contestants.
pub(super) fn table(contestants: &[Contestant], rows: &[Row]) -> String {
    let is_compared = contestants.contains(&Contestant::Balancer);
    let others = contestants.iter().filter(|other| is_compared && **other != Contestant::Balancer);
    let mut lines = vec![vec![String::new()]];
    lines[0].extend(contestants.iter().map(|contestant| contestant.name().to_owned()));
    lines[0].extend(others.clone().map(|other| format!("balancer by {}", other.name())));
    for row in rows {
        let values = |of: &dyn Fn(usize) -> Option<f64>, unit| cell(row.figures.len(), of, unit);
        let of = |by: &BTreeMap<Contestant, f64>, contestant: &Contestant| by.get(contestant).copied();
        let mut line = vec![row.what.clone()];
        line.extend(contestants.iter().map(|it| values(&|at| of(&row.figures[at].medians, it), Some(row.unit))));
        let ratios = others.clone().map(|it| values(&|at| of(&row.figures[at].ratios, it), None));
        line.extend(ratios.map(|cell| if row.unit.has_ratio() { cell } else { String::new() }));
        lines.push(line);
    }
    markdown(&lines)
}

impl Unit {
    /// Whether it says something of the contestant, so that a ratio does too.
    fn has_ratio(self) -> bool {
        !matches!(self, Self::Percent | Self::Rounds)
    }

    /// A figure with its unit where `is_last` of a cell.
    fn write(self, value: f64, is_last: bool) -> String {
        let (text, unit) = match self {
            Self::Microseconds => (short(value), " µs"),
            Self::Milliseconds => (short(value), " ms"),
            Self::Percent => (short(value), " %"),
            Self::PerSecond => (thousands(value), "/s"),
            Self::Bytes => (format!("{:.1}", value / 1_000.0), " KB"),
            Self::Rounds => (format!("{value:.0}"), ""),
        };
        if is_last { text + unit } else { text }
    }
}

/// The values of a cell; those without a unit are ratios.
fn cell(figures: usize, value: &dyn Fn(usize) -> Option<f64>, unit: Option<Unit>) -> String {
    let values: Option<Vec<f64>> = (0..figures).map(value).collect();
    let Some(values) = values else { return "-".to_owned() };
    let write = |(at, value): (usize, &f64)| match unit {
        Some(unit) => unit.write(*value, at + 1 == figures),
        None => format!("{value:.2}"),
    };
    values.iter().enumerate().map(write).collect::<Vec<_>>().join(" / ")
}

/// Three digits.
fn short(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Lines of equally many cells, the first of which is the head.
fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let written = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |")).collect::<String>();
        format!("|{cells}\n")
    };
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    let mut text: Vec<String> = lines.iter().map(written).collect();
    text.insert(1.min(text.len()), format!("|{rule}\n"));
    text.concat()
}

#[cfg(test)]
mod tests {
    use super::super::rows::Figure;
    use super::*;
    use Contestant::{Balancer, Echo, Nginx};

    fn figure(medians: &[(Contestant, f64)], ratios: &[(Contestant, f64)]) -> Figure {
        Figure { medians: medians.iter().copied().collect(), ratios: ratios.iter().copied().collect() }
    }

    #[test]
    fn a_row_has_all_contestants_and_the_balancer_by_each_other() {
        let cpu = figure(&[(Balancer, 7.25), (Nginx, 12.5), (Echo, 104.6)], &[(Nginx, 0.58), (Echo, 1.451)]);
        let row = Row { what: "CPU".to_owned(), unit: Unit::Microseconds, figures: vec![cpu] };

        assert_eq!(
            table(&[Balancer, Nginx, Echo], &[row]),
            "|     | balancer | nginx   | echo   | balancer by nginx | balancer by echo |\n\
             |-----|----------|---------|--------|-------------------|------------------|\n\
             | CPU | 7.25 µs  | 12.5 µs | 105 µs | 0.58              | 1.45             |\n"
        );
    }

    #[test]
    fn figures_that_belong_together_share_a_cell_and_its_unit() {
        let figures = [0.914, 3.3].map(|ms| figure(&[(Balancer, ms)], &[]));
        let row = Row { what: "p50 and p99".to_owned(), unit: Unit::Milliseconds, figures: figures.into() };

        assert!(table(&[Balancer], &[row]).contains("| 0.91 / 3.30 ms |"));
    }

    #[test]
    fn who_has_no_round_that_counts_has_no_figure_and_no_ratio() {
        let rate = figure(&[(Balancer, 1_234_567.0)], &[]);
        let row = Row { what: "rate".to_owned(), unit: Unit::PerSecond, figures: vec![rate] };

        let table = table(&[Balancer, Nginx], &[row]);

        let cells: Vec<_> = table.lines().nth(2).unwrap_or_default().split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "rate", "1,234,567/s", "-", "-", ""]);
    }

    #[test]
    fn what_says_nothing_of_a_contestant_has_no_ratio() {
        let own = figure(&[(Balancer, 40.0), (Nginx, 38.0)], &[(Nginx, 1.05)]);
        let row = Row { what: "generator".to_owned(), unit: Unit::Percent, figures: vec![own] };

        assert!(!table(&[Balancer, Nginx], &[row]).contains("1.05"));
    }

    #[test]
    fn without_the_balancer_there_is_nothing_to_compare_with() {
        let table = table(&[Nginx, Echo], &[]);

        assert!(table.starts_with("|     | nginx | echo |\n"), "{table}");
    }
}
