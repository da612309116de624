//! A load during actions, for `drill`, and its results for tests that act by themselves.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::LocalBoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use super::sampler::Sampler;
use super::timeline::{Effect, Evidence};
use crate::exchange::{Exchange, RunOptions, Settings, TrafficOptions};
use crate::fleet::{Fleet, FleetOptions};
use crate::message::Size;
use crate::record::Record;
use crate::schedule::Clock;

const MIN_CALM: Duration = Duration::from_secs(2);
/// Part of the load, from its start, in which the fault begins.
const FAULT_SHARE: f64 = 0.4;
const TAIL: Duration = Duration::from_secs(3);
const MAX_SECONDS: u64 = 180;
/// Maximum wait for late messages at the end, in milliseconds: hold time of 20 s and 5 s.
const SETTLE_MS: u64 = 25_000;
/// Interval of the messages of a client that request an ack if clients do not come back.
const ACK_INTERVAL: u64 = 5;

/// Load of clients that send at a fixed rate during a fault of their mesh.
#[derive(Clone, Debug)]
pub struct Load {
    /// Number of clients, which form pairs: even, at least 2.
    pub clients: u32,
    /// Messages per second of all clients together.
    pub rate: u64,
    /// Minimum duration in seconds, at most 180. The load continues until the fault has been over
    /// for 3 s.
    pub seconds: u64,
    /// Seed for pairs, order of clients and time of the fault.
    pub seed: u64,
    /// `true` if clients resume their session when their socket ends. They request an ack of each
    /// message, and retransmit messages without one. `false`: each fifth message requests an ack.
    pub reconnect: bool,
}

impl Load {
    /// Returns the time of the fault, since the start of the sending. The seed draws it between 2 s
    /// and 40% of `seconds`; it is 2 s if those are less.
    pub fn fault_at(&self) -> Duration {
        let latest = MIN_CALM.max(Duration::from_secs(self.seconds).mul_f64(FAULT_SHARE));
        StdRng::seed_from_u64(self.seed).random_range(MIN_CALM..=latest)
    }
}

/// Puts the load on the mesh that runs in `dir` and runs `fault` at the time that the seed draws.
/// Afterwards it waits at most 25 s for late messages, and then at most 10 s until the metrics show
/// all sessions. Panics outside a Tokio runtime.
///
/// # Errors
/// If the number of clients is odd or 0, or a client cannot connect. If the metrics of the mesh do
/// not show all sessions within 5 s. Also if `fault` is not over for 3 s after 180 s; it is dropped
/// then.
pub async fn under_load(dir: &Path, load: &Load, fault: impl Future<Output = ()>) -> Result<Figures> {
    // Boxed, so that the load is compiled here and not again with each caller.
    let run: LocalBoxFuture<'_, _> = Box::pin(load_and_fault(dir, load, Box::pin(fault)));
    LocalSet::new().run_until(run).await
}

async fn load_and_fault(dir: &Path, load: &Load, fault: LocalBoxFuture<'_, ()>) -> Result<Figures> {
    let Load { clients, rate, seconds, seed, reconnect } = *load;
    let (dir, prefix) = (Some(dir.to_owned()), "drill".to_owned());
    let fleet = FleetOptions { dir, prefix, reconnect, ..FleetOptions::new(clients) };
    let run = RunOptions { seconds: MAX_SECONDS, warmup: 0, seed, settle_ms: SETTLE_MS };
    let traffic = TrafficOptions { rate, size: Size::Varied, run };
    let ack_interval = if reconnect { 1 } else { ACK_INTERVAL };
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (mut fault_us, mut is_over) = (0..0, false);
    let act = async |clock: Clock, begin_us: u64, _: &Fleet| {
        clock.until_us(begin_us + us(load.fault_at())).await;
        fault_us.start = clock.now_us();
        fault.await;
        fault_us.end = clock.now_us();
        let seconds_are_over_us = begin_us + us(Duration::from_secs(seconds));
        clock.until_us(seconds_are_over_us.max(fault_us.end + us(TAIL))).await;
        is_over = true;
    };
    let evidence = run_load(&fleet, &traffic, ack_interval, act).await?;
    ensure!(is_over, "the fault was not over within {MAX_SECONDS} s");
    Ok(Figures {
        load: load.clone(),
        calm_p99: Duration::from_micros(evidence.p99_until_us(fault_us.start).unwrap_or(0)),
        effect: evidence.effect(fault_us.start..evidence.end_us()),
        longest: Duration::from_micros(evidence.record.times.latency.percentiles().max),
        fault: Duration::from_micros(fault_us.end - fault_us.start),
        record: evidence.record,
    })
}

/// Puts a load on a mesh until `act` is over, at most for the time of its options, and settles.
/// `act` gets the clock, the start of the measured time in microseconds on it, and the clients.
/// Each `ack_interval`-th message of a client requests an ack; 0 means none. Fails if `--clients`
/// is odd, one cannot connect, the mesh of `--dir` cannot be read, or the timer breaks.
pub(crate) async fn run_load(
    fleet: &FleetOptions,
    traffic: &TrafficOptions,
    ack_interval: u64,
    act: impl AsyncFnOnce(Clock, u64, &Fleet),
) -> Result<Evidence> {
    fleet.check_pairs(1)?;
    let settings = Settings { ack_interval, is_recorded: true, ..Settings::new(&traffic.run, traffic.rate) };
    let exchange = Exchange::new(fleet, settings, traffic.size)?;
    let (plan, watched) = fleet.plan()?;
    let clients = exchange.connect(plan).await?;
    let (all_settled, stop) = oneshot::channel();
    let sessions = fleet.clients.into();
    let sampling = match &fleet.dir {
        Some(dir) => {
            let sampler = Sampler::begin(dir, exchange.clock, sessions).await?;
            Some(spawn_local(sampler.run(sessions, stop)))
        }
        None => None,
    };

    let begin_us = exchange.clock.now_us() + traffic.run.warmup * 1_000_000;
    exchange.run(&watched, act(exchange.clock, begin_us, &clients)).await?;
    exchange.settle().await;
    drop(all_settled);
    let samples = match sampling {
        Some(sampling) => sampling.await.context("the sampler was stopped")?,
        None => Vec::new(),
    };
    let (measured_us, recording) = (begin_us..exchange.end_us.get(), exchange.recording.take());
    let record = exchange.finish(clients);
    Ok(Evidence { measured_us, samples, recording, sessions, record })
}

/// Results of a load: its messages, and the sessions meanwhile.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The load.
    pub load: Load,
    /// Messages, acks, returns and sockets of the clients.
    pub record: Record,
    /// Maximum latency of a message since its intended time of sending, at most 120 s; 0 without
    /// any.
    pub longest: Duration,
    /// 99th percentile latency of the messages before the fault; 0 without any.
    pub calm_p99: Duration,
    /// Duration of the fault.
    pub fault: Duration,
    /// Effects of the fault until the end of the load.
    pub effect: Effect,
}
