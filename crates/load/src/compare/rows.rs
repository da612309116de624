use std::collections::BTreeMap;

use serde::Serialize;

use super::contestant::Contestant;
use super::handshakes::{Handshakes, Kind};
use super::options::{Cell, Options};
use super::rounds::Results;
use super::stats::Series;
use super::steady::Figures;

/// A line of the table.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) unit: Unit,
    /// One, or several that belong together.
    pub(super) figures: Vec<Figure>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
    Percent,
    PerSecond,
    Bytes,
    Rounds,
}

/// One figure of all contestants. Who has no round that counts is not there.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) medians: BTreeMap<Contestant, f64>,
    /// The balancer's by each other's.
    pub(super) ratios: BTreeMap<Contestant, f64>,
}

/// All lines, in the order that the table has them.
pub(super) fn rows(options: &Options, results: &Results) -> Vec<Row> {
    let contestants = options.contestants();
    let figure = |series: &Series| Figure::of(series, &contestants);
    let row = |what: String, unit, series: &[Series]| Row { what, unit, figures: series.iter().map(figure).collect() };
    let mut rows = Vec::new();
    for cell in options.cells() {
        let steady = |value: &dyn Fn(&Figures) -> Option<f64>| steady_series(results, cell, value);
        let ms = |us: u64| Some(us as f64 / 1_000.0);
        rows.extend([
            row(
                format!("CPU per message of the front, {cell}"),
                Unit::Microseconds,
                &[steady(&|it| Some(it.front_us))],
            ),
            row(
                format!("CPU per message of front and nodes, {cell}"),
                Unit::Microseconds,
                &[steady(&|it| it.whole_us)],
            ),
            row(
                format!("p50, p99 and p99.9, {cell}"),
                Unit::Milliseconds,
                &[
                    steady(&|it| ms(it.latency_us.p50)),
                    steady(&|it| ms(it.latency_us.p99)),
                    steady(&|it| ms(it.latency_us.p99_9)),
                ],
            ),
            row(format!("the generator's own CPU, {cell}"), Unit::Percent, &[steady(&|it| Some(it.generator_percent))]),
            row(
                format!("time stolen from the machine, {cell}"),
                Unit::Percent,
                &[steady(&|it| Some(it.stolen_percent))],
            ),
            counted(&contestants, cell, &steady(&|it| Some(it.front_us))),
        ]);
    }
    let mut highest = Series::default();
    for run in &results.searches {
        highest.add(run.contestant, run.round, run.found.highest_rate.unwrap_or(0) as f64);
    }
    if !results.searches.is_empty() {
        rows.push(row("highest rate with p99 under 50 ms, ICE".to_owned(), Unit::PerSecond, &[highest]));
    }
    let (mut connects, mut front, mut nodes) = (Series::default(), Series::default(), Series::default());
    for run in &results.connects {
        connects.add(run.contestant, run.round, run.found.per_second);
    }
    for run in &results.memory {
        front.add(run.contestant, run.round, run.found.front_bytes);
        if let Some(bytes) = run.found.nodes_bytes {
            nodes.add(run.contestant, run.round, bytes);
        }
    }
    for kind in Kind::ALL.iter().filter(|_| options.tls) {
        let name = kind.name();
        let series = |value: fn(&Handshakes) -> f64| {
            let mut series = Series::default();
            for run in results.handshakes.iter().filter(|run| run.found.kind == *kind) {
                series.add(run.contestant, run.round, value(&run.found));
            }
            [series]
        };
        rows.push(row(format!("{name} TLS handshakes"), Unit::PerSecond, &series(|it| it.per_second)));
        rows.push(row(
            format!("CPU of the front per {name} TLS handshake"),
            Unit::Microseconds,
            &series(|it| it.front_us),
        ));
        rows.push(row(
            format!("the clients' own CPU per {name} TLS handshake"),
            Unit::Microseconds,
            &series(|it| it.generator_us),
        ));
    }
    let idle = format!("per idle client, {} clients", options.idle_clients);
    rows.push(row(format!("clients connected, {} at once", options.connects), Unit::PerSecond, &[connects]));
    rows.push(row(format!("memory of the front {idle}"), Unit::Bytes, &[front]));
    rows.push(row(format!("memory of the nodes {idle}"), Unit::Bytes, &[nodes]));
    rows
}

