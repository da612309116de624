//! The steady load while a script acts on the mesh or on the clients' sockets.

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use signaling_devmesh::Control;

use super::steady::describe;
use crate::clock::Clock;
use crate::drill::{Action, Course, Done, Effect, Evidence, Step, perform, put};
use crate::exchange::TrafficOptions;
use crate::fleet::{Fleet, FleetOptions};
use crate::report::Report;

/// After the last act, so that its effects show, in seconds.
const AFTER: f64 = 3.0;
/// Each arrival is kept in memory until the end.
const MAX_SECONDS: u64 = 600;

/// Options of `mesh-load drill`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Clients and servers.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// Messages.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// Act of the script, as '5 kill node-1'; may be repeated. Seconds count from the begin of the
    /// measured time. Actions: scale NODES; kill, pause, resume, drain, replace or restart SERVER;
    /// cut PERCENT% (ends connections of clients).
    #[arg(long, value_name = "SECONDS ACTION", required = true)]
    pub act: Vec<Step>,
    /// Fail when the effects of an act last longer than this, in milliseconds.
    #[arg(long)]
    pub max_settle_ms: Option<u64>,
}

/// What one act brought about, until the next one. Times in microseconds are from its begin.
#[derive(Serialize)]
struct ActReport {
    act: String,
    at_seconds: f64,
    took_us: u64,
    moved: u64,
    #[serde(flatten)]
    effect: Effect,
    /// Until all was over; absent when it is not.
    settled_us: Option<u64>,
}

/// Runs the scenario.
///
/// # Errors
/// When the script or the options do not fit together, or the clients cannot connect.
pub async fn run(options: &Options) -> Result<Report> {
    let steps = options.steps()?;
    let fleet = FleetOptions { come_back: true, ..options.fleet.clone() };
    let control = match &fleet.dir {
        Some(dir) => Some(Control::connect(dir).await?),
        None => None,
    };
    let end_us = options.traffic.run.seconds * 1_000_000;
    let mut done = Vec::new();
    let act = async |clock: Clock, begin_us: u64, clients: &Fleet| {
        done = perform(&steps, control.as_ref(), clients, clock, begin_us).await;
        clock.until_us(begin_us + end_us).await;
    };
    let (evidence, _) = put(&fleet, &options.traffic, 1.0, act).await?;
    Ok(report(options, &steps, &done, &evidence))
}

impl Options {
    fn steps(&self) -> Result<Vec<Step>> {
        let mut steps = self.act.clone();
        steps.sort_by(|one, other| one.at.total_cmp(&other.at));
        let seconds = self.traffic.run.seconds;
        ensure!(seconds <= MAX_SECONDS, "--seconds {seconds}: a drill takes {MAX_SECONDS} at most");
        for Step { at, action } in &steps {
            let latest = seconds as f64 - AFTER;
            ensure!(
                (1.0..=latest).contains(at),
                "`{at} {action}`: use a time from 1 to {latest} with --seconds {seconds}"
            );
        }
        Ok(steps)
    }
}

fn report(options: &Options, steps: &[Step], done: &[Done], evidence: &Evidence) -> Report {
    let Evidence { measured_us, samples, recording, record, .. } = evidence;
    let last_us = samples.last().map_or(measured_us.end, |sample| sample.at_us + 1).max(measured_us.end);
    let first_us = done.first().map_or(last_us, |act| act.began_us);
    let course = Course::new(samples, recording, u64::from(options.fleet.clients), &(measured_us.start..first_us));
    let ends = done.iter().skip(1).map(|act| act.began_us).chain([last_us]);
    let found =
        |(act, end_us): (&Done, u64)| ActReport::new(act, course.effect(act.began_us..end_us), measured_us.start);
    let acts: Vec<ActReport> = done.iter().zip(ends).map(found).collect();

    let mut report = Report::new("drill");
    describe(&mut report, &options.fleet, &options.traffic, record);
    report.set("acts", &acts);
    record.judge(&mut report, steps.iter().any(|step| step.action.ends_sockets()));
    for (act, found) in done.iter().zip(&acts) {
        judge(&mut report, act, found, options.max_settle_ms);
    }
    if !samples.is_empty() && !steps.iter().any(|step| step.action.ends_sockets()) {
        let moved: u64 = acts.iter().map(|act| act.moved).sum();
        report.fail_if(u64::from(moved == 0), "script that moved no session");
    }
    let is_complete = acts.last().is_some_and(|act| act.effect.complete_us.is_some());
    if !samples.is_empty() && !is_complete {
        report.fail("at the end not every session was at exactly one node".to_owned());
    }
    report.fail_if(steps.len().saturating_sub(done.len()) as u64, "acts were not done before the sending ended");
    report
}

fn judge(report: &mut Report, act: &Done, found: &ActReport, max_settle_ms: Option<u64>) {
    let Done { action, problem, .. } = act;
    if let Some(problem) = problem {
        report.fail(format!("{action}: {problem}"));
    }
    match (found.settled_us, max_settle_ms) {
        (None, Some(_)) => report.fail(format!("{action}: its effects lasted until the next act, or the end")),
        (Some(us), Some(limit)) if us > limit * 1_000 => {
            let ms = us / 1_000;
            report.fail(format!("{action}: its effects lasted {ms} ms, above {limit} ms"));
        }
        _ => {}
    }
    if matches!(action, Action::Cut(_)) && found.effect.sockets_lost == 0 {
        report.fail(format!("{action}: no client has lost its socket"));
    }
}

impl ActReport {
    fn new(act: &Done, effect: Effect, measured_from_us: u64) -> Self {
        Self {
            act: act.action.to_string(),
            at_seconds: act.began_us.saturating_sub(measured_from_us) as f64 / 1e6,
            took_us: act.ended_us - act.began_us,
            moved: effect.counts.moved(),
            effect,
            settled_us: effect.settled_us(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing;

    fn steps(arguments: &[&str]) -> Result<Vec<String>> {
        let options: Options = testing::options(arguments)?;
        Ok(options.steps()?.iter().map(|step| format!("{} {}", step.at, step.action)).collect())
    }

    #[test]
    fn acts_are_sorted_by_their_times() {
        let acts = ["--act=9.5 restart node-1", "--act=2 cut 50%"];

        assert_eq!(steps(&acts).unwrap(), ["2 cut 50%", "9.5 restart node-1"]);
    }

    #[test]
    fn scripts_that_do_not_fit_are_refused() {
        assert!(steps(&["--seconds=5", "--act=3 scale 4"]).unwrap_err().to_string().contains("from 1 to 2"));
        assert!(steps(&["--seconds=5000", "--act=3 scale 4"]).unwrap_err().to_string().contains("600 at most"));
        assert!(steps(&[]).is_err());
    }
}
