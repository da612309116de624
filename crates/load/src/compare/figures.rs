//! Named figures of all contestants and rounds, their medians, and the balancer's ratios to other
//! contestants.

use std::collections::BTreeMap;

use serde::Serialize;

use super::contestant::Contestant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Microseconds,
    Milliseconds,
    Percent,
    PerSecond,
    Bytes,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    what: String,
    unit: Unit,
    value: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) contestant: Contestant,
    pub(super) round: u32,
    pub(super) what: String,
    pub(super) is_load: bool,
    pub(super) figures: Vec<Figure>,
    /// Message counts of a load.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) messages: BTreeMap<String, u64>,
    /// Reasons for which the run does not count; empty if it does.
    pub(super) complaints: Vec<String>,
}

/// A row of the table. It omits contestants without a valid round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) unit: Unit,
    pub(super) medians: BTreeMap<Contestant, f64>,
    /// Median over rounds of the balancer's value divided by each contestant's.
    pub(super) ratios: BTreeMap<Contestant, f64>,
}

type Rounds = BTreeMap<u32, f64>;

impl Figure {
    pub(super) fn new(what: impl Into<String>, unit: Unit, value: f64) -> Self {
        Self { what: what.into(), unit, value }
    }
}

/// Returns all rows, in the order in which their figures were measured first.
pub(super) fn rows(runs: &[Run]) -> Vec<Row> {
    let mut series: Vec<(&Figure, BTreeMap<Contestant, Rounds>)> = Vec::new();
    for run in runs.iter().filter(|run| run.complaints.is_empty()) {
        for figure in &run.figures {
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

#[cfg(test)]
mod tests {
    use super::*;
    use Contestant::{Balancer, Nginx};

    type Ratios<'a> = &'a [(Contestant, f64)];

    fn run(contestant: Contestant, round: u32, value: f64, complaint: Option<&str>) -> Run {
        Run {
            contestant,
            round,
            what: "load".to_owned(),
            is_load: true,
            figures: vec![Figure::new("CPU", Unit::Microseconds, value)],
            messages: BTreeMap::new(),
            complaints: complaint.map(str::to_owned).into_iter().collect(),
        }
    }

    #[test]
    fn ratios_compare_rounds_in_which_both_count() {
        let complaint = Some("1 messages lost");
        let cases: [(&[Run], Ratios<'_>); 4] = [
            (
                &[
                    run(Balancer, 0, 4.0, None),
                    run(Nginx, 0, 8.0, None),
                    run(Balancer, 1, 400.0, complaint),
                    run(Nginx, 1, 8.0, None),
                ],
                &[(Nginx, 0.5)],
            ),
            // The machine becomes slower.
            (
                &[
                    run(Balancer, 0, 1.0, None),
                    run(Nginx, 0, 2.0, None),
                    run(Balancer, 1, 4.0, None),
                    run(Nginx, 1, 8.0, None),
                ],
                &[(Nginx, 0.5)],
            ),
            (&[run(Balancer, 0, 3.0, None), run(Nginx, 1, 1.0, None)], &[]),
            (&[run(Balancer, 0, 3.0, None), run(Nginx, 0, 0.0, None)], &[]),
        ];
        for (runs, ratios) in cases {
            assert_eq!(rows(runs)[0].ratios, ratios.iter().copied().collect(), "{runs:?}");
        }
        assert_eq!(rows(&[run(Nginx, 0, 8.0, None), run(Nginx, 1, 4.0, complaint)])[0].medians[&Nginx], 8.0);
    }

    #[test]
    fn median_is_the_middle_or_between_the_two_middle_ones() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }
}
