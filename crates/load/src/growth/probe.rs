use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use signaling_devmesh::{Binaries, Control, serve_control};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::figure::{Figure, Figures};
use super::point::{Curve, MOST_SOCKETS, Point};
use crate::costs::Costs;
use crate::latency::Percentiles;
use crate::own_mesh;

/// The share of the rate that has to be delivered while it is measured, for a point to count.
const MIN_DELIVERED: f64 = 0.98;
/// How long idle clients are held before their memory is read.
const HOLD_SECONDS: u64 = 3;
/// How long a node that joins and leaves takes, with what is before and after; longer where many move.
const HANDOFF_SECONDS: u32 = 11;
/// Until the mesh takes orders.
const SERVED_WITHIN: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const CONNECT_RATE: &str = "--connect-rate=2000";

/// What one point is found to be like.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) figures: Figures,
    /// Why it does not count; empty when it does.
    pub(super) complaints: Vec<String>,
}

/// Starts a mesh for the point, and measures it. What cannot be measured is a complaint.
pub(super) async fn probe(binaries: &Binaries, point: &Point, seconds: u64) -> Result<Found> {
    let dir = tempfile::Builder::new().prefix("mesh-growth-").tempdir().context("cannot make a folder")?;
    let mesh = Arc::new(own_mesh::start(dir.path(), binaries, (point.nodes, point.balancers), &[]).await?);
    let mut serving = JoinSet::new();
    serving.spawn(serve_control(Arc::clone(&mesh)));
    let is_served = async {
        while Control::connect(dir.path()).await.is_err() {
            sleep(BETWEEN_LOOKS).await;
        }
    };
    timeout(SERVED_WITHIN, is_served).await.context("the mesh does not listen to us")?;
    let mut found = Found::default();
    let measured = match point.curve {
        Curve::Clients => match found.idle(dir.path(), point).await {
            Ok(()) => found.steady(dir.path(), point, seconds).await,
            Err(error) => Err(error),
        },
        Curve::Nodes | Curve::Sizes => found.steady(dir.path(), point, seconds).await,
        Curve::Handoffs => found.handoffs(dir.path(), point).await,
    };
    found.complaints.extend(measured.err().map(|error| format!("{error:#}")));
    mesh.down().await?;
    Ok(found)
}

#[derive(Deserialize)]
struct Idle {
    costs: Costs,
}

#[derive(Deserialize)]
struct Steady {
    latency_us: Percentiles,
    generator: Generator,
    costs: Costs,
}

#[derive(Deserialize)]
struct Generator {
    delivered_per_second: f64,
    cpu_seconds: f64,
}

#[derive(Deserialize)]
struct Rescale {
    acts: Vec<Act>,
}

#[derive(Deserialize)]
struct Act {
    moved: u64,
    last_move_ms: Option<f64>,
    unmoved_p99_us: Option<u64>,
}

impl Found {
    async fn idle(&mut self, dir: &Path, point: &Point) -> Result<()> {
        let more = [format!("--seconds={HOLD_SECONDS}"), processes(point)];
        let Idle { costs } = self.scenario("idle", dir, point, &more).await?;
        for (group, figure) in [("balancers", Figure::BalancersBytes), ("nodes", Figure::NodesBytes)] {
            let cost = costs.group(group).with_context(|| format!("{group} have ended"))?;
            self.figures.insert(figure, cost.rss_growth_kib as f64 * 1_024.0 / f64::from(point.clients));
        }
        Ok(())
    }

    async fn steady(&mut self, dir: &Path, point: &Point, seconds: u64) -> Result<()> {
        let Point { rate, size, .. } = point;
        let more = [
            format!("--rate={rate}"),
            format!("--size={size}"),
            format!("--seconds={seconds}"),
            "--warmup=2".to_owned(),
            processes(point),
        ];
        let Steady { latency_us, generator, costs } = self.scenario("steady", dir, point, &more).await?;
        let delivered = generator.delivered_per_second / *rate as f64;
        if delivered < MIN_DELIVERED {
            self.complaints.push(format!("only {:.1}% delivered in time", delivered * 100.0));
        }
        let own = generator.cpu_seconds * 1e6 / (generator.delivered_per_second * seconds as f64);
        let groups = [
            ("balancers", Figure::BalancersUs, Figure::BalancersByGenerator),
            ("nodes", Figure::NodesUs, Figure::NodesByGenerator),
        ];
        for (group, absolute, by_generator) in groups {
            let each = costs.group(group).and_then(|cost| cost.cpu_us_per_message);
            let each = each.with_context(|| format!("{group} have ended"))?;
            self.figures.extend([(absolute, each), (by_generator, each / own)]);
        }
        let ms = |us: u64| us as f64 / 1_000.0;
        self.figures.extend([
            (Figure::GeneratorUs, own),
            (Figure::P50Ms, ms(latency_us.p50)),
            (Figure::P99Ms, ms(latency_us.p99)),
        ]);
        Ok(())
    }

    async fn handoffs(&mut self, dir: &Path, point: &Point) -> Result<()> {
        let more = [
            format!("--rate={}", point.rate),
            format!("--to={}", point.nodes + 1),
            format!("--back-to={}", point.nodes),
            "--at=2".to_owned(),
            "--gap=4".to_owned(),
            format!("--seconds={}", HANDOFF_SECONDS + point.clients / 3_000),
        ];
        let Rescale { acts } = self.scenario("rescale", dir, point, &more).await?;
        let [join, leave] = acts.as_slice() else { bail!("{} acts instead of two", acts.len()) };
        let moved = [(Figure::JoinMs, join), (Figure::LeaveMs, leave)];
        self.figures.extend(moved.iter().filter_map(|(figure, act)| Some((*figure, act.last_move_ms?))));
        self.figures.insert(Figure::JoinMoved, join.moved as f64);
        let unmoved = acts.iter().filter_map(|act| act.unmoved_p99_us).max();
        self.figures.extend(unmoved.map(|us| (Figure::UnmovedP99Ms, us as f64 / 1_000.0)));
        Ok(())
    }

    /// Lets a process run a scenario on the mesh; what it says against it is a complaint.
    async fn scenario<R: DeserializeOwned>(
        &mut self,
        name: &str,
        dir: &Path,
        point: &Point,
        more: &[String],
    ) -> Result<R> {
        let program = std::env::current_exe().context("cannot find the own program")?;
        let mut command = Command::new(program);
        command.arg(name).arg("--dir").arg(dir).arg(format!("--clients={}", point.clients));
        command.args([CONNECT_RATE, "--json=-"]).args(more);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let said = command.output().await.with_context(|| format!("cannot run the scenario {name}"))?;
        let errors = String::from_utf8_lossy(&said.stderr);
        let failures = errors.lines().filter_map(|line| line.strip_prefix("FAILED: "));
        self.complaints.extend(failures.map(str::to_owned));
        if said.stdout.is_empty() {
            bail!("{name}: {}", errors.trim());
        }
        serde_json::from_slice(&said.stdout).with_context(|| format!("the report of {name} is not understood"))
    }
}

/// As many load processes as have sockets enough.
fn processes(point: &Point) -> String {
    format!("--processes={}", point.clients.div_ceil(MOST_SOCKETS))
}