impl Figure {
    fn of(series: &Series, contestants: &[Contestant]) -> Self {
        let by_contestant = |value: &dyn Fn(Contestant) -> Option<f64>| {
            contestants.iter().filter_map(|contestant| Some((*contestant, value(*contestant)?))).collect()
        };
        let ratio_to = |other| series.ratio(Contestant::Balancer, other).filter(|_| other != Contestant::Balancer);
        Self { medians: by_contestant(&|it| series.median(it)), ratios: by_contestant(&ratio_to) }
    }
}

fn steady_series(results: &Results, cell: Cell, value: &dyn Fn(&Figures) -> Option<f64>) -> Series {
    let mut series = Series::default();
    for run in results.steady.iter().filter(|run| run.cell == Some(cell)) {
        if let Some(value) = run.found.counted().and_then(value) {
            series.add(run.contestant, run.round, value);
        }
    }
    series
}

/// How many rounds count.
fn counted(contestants: &[Contestant], cell: Cell, series: &Series) -> Row {
    let medians = contestants.iter().map(|contestant| (*contestant, series.rounds(*contestant) as f64)).collect();
    let figures = vec![Figure { medians, ratios: BTreeMap::new() }];
    Row { what: format!("rounds that count, {cell}"), unit: Unit::Rounds, figures }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use Contestant::{Balancer, Nginx};

    use super::super::rounds::{Highest, Run};
    use super::super::steady::Steady;
    use super::*;
    use crate::latency::Percentiles;
    use crate::testing;

    fn options() -> Options {
        testing::options(&["--rates=500", "--sizes=ice", "--only=balancer,nginx"]).unwrap()
    }

    /// A run of which all figures say `value`.
    fn run(contestant: Contestant, round: u32, value: f64, complaint: Option<&str>) -> Run<Steady> {
        let ms = value as u64 * 1_000;
        let figures = Figures {
            messages: BTreeMap::new(),
            delivered_share: 1.0,
            latency_us: Percentiles { count: 1, p50: ms, p90: ms, p99: ms, p99_9: ms, max: ms },
            front_us: value,
            whole_us: (contestant == Balancer).then_some(value),
            generator_percent: value,
            stolen_percent: value,
        };
        let complaints = complaint.map(str::to_owned).into_iter().collect();
        Run {
            contestant,
            round,
            cell: options().cells().first().copied(),
            found: Steady { figures: Some(figures), complaints },
        }
    }

    fn row<'a>(rows: &'a [Row], what: &str) -> &'a Row {
        rows.iter().find(|row| row.what.starts_with(what)).unwrap()
    }

    #[test]
    fn a_run_with_a_complaint_does_not_count() {
        let steady = vec![
            run(Balancer, 0, 4.0, None),
            run(Nginx, 0, 8.0, None),
            run(Balancer, 1, 400.0, Some("1 messages lost")),
            run(Nginx, 1, 8.0, None),
        ];

        let rows = rows(&options(), &Results { steady, ..Results::default() });

        let cpu = &row(&rows, "CPU per message of the front").figures[0];
        assert_eq!(cpu.medians, BTreeMap::from([(Balancer, 4.0), (Nginx, 8.0)]));
        assert_eq!(cpu.ratios, BTreeMap::from([(Nginx, 0.5)]));
        let counted = &row(&rows, "rounds that count").figures[0];
        assert_eq!(counted.medians, BTreeMap::from([(Balancer, 1.0), (Nginx, 2.0)]));
    }

    #[test]
    fn latencies_share_a_row_and_who_has_no_nodes_has_no_figure_of_them() {
        let steady = vec![run(Balancer, 0, 4.0, None), run(Nginx, 0, 8.0, None)];

        let rows = rows(&options(), &Results { steady, ..Results::default() });

        assert_eq!(row(&rows, "p50, p99 and p99.9").figures.len(), 3);
        let whole = &row(&rows, "CPU per message of front and nodes").figures[0];
        assert_eq!((whole.medians.get(&Balancer), whole.medians.get(&Nginx)), (Some(&4.0), None));
    }

    #[test]
    fn who_holds_no_rate_holds_0_and_without_a_search_there_is_no_row() {
        let found = Highest { highest_rate: None, beyond: "100/s: lost".to_owned() };
        let searches = vec![Run { contestant: Nginx, round: 0, cell: None, found }];

        let with = rows(&options(), &Results { searches, ..Results::default() });
        let without = rows(&options(), &Results::default());

        assert_eq!(row(&with, "highest rate").figures[0].medians, BTreeMap::from([(Nginx, 0.0)]));
        assert!(without.iter().all(|row| !row.what.starts_with("highest rate")));
    }
}
