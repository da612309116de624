//! Writes the rows as a Markdown table with aligned columns, which is also readable as plain text.

use indicatif::HumanCount;

use super::contestant::Contestant;
use super::figures::{Row, Unit};

pub(super) fn table(contestants: &[Contestant], rows: &[Row]) -> String {
    let is_compared = contestants.contains(&Contestant::Balancer);
    let others = contestants.iter().filter(|other| is_compared && **other != Contestant::Balancer);
    let mut lines = vec![vec![String::new()]];
    lines[0].extend(contestants.iter().map(|contestant| contestant.name().to_owned()));
    lines[0].extend(others.clone().map(|other| format!("balancer by {}", other.name())));
    for Row { what, unit, medians, ratios } in rows {
        let median = |it: &Contestant| medians.get(it).map_or_else(|| "-".to_owned(), |value| unit.write(*value));
        let ratio = |it: &Contestant| match ratios.get(it) {
            _ if *unit == Unit::Percent => String::new(),
            Some(ratio) => format!("{ratio:.2}"),
            None => "-".to_owned(),
        };
        let cells = contestants.iter().map(median).chain(others.clone().map(ratio));
        lines.push([what.clone()].into_iter().chain(cells).collect());
    }
    markdown(&lines)
}

impl Unit {
    fn write(self, value: f64) -> String {
        match self {
            Self::Microseconds => short(value) + " µs",
            Self::Milliseconds => short(value) + " ms",
            Self::Percent => short(value) + " %",
            Self::PerSecond => format!("{}/s", HumanCount(value.round() as u64)),
            Self::Bytes => format!("{:.1} KB", value / 1_000.0),
        }
    }
}

/// Formats a value with three digits.
fn short(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats lines of equally many cells, of which the first is the head.
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
    use super::*;
    use Contestant::{Balancer, Echo, Nginx};

    fn row(unit: Unit, medians: &[(Contestant, f64)], ratios: &[(Contestant, f64)]) -> Row {
        let (medians, ratios) = (medians.iter().copied().collect(), ratios.iter().copied().collect());
        Row { what: "CPU".to_owned(), unit, medians, ratios }
    }

    #[test]
    fn row_has_all_contestants_and_the_balancer_by_each_other() {
        let medians = [(Balancer, 7.25), (Nginx, 12.5), (Echo, 104.6)];
        let row = row(Unit::Microseconds, &medians, &[(Nginx, 0.58), (Echo, 1.451)]);

        assert_eq!(
            table(&[Balancer, Nginx, Echo], &[row]),
            "|     | balancer | nginx   | echo   | balancer by nginx | balancer by echo |\n\
             |-----|----------|---------|--------|-------------------|------------------|\n\
             | CPU | 7.25 µs  | 12.5 µs | 105 µs | 0.58              | 1.45             |\n"
        );
    }

    #[test]
    fn missing_figures_are_dashes_and_percentages_have_no_ratio() {
        let rate = row(Unit::PerSecond, &[(Balancer, 1_234_567.0)], &[]);
        let own = row(Unit::Percent, &[(Balancer, 40.0), (Nginx, 38.0)], &[(Nginx, 1.05)]);

        let table = table(&[Balancer, Nginx], &[rate, own]);

        let cells =
            |line: usize| -> Vec<_> { table.lines().nth(line).unwrap_or_default().split('|').map(str::trim).collect() };
        assert_eq!(cells(2), ["", "CPU", "1,234,567/s", "-", "-", ""]);
        assert_eq!(cells(3), ["", "CPU", "40.0 %", "38.0 %", "", ""]);
    }
}
