//! A steady load during actions on the mesh or on the clients' sockets.
//! Clients request an ack of each message, come back when their socket ends, and retransmit
//! messages without an ack. The exchange records each arrival. With `--dir` a sampler reads the
//! servers' metrics ten times per second. Pure code computes the effects of actions afterwards.

mod load;
mod sampler;
mod script;
mod timeline;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use signaling_devmesh::Act;

use crate::exchange::TrafficOptions;
use crate::fleet::{Fleet, FleetOptions};
use crate::report::Report;
use crate::schedule::Clock;
use load::run_load;
use script::{Action, Performed, Step, perform};
use timeline::Evidence;

pub use crate::exchange::{AckTotals, Returns, Totals};
pub use crate::record::Record;
pub use load::{Figures, Load, under_load};
pub use timeline::Effect;

/// Minimum time between the last act and the end, in seconds, so that its effects show.
const MIN_TAIL_SECONDS: f64 = 3.0;
/// Maximum measured time, in seconds: each arrival is kept in memory until the end.
const MAX_SECONDS: u64 = 600;

/// Options of `mesh-load drill`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    traffic: TrafficOptions,
    /// Act of the script, as '5 kill node-1'; may be repeated. Seconds count from the start of the
    /// measured time, from 1 to 3 before its end (--seconds, at most 600). Actions: scale
    /// NODES; kill, pause, resume, drain, replace or restart SERVER; cut PERCENT% (ends connections
    /// of clients); cut-lane NODE NODE (resets the connection from the first to the second; `any`
    /// draws one)
    #[arg(long, value_name = "SECONDS ACTION", required = true)]
    act: Vec<Step>,
}

/// Effects of one act until the next one. Times count from its start, in microseconds.
#[derive(Serialize)]
struct ActReport {
    act: String,
    at_seconds: f64,
    took_us: u64,
    moved: u64,
    #[serde(flatten)]
    effect: Effect,
    /// Time until sessions and returned clients were back; `None` if sessions are not.
    settled_us: Option<u64>,
}

/// Runs the scenario. Fails if the script is invalid, the clients cannot connect, or the servers of
/// `--dir` cannot be read. A failed act is a failure in the report.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    let steps = options.steps()?;
    let fleet = FleetOptions { reconnect: true, ..options.fleet.clone() };
    if let Some(dir) = &fleet.dir {
        // Without a control socket each act would fail.
        Act::Status.request(dir).await?;
    }
    let end_us = options.traffic.run.seconds * 1_000_000;
    let mut performed = Vec::new();
    let act = async |clock: Clock, begin_us: u64, clients: &Fleet| {
        performed = perform(&steps, fleet.dir.as_deref(), clients, clock, begin_us).await;
        clock.until_us(begin_us + end_us).await;
    };
    let evidence = run_load(&fleet, &options.traffic, 1, act).await?;
    Ok(report(options, &steps, &performed, &evidence))
}

impl Options {
    fn steps(&self) -> Result<Vec<Step>> {
        let mut steps = self.act.clone();
        steps.sort_by(|one, other| one.at.total_cmp(&other.at));
        let seconds = self.traffic.run.seconds;
        ensure!(seconds <= MAX_SECONDS, "--seconds {seconds}: a drill takes at most {MAX_SECONDS}");
        for Step { at, text, .. } in &steps {
            let latest = seconds as f64 - MIN_TAIL_SECONDS;
            ensure!(
                (1.0..=latest).contains(at),
                "`{at} {text}`: use a time from 1 to {latest} with --seconds {seconds}"
            );
        }
        Ok(steps)
    }
}

fn report(options: &Options, steps: &[Step], performed: &[Performed], evidence: &Evidence) -> Report {
    let Options { fleet, traffic, .. } = options;
    let Evidence { measured_us, samples, record, .. } = evidence;
    let first_us = performed.first().map_or(evidence.end_us(), |act| act.began_us);
    let ends = performed.iter().skip(1).map(|act| act.began_us).chain([evidence.end_us()]);
    let act_report = |(act, end_us): (&Performed, u64)| {
        let effect = evidence.effect(act.began_us..end_us);
        ActReport {
            act: act.step.text.clone(),
            at_seconds: act.began_us.saturating_sub(measured_us.start) as f64 / 1e6,
            took_us: act.ended_us - act.began_us,
            moved: effect.counts.moved(),
            effect,
            settled_us: effect.settled_us(),
        }
    };
    let acts: Vec<ActReport> = performed.iter().zip(ends).map(act_report).collect();

    let mut report = Report::new("drill");
    traffic.run.describe(&mut report, fleet.clients, traffic.rate, record);
    report.set("calm_p99_us", evidence.p99_until_us(first_us));
    report.set("acts", &acts);
    let ends_sockets = steps.iter().any(Step::ends_sockets);
    record.judge(&mut report, ends_sockets);
    for (Performed { step: Step { text, action, .. }, problem, .. }, found) in performed.iter().zip(&acts) {
        if let Some(problem) = problem {
            report.fail(format!("{text}: {problem}"));
        }
        if matches!(action, Action::Cut { .. }) && found.effect.sockets_lost == 0 {
            report.fail(format!("{text}: no client lost its socket"));
        }
    }
    if !samples.is_empty() {
        if !ends_sockets && steps.iter().any(Step::moves_sessions) && acts.iter().all(|act| act.moved == 0) {
            report.fail("the script moved no session".to_owned());
        }
        if acts.last().is_none_or(|act| act.effect.complete_us.is_none()) {
            report.fail("at the end not every session was at exactly one node".to_owned());
        }
    }
    report.fail_if(steps.len().saturating_sub(performed.len()) as u64, "acts were not done before the sending ended");
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn steps(arguments: &[&str]) -> Result<Vec<String>> {
        let options: Options = testing::options(arguments)?;
        Ok(options.steps()?.iter().map(|step| format!("{} {}", step.at, step.text)).collect())
    }

    #[test]
    fn script_is_sorted_by_time_and_must_fit() {
        let acts = ["--act=9.5 restart node-1", "--act=2 cut 50%"];
        assert_eq!(steps(&acts).unwrap(), ["2 cut 50%", "9.5 restart node-1"]);

        assert!(steps(&["--seconds=5", "--act=3 scale 4"]).unwrap_err().to_string().contains("from 1 to 2"));
        assert!(steps(&["--seconds=5000", "--act=3 scale 4"]).unwrap_err().to_string().contains("at most 600"));
        assert!(steps(&[]).is_err());
    }
}
