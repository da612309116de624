use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use super::HerdOptions;
use super::cut::{Beside, Cut};
use super::log::{HerdPart, Journey};
use crate::latency::{Latencies, Percentiles};
use crate::metrics::Spread;
use crate::report_page::Mark;
use crate::timeline::Row;
use crate::watch::UsageLine;

/// How the herd came back.
#[derive(Serialize)]
pub(crate) struct Report {
    scenario: &'static str,
    processes: u32,
    clients: u32,
    seed: u64,
    connect_us: Percentiles,
    /// The balancers that were taken away; none where the clients dropped their sockets themselves.
    balancers: Vec<String>,
    away_ms: f64,
    /// Sockets that ended: of a client that was lost again, each of them.
    sockets_lost: usize,
    /// Clients that lost a socket.
    lost: usize,
    back: usize,
    /// Of those, clients that in the end were told that their session went on.
    resumed: usize,
    never_back: usize,
    refused_for_good: usize,
    /// From the return of the balancers until a client was back.
    return_us: Percentiles,
    tries: Tries,
    refusals: BTreeMap<String, u64>,
    /// The nodes' sessions once all were back.
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Spread>,
    /// The fullest node's, as a multiple of the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    unevenness: Option<f64>,
    /// Tries begun, clients back, tries failed.
    timeline: Vec<Row>,
    usage: Vec<UsageLine>,
    marks: Vec<Mark>,
}

#[derive(Serialize)]
struct Tries {
    mean: f64,
    most: u32,
    most_a_second: u64,
}

impl Report {
    pub(crate) fn new(
        options: &HerdOptions,
        processes: u32,
        clients: u32,
        part: &HerdPart,
        beside: Beside,
    ) -> Result<Self> {
        let cut = beside.cut?;
        let latest = part.latest_by_client();
        let count = |is: fn(&Journey) -> bool| latest.values().filter(|journey| is(journey)).count();
        let mut returns = Latencies::new()?;
        for back_us in latest.values().filter_map(|journey| journey.back_us) {
            returns.record_us(back_us.saturating_sub(cut.returned_us));
        }
        let mut tries_by_client: BTreeMap<u64, u32> = BTreeMap::new();
        for journey in &part.journeys {
            *tries_by_client.entry(journey.client).or_default() += journey.tries;
        }
        let tries: u64 = tries_by_client.values().map(|tries| u64::from(*tries)).sum();
        let timeline = part.timeline.rows();
        let spread = Some(beside.spread).filter(|spread| spread.total() > 0);
        Ok(Self {
            scenario: "herd",
            processes,
            clients,
            seed: options.seed,
            connect_us: part.connect.percentiles(),
            away_ms: cut.returned_us.saturating_sub(cut.cut_us) as f64 / 1e3,
            sockets_lost: part.journeys.len(),
            lost: latest.len(),
            back: count(|journey| journey.back_us.is_some()),
            resumed: count(|journey| journey.is_resumed),
            never_back: count(|journey| journey.back_us.is_none()),
            refused_for_good: count(|journey| journey.is_refused_for_good),
            return_us: returns.percentiles(),
            tries: Tries {
                mean: tries as f64 / latest.len().max(1) as f64,
                most: tries_by_client.values().copied().max().unwrap_or(0),
                most_a_second: timeline.iter().map(|row| row.begun / row.seconds).max().unwrap_or(0),
            },
            refusals: part.refusals.clone(),
            unevenness: spread.as_ref().and_then(Spread::unevenness),
            spread,
            timeline,
            usage: beside.usages.lines(),
            marks: marks(&cut),
            balancers: cut.balancers,
        })
    }

    /// What speaks against the servers.
    pub(crate) fn failures(&self, options: &HerdOptions) -> Vec<String> {
        let mut failures = Vec::new();
        if self.lost < self.clients as usize {
            failures.push(format!("only {} of {} clients lost their sockets", self.lost, self.clients));
        }
        if self.never_back > 0 {
            let (never, for_good) = (self.never_back, self.refused_for_good);
            failures.push(format!("{never} clients never came back, {for_good} of them refused for good"));
        }
        let last_ms = self.return_us.max as f64 / 1e3;
        if let Some(limit) = options.max_return_ms.filter(|limit| last_ms > *limit as f64) {
            failures.push(format!("the last client was back after {last_ms:.0} ms, above {limit} ms"));
        }
        if let (Some(factor), Some(limit)) = (self.unevenness, options.max_unevenness)
            && factor > limit
        {
            failures.push(format!("the fullest node has {factor:.2} times the mean, above {limit}"));
        }
        failures
    }

