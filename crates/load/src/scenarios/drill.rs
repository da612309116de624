//! The steady load while a script acts on the mesh or on the clients' sockets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use signaling_devmesh::{Binaries, Control, serve_control};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::steady::describe;
use crate::clock::Clock;
use crate::drill::{Action, Course, Done, Effect, Evidence, Step, perform, put};
use crate::exchange::TrafficOptions;
use crate::fleet::{Fleet, FleetOptions};
use crate::own_mesh;
use crate::report::Report;
use crate::watch::Watch;

/// After the last act, so that its effects show, in seconds.
const AFTER: f64 = 3.0;
/// Each arrival is kept in memory until the end.
const MAX_SECONDS: u64 = 600;
/// Nodes and balancers of a mesh of its own.
const OWN_MESH: (u32, u32) = (3, 2);
const CONTROL_INTERVAL: Duration = Duration::from_millis(20);

/// Options of `mesh-load drill`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect; without --dir and --url, to a mesh of its own of 3 nodes and 2 balancers.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What they send.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// JSON file with the acts: [{"at": SECONDS, "action": "kill node-1"}, ...]. Seconds count from the begin of the
    /// measured time. Actions: scale NODES; kill, pause, resume, drain, replace or restart SERVER; cut PERCENT% (ends
    /// connections of clients).
    #[arg(long, value_name = "FILE", required_unless_present = "act")]
    pub script: Option<PathBuf>,
    /// One more act, as '5 kill node-1'; may be repeated.
    #[arg(long, value_name = "SECONDS ACTION")]
    pub act: Vec<Step>,
    /// Fail when the effects of an act last longer than this, in milliseconds.
    #[arg(long)]
    pub max_settle_ms: Option<u64>,
    /// Directory of signaling-node and signaling-balancer for the mesh of its own [default: the one of this program].
    #[arg(long, value_name = "DIR")]
    pub bin_dir: Option<PathBuf>,
}

/// What one act brought about, until the next one. Times in microseconds are from its begin.
#[derive(Serialize)]
struct ActReport {
    act: String,
    at_seconds: f64,
    took_us: u64,
    /// Sessions that moved.
    moved: u64,
    #[serde(flatten)]
    effect: Effect,
    /// Until all was over; absent when it is not.
    settled_us: Option<u64>,
}

/// A moment that the plots mark, in seconds from the begin of the run.
#[derive(Serialize)]
struct Mark {
    at: f64,
    text: String,
}

/// A mesh of the drill's own, which ends with this value.
struct OwnMesh {
    dir: TempDir,
    serving: JoinHandle<Result<()>>,
}

/// Runs the scenario.
///
/// # Errors
/// When the script or the options do not fit together, or the clients cannot connect.
pub async fn run(options: &Options) -> Result<Report> {
    let steps = options.steps()?;
    let mut fleet = FleetOptions { come_back: true, ..options.fleet.clone() };
    let own = if fleet.dir.is_none() && fleet.urls.is_empty() { Some(OwnMesh::start(options).await?) } else { None };
    if let Some(own) = &own {
        fleet.dir = Some(own.dir.path().to_owned());
    }
    let control = match &fleet.dir {
        Some(dir) => Some(Control::connect(dir).await?),
        None => None,
    };
    let watch = Watch::new(&fleet);
    let (load_lasts, over) = tokio::sync::oneshot::channel();
    let seconds = Duration::from_secs(options.traffic.run.seconds);
    let mut done = Vec::new();
    let act = async |clock: Clock, begin_us: u64, clients: &Fleet| {
        done = perform(&steps, control.as_ref(), clients, clock, begin_us).await;
        clock.until_us(begin_us + u64::try_from(seconds.as_micros()).unwrap_or(u64::MAX)).await;
    };
    let load = async {
        let evidence = put(&fleet, &options.traffic, 1.0, act).await;
        drop(load_lasts);
        evidence
    };
    let (evidence, usages) = tokio::join!(load, watch.run(over));
    let mut report = report(options, &steps, &done, &evidence?.0);
    report.set("usage", usages.lines());
    if let Some(mut own) = own {
        own.end().await;
    }
    Ok(report)
}

impl Options {
    /// The acts of file and flags in the order of their times.
    fn steps(&self) -> Result<Vec<Step>> {
        let mut steps = self.act.clone();
        if let Some(path) = &self.script {
            let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let script: Vec<Step> = serde_json::from_slice(&text).with_context(|| {
                format!("{} is not a list of {{\"at\": 5, \"action\": \"kill node-1\"}}", path.display())
            })?;
            steps.extend(script);
        }
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
        ensure!(!steps.is_empty(), "the script has no act");
        Ok(steps)
    }
}

impl OwnMesh {
    async fn start(options: &Options) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("mesh-drill-").tempdir().context("cannot make a folder")?;
        let binaries = Binaries::locate(options.bin_dir.as_deref())?;
        let mesh = Arc::new(own_mesh::start(dir.path(), &binaries, OWN_MESH, &[]).await?);
        let serving = tokio::spawn(serve_control(mesh));
        while !signaling_devmesh::control_socket(dir.path()).exists() {
            ensure!(!serving.is_finished(), "the mesh does not listen to what it is told");
            sleep(CONTROL_INTERVAL).await;
        }
        Ok(Self { dir, serving })
    }

    /// Ends the servers before their folder goes.
    async fn end(&mut self) {
        self.serving.abort();
        // It was aborted, so there is nothing to read from it.
        let _ = (&mut self.serving).await;
    }
}

impl Drop for OwnMesh {
    fn drop(&mut self) {
        self.serving.abort();
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
    let run_us = measured_us.start - options.traffic.run.warmup * 1_000_000;
    let mark = |act: &Done| Mark { at: act.began_us.saturating_sub(run_us) as f64 / 1e6, text: act.action.to_string() };
    report.set("marks", done.iter().map(mark).collect::<Vec<_>>());

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
    fn acts_of_file_and_flags_are_done_in_the_order_of_their_times() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script.json");
        std::fs::write(&file, r#"[{"at": 4, "action": "kill node-1"}, {"at": 9.5, "action": "restart node-1"}]"#)
            .unwrap();

        let script = format!("--script={}", file.display());

        let expected = ["2 cut 50%", "4 kill node-1", "9.5 restart node-1"];
        assert_eq!(steps(&[&script, "--act=2 cut 50%"]).unwrap(), expected);
    }

    #[test]
    fn scripts_that_do_not_fit_are_refused() {
        assert!(steps(&["--seconds=5", "--act=3 scale 4"]).unwrap_err().to_string().contains("from 1 to 2"));
        assert!(steps(&["--seconds=5000", "--act=3 scale 4"]).unwrap_err().to_string().contains("600 at most"));
        assert!(steps(&[]).is_err());
    }
}
