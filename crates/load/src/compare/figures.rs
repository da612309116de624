//! Named figures of all contestants and rounds, and their table, for `compare`. Pure.

use std::collections::BTreeMap;

use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;

use super::contestant::Contestant;
use crate::exchange::Totals;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
    Percent,
    PerSecond,
    /// Written as KB of 1,000 bytes.
    Bytes,
}

/// One measured value: its name (row of the table), unit and number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    what: String,
    unit: Unit,
    value: f64,
}

/// One measurement of one contestant in one round (from 0).
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) contestant: Contestant,
    pub(super) round: u32,
    /// Name of the measurement, for messages.
    pub(super) what: String,
    /// `true` for a load, which may fail because its rate is too high.
    pub(super) is_load: bool,
    #[serde(flatten)]
    pub(super) found: Found,
}

/// Result of one measurement of one contestant.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Found {
    /// Measured values; may be empty in an invalid run.
    pub(super) figures: Vec<Figure>,
    /// Message counts of a load; `None` for other measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) messages: Option<Totals>,
    /// 99th percentile latency of a load, in microseconds; 0 for other measurements.
    #[serde(skip)]
    pub(super) p99_us: u64,
    /// Reasons for which the run does not count; empty if it does.
    pub(super) complaints: Vec<String>,
}

impl Found {
    /// Returns the result, or for an error an invalid one with it as complaint.
    pub(super) fn of(measured: Result<Self>) -> Self {
        measured.unwrap_or_else(|error| Self { complaints: vec![format!("{error:#}")], ..Self::default() })
    }

    pub(super) fn is_valid(&self) -> bool {
        self.complaints.is_empty()
    }
}

/// A row of the table. It omits contestants without a valid round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) unit: Unit,
    /// Median over rounds, in the unit.
    pub(super) medians: BTreeMap<Contestant, f64>,
    /// Median of the balancer's value divided by each other contestant's, over rounds in which both
    /// count and the divisor is above 0.
    pub(super) ratios: BTreeMap<Contestant, f64>,
}

type Rounds = BTreeMap<u32, f64>;

impl Figure {
    pub(super) fn new(what: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { what: what.into(), unit, value }
    }
}

/// Returns a row per name of the valid runs' figures, in the order of the first measurements.
pub(super) fn rows(runs: &[Run]) -> Vec<Row> {
    let mut series: Vec<(&Figure, BTreeMap<Contestant, Rounds>)> = Vec::new();
    for run in runs.iter().filter(|run| run.found.is_valid()) {
        for figure in &run.found.figures {
            let known = series.iter().position(|(known, _)| known.what == figure.what);
            let at = known.unwrap_or(series.len());
            if known.is_none() {
                series.push((figure, BTreeMap::new()));
            }
            series[at].1.entry(run.contestant).or_default().insert(run.round, figure.value);
        }
    }
    series.into_iter().map(|(figure, rounds)| Row::new(figure, &rounds)).collect()
}

impl Row {
    fn new(figure: &Figure, rounds: &BTreeMap<Contestant, Rounds>) -> Self {
        let median_of = |(contestant, rounds): (&Contestant, &Rounds)| {
            Some((*contestant, median(rounds.values().copied().collect())?))
        };
        let balancer = rounds.get(&Contestant::Balancer);
        let ratio_to = |(other, rounds): (&Contestant, &Rounds)| {
            let ratios = balancer?
                .iter()
                .filter_map(|(round, value)| Some(value / rounds.get(round).filter(|value| **value > 0.0)?));
            Some((*other, median(ratios.collect())?))
        };
        let others = rounds.iter().filter(|(contestant, _)| **contestant != Contestant::Balancer);
        Self {
            what: figure.what.clone(),
            unit: figure.unit,
            medians: rounds.iter().filter_map(median_of).collect(),
            ratios: others.filter_map(ratio_to).collect(),
        }
    }
}

/// Returns the middle value, or the mean of the two in the middle. Returns `None` without values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let is_even = values.len().is_multiple_of(2);
    Some(if is_even { values[middle - 1].midpoint(upper) } else { upper })
}

/// Returns the Markdown table; `-` for a contestant without a valid round.
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
    use Contestant::{Balancer, Nginx, Peer};

    use super::*;

    /// Returns runs from contestants, rounds, values, and whether they count.
    fn runs(of: &[(Contestant, u32, f64, bool)]) -> Vec<Run> {
        let run = |(contestant, round, value, counts): &(Contestant, u32, f64, bool)| {
            let figures = vec![Figure::new("CPU", Unit::Microseconds, *value)];
            let complaints = if *counts { Vec::new() } else { vec!["1 messages lost".to_owned()] };
            let found = Found { figures, complaints, ..Found::default() };
            Run { contestant: *contestant, round: *round, what: "load".to_owned(), is_load: true, found }
        };
        of.iter().map(run).collect()
    }

    #[test]
    fn ratios_compare_rounds_in_which_both_count() {
        let lost =
            [(Balancer, 0, 4.0, true), (Nginx, 0, 8.0, true), (Balancer, 1, 400.0, false), (Nginx, 1, 8.0, true)];
        let slower = [(Balancer, 0, 1.0, true), (Nginx, 0, 2.0, true), (Balancer, 1, 4.0, true), (Nginx, 1, 8.0, true)];
        let never_both = [(Balancer, 0, 3.0, true), (Nginx, 1, 1.0, true)];
        let zero = [(Balancer, 0, 3.0, true), (Nginx, 0, 0.0, true)];
        for (of, ratio) in [(&lost[..], Some(0.5)), (&slower, Some(0.5)), (&never_both, None), (&zero, None)] {
            assert_eq!(rows(&runs(of))[0].ratios.get(&Nginx).copied(), ratio, "{of:?}");
        }
        assert_eq!(rows(&runs(&[(Nginx, 0, 8.0, true), (Nginx, 1, 4.0, false)]))[0].medians[&Nginx], 8.0);
    }

    #[test]
    fn median_is_the_middle_or_between_the_two_middle_ones() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }

    fn row(unit: Unit, medians: &[(Contestant, f64)], ratios: &[(Contestant, f64)]) -> Row {
        let (medians, ratios) = (medians.iter().copied().collect(), ratios.iter().copied().collect());
        Row { what: "CPU".to_owned(), unit, medians, ratios }
    }

    #[test]
    fn row_has_all_contestants_and_the_balancer_by_each_other() {
        let medians = [(Balancer, 7.25), (Nginx, 12.5), (Peer, 104.6)];
        let row = row(Unit::Microseconds, &medians, &[(Nginx, 0.58), (Peer, 1.451)]);

        assert_eq!(
            table(&[Balancer, Nginx, Peer], &[row]),
            "|     | balancer | nginx   | peer   | balancer by nginx | balancer by peer |\n\
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