    pub(crate) fn table(&self) -> String {
        let Tries { mean, most, most_a_second } = &self.tries;
        let how = match self.balancers.as_slice() {
            [] => "the clients dropped their sockets".to_owned(),
            balancers => format!("{} killed, started again {:.1} s later", balancers.join(", "), self.away_ms / 1e3),
        };
        let mut text = format!(
            "clients     {} connected, each {}\n\
             cut         {how}: {} sockets of {} clients lost\n\
             back        {} clients, {} with their session; {} never, {} refused for good\n\
             after       {} (from the return)\n\
             tries       {mean:.2} a client, {most} at most, up to {most_a_second} a second\n",
            self.clients,
            self.connect_us.line(),
            self.sockets_lost,
            self.lost,
            self.back,
            self.resumed,
            self.never_back,
            self.refused_for_good,
            self.return_us.line(),
        );
        // Writing to a String cannot fail.
        for (reason, count) in &self.refusals {
            let _ = writeln!(text, "no          {count} times {reason}");
        }
        if let (Some(spread), Some(factor)) = (&self.spread, self.unevenness) {
            let each: Vec<String> =
                spread.clients_by_server.iter().map(|(id, count)| format!("{id} {count}")).collect();
            let _ = writeln!(text, "spread      {}: the fullest has {factor:.3} times the mean", each.join(", "));
        }
        let _ = writeln!(text, "\n{:>6}{:>9}{:>9}{:>9}", "second", "tries", "back", "failed");
        for row in self.timeline.iter().filter(|row| row.begun + row.done + row.failed > 0) {
            let _ = writeln!(text, "{:>6}{:>9}{:>9}{:>9}", row.second, row.begun, row.done, row.failed);
        }
        text
    }
}

fn marks(cut: &Cut) -> Vec<Mark> {
    let mark = |at_us: u64, text: &str| Mark { at: at_us as f64 / 1e6, text: text.to_owned() };
    let mut marks = vec![mark(cut.cut_us, "all are cut off")];
    if !cut.balancers.is_empty() {
        marks.push(mark(cut.returned_us, "the balancers start again"));
    }
    marks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::watch::Usages;

    const OPTIONS: HerdOptions = HerdOptions {
        away_ms: 3_000,
        by_clients: false,
        before: 2,
        patience: 60,
        seed: 1,
        max_return_ms: Some(1_000),
        max_unevenness: Some(1.5),
    };

    /// Two clients are lost; one is back 1.5 s after the return, the other one is told not to come.
    fn report(clients: u32) -> Report {
        let mut part = HerdPart::new(10).unwrap();
        let (one, other) = (part.lost(0, 2_000_000), part.lost(1, 2_000_000));
        part.tries(one, 6_000_000);
        part.back(one, 6_500_000, Duration::from_millis(500), true);
        part.tries(other, 6_000_000);
        part.refused(other, 6_000_000, "refused with 409", true);
        let cut = Cut { cut_us: 2_000_000, returned_us: 5_000_000, balancers: vec!["balancer-0".to_owned()] };
        let clients_by_server = [("node-0".to_owned(), 3), ("node-1".to_owned(), 1)].into();
        let beside = Beside { cut: Ok(cut), usages: Usages::default(), spread: Spread { clients_by_server } };
        Report::new(&OPTIONS, 1, clients, &part, beside).unwrap()
    }

    #[test]
    fn the_time_to_come_back_counts_from_the_return_of_the_balancers() {
        let report = report(2);

        assert_eq!((report.away_ms, report.return_us.count), (3_000.0, 1));
        assert!(report.return_us.max.abs_diff(1_500_000) < 2_000);
        assert_eq!((report.back, report.resumed, report.never_back, report.refused_for_good), (1, 1, 1, 1));
    }

    #[test]
    fn who_stays_away_who_is_late_and_a_node_that_is_too_full_are_failures() {
        let failures = report(2).failures(&HerdOptions { max_unevenness: Some(1.4), ..OPTIONS });

        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].contains("1 clients never came back, 1 of them refused for good"), "{failures:?}");
        assert!(failures[1].contains("above 1000 ms"), "{failures:?}");
        assert!(failures[2].contains("1.50 times the mean"), "{failures:?}");
    }

    #[test]
    fn a_cut_that_not_all_have_felt_is_a_failure() {
        assert!(report(3).failures(&OPTIONS)[0].contains("only 2 of 3"));
    }

    #[test]
    fn report_marks_cut_and_return() {
        let texts: Vec<_> = report(2).marks.into_iter().map(|mark| mark.text).collect();

        assert_eq!(texts, ["all are cut off", "the balancers start again"]);
    }
}
