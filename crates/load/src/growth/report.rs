use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::figure::{Figure, Figures};
use super::options::Options;
use super::point::{Curve, Point};
use super::probe::Found;
use crate::compare::{markdown, median, short};
use crate::html::{Chart, Line, Page};

/// One measurement of a point.
pub(super) struct Run {
    pub(super) point: Point,
    pub(super) round: u32,
    pub(super) found: Found,
}

/// What was found, point by point.
#[derive(Serialize)]
pub(super) struct Report {
    scenario: &'static str,
    rounds: u32,
    seconds: u64,
    points: Vec<Row>,
    /// Of measurements that do not count.
    complaints: Vec<String>,
}

/// A point, with the medians of the rounds that count.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    point: Point,
    rounds_that_count: usize,
    medians: Figures,
}

impl Report {
    pub(super) fn new(options: &Options, points: &[Point], runs: Vec<Run>) -> Self {
        let mut complaints = Vec::new();
        let mut values_by_point: BTreeMap<Point, Vec<Figures>> = BTreeMap::new();
        for Run { point, round, found } in runs {
            if found.complaints.is_empty() {
                values_by_point.entry(point).or_default().push(found.figures);
            } else {
                complaints.push(format!("{point}, round {}: {}", round + 1, found.complaints.join("; ")));
            }
        }
        let row = |point: &Point| {
            let counted = values_by_point.get(point).map(Vec::as_slice).unwrap_or_default();
            let medians = point.curve.columns().into_iter().filter_map(|(figure, _)| {
                let values = counted.iter().filter_map(|figures| figures.get(&figure).copied());
                Some((figure, median(values.collect())?))
            });
            Row { point: *point, rounds_that_count: counted.len(), medians: medians.collect() }
        };
        Self {
            scenario: "growth",
            rounds: options.rounds,
            seconds: options.seconds,
            points: points.iter().map(row).collect(),
            complaints,
        }
    }

    /// Points that nothing is known of.
    pub(super) fn failures(&self) -> Vec<String> {
        let unknown = self.points.iter().filter(|row| row.rounds_that_count == 0);
        let failures = unknown.map(|row| format!("{}: no round counts", row.point));
        failures.chain(self.complaints.iter().cloned()).collect()
    }

    /// A Markdown table for each curve.
    pub(super) fn table(&self) -> String {
        let tables: Vec<String> = self.curves().map(|curve| self.table_of(curve)).collect();
        tables.join("\n")
    }

    pub(super) fn page(&self) -> Page {
        let charts = self.curves().flat_map(|curve| self.charts_of(curve)).collect();
        Page { title: "mesh-load growth".to_owned(), charts, ..Page::default() }
    }

    fn curves(&self) -> impl Iterator<Item = Curve> + '_ {
        let mut curves: Vec<Curve> = self.points.iter().map(|row| row.point.curve).collect();
        curves.dedup();
        curves.into_iter()
    }

    fn rows(&self, curve: Curve) -> impl Iterator<Item = &Row> {
        self.points.iter().filter(move |row| row.point.curve == curve)
    }

    fn table_of(&self, curve: Curve) -> String {
        let columns = curve.columns();
        let head = [curve.unit().to_owned()].into_iter().chain(columns.iter().map(|(_, head)| (*head).to_owned()));
        let mut lines: Vec<Vec<String>> = vec![head.collect()];
        for row in self.rows(curve) {
            let cell = |figure: &Figure| row.medians.get(figure).map_or_else(|| "-".to_owned(), |value| short(*value));
            let cells = columns.iter().map(|(figure, _)| cell(figure));
            lines.push([row.point.amount.to_string()].into_iter().chain(cells).collect());
        }
        let mut text = String::new();
        if let Some(Row { point: Point { nodes, clients, rate, size, .. }, .. }) = self.rows(curve).next() {
            let mut fixed = vec![format!("{rate} messages a second")];
            fixed.extend((curve != Curve::Sizes).then(|| format!("{size} bytes")));
            fixed.extend((curve != Curve::Nodes).then(|| format!("{nodes} nodes")));
            fixed.extend(matches!(curve, Curve::Nodes | Curve::Sizes).then(|| format!("{clients} clients")));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "By {}: {}; medians of {} rounds\n", curve.unit(), fixed.join(", "), self.rounds);
        }
        text + &markdown(&lines)
    }

    fn charts_of(&self, curve: Curve) -> Vec<Chart> {
        let line = |figure: &Figure| Line {
            name: figure.name().to_owned(),
            points: self.rows(curve).map(|row| (row.at(), row.medians.get(figure).copied())).collect(),
        };
        let plots = curve.plots().iter().map(|plot| {
            let lines = plot.lines.iter().map(line).collect();
            let chart = Chart::new(&format!("{} by {}", plot.title, curve.unit()), plot.unit, lines);
            match curve {
                Curve::Clients | Curve::Sizes => chart.over_powers_of(curve.unit()),
                Curve::Nodes => chart.over(curve.unit()),
                Curve::Handoffs => chart.over("moved"),
            }
        });
        plots.collect()
    }
}

impl Row {
    /// Where it stands on its curve.
    fn at(&self) -> f64 {
        self.medians.get(&Figure::JoinMoved).copied().unwrap_or(self.point.amount.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing;

    fn options() -> Options {
        testing::options(&["--only=clients,handoffs", "--clients=100,1000", "--sessions=300"]).unwrap()
    }

    fn run(point: Point, round: u32, figures: &[(Figure, f64)], complaint: Option<&str>) -> Run {
        let complaints = complaint.map(str::to_owned).into_iter().collect();
        Run { point, round, found: Found { figures: figures.iter().copied().collect(), complaints } }
    }

    fn report() -> Report {
        let points = options().points();
        let cpu = |value| [(Figure::BalancersUs, value)];
        let moved = [(Figure::JoinMoved, 101.0), (Figure::JoinMs, 700.0)];
        let runs = vec![
            run(points[0], 0, &cpu(30.0), None),
            run(points[0], 1, &cpu(900.0), Some("2 messages lost")),
            run(points[0], 2, &cpu(32.0), None),
            run(points[1], 0, &cpu(1.0), Some("no node")),
            run(points[2], 0, &moved, None),
        ];
        Report::new(&options(), &points, runs)
    }

    #[test]
    fn a_point_is_the_median_of_the_rounds_that_count() {
        let report = report();

        assert_eq!(report.points[0].medians[&Figure::BalancersUs], 31.0);
        assert!(report.table().contains("| 100     | 31.0 "), "{}", report.table());
    }

    #[test]
    fn a_point_without_a_round_that_counts_is_a_failure_with_what_was_wrong() {
        let failures = report().failures();

        let expected = [
            "1000 clients: no round counts",
            "100 clients, round 2: 2 messages lost",
            "1000 clients, round 1: no node",
        ];
        assert_eq!(failures, expected);
    }

    #[test]
    fn handoffs_stand_over_the_sessions_that_moved_and_clients_over_powers_of_ten() {
        let html = report().page().render();

        assert!(html.contains("<title>101 moved\na node joins: 700 ms"), "{html}");
        assert!(html.contains(">1000</text>") && html.contains("<title>100 clients\nbalancers: 31 µs"), "{html}");
    }
}
