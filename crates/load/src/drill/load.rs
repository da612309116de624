use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use super::figures::{Evidence, Figures};
use super::sampler::Sampler;
use crate::fleet::{Fleet, FleetOptions, Via};
use crate::message::Size;
use crate::pairs::Pairing;
use crate::traffic::{Books, Sender, TrafficOptions, Wanted};

/// Before the fault, so that there is something to compare with.
const BEFORE: Duration = Duration::from_secs(2);
/// The fault comes within so much of the time that there is.
const DRAWN_FROM: f64 = 0.4;
/// After the fault, so that its effects show.
const AFTER: Duration = Duration::from_secs(3);
/// A fault that lasts longer is not one that ends.
const MOST_SECONDS: u64 = 180;
/// After the end, for what is still under way: hold time and 5 s.
const SETTLE_MS: u64 = 25_000;
/// The share of messages that ask for an ack, where not all do.
const ACK_SHARE: f64 = 0.2;

/// Clients that write to each other at a fixed rate while something is done to their mesh.
#[derive(Clone, Debug)]
pub struct Load {
    /// How many; they come in pairs.
    pub clients: u32,
    /// Messages a second of all of them together.
    pub rate: u64,
    /// How long they write at least. They go on until the fault has been over for 3 s.
    pub seconds: u64,
    /// Draws the pairs, the turns, and the moment of the fault.
    pub seed: u64,
    /// Clients whose socket ends come back with their resume token, ask for an ack of each message, and send again what
    /// has none.
    pub come_back: bool,
}

impl Load {
    /// When the fault begins, from the begin of the sending.
    #[must_use]
    pub fn fault_at(&self) -> Duration {
        let latest = BEFORE.max(Duration::from_secs(self.seconds).mul_f64(DRAWN_FROM));
        StdRng::seed_from_u64(self.seed).random_range(BEFORE..=latest)
    }

    fn fleet(&self, dir: &Path) -> FleetOptions {
        FleetOptions {
            clients: self.clients,
            urls: Vec::new(),
            dir: Some(PathBuf::from(dir)),
            via: Via::Balancers,
            target_template: None,
            also: Vec::new(),
            sources: Vec::new(),
            connect_rate: 1_000,
            prefix: "drill".to_owned(),
            come_back: self.come_back,
            first: 0,
            json: None,
            html: None,
        }
    }

    fn traffic(&self) -> TrafficOptions {
        TrafficOptions {
            rate: self.rate,
            seconds: MOST_SECONDS,
            warmup: 0,
            size: Size::Varied,
            pairs: Pairing::Random,
            seed: self.seed,
            tick_us: 1_000,
            settle_ms: SETTLE_MS,
            max_lost: 0,
            min_sent: 0.0,
        }
    }
}

/// Puts the load on the mesh that runs in `dir`, does `fault` to it at the moment that the seed draws, and tells what
/// became of the messages, and what `fault` returned.
///
/// # Errors
/// When the clients cannot connect, the metrics of the mesh cannot be read, or the harness itself fails.
pub async fn under_load<T>(dir: &Path, load: &Load, fault: impl Future<Output = T>) -> Result<(Figures, T)> {
    LocalSet::new().run_until(load_and_fault(dir, load, fault)).await
}

async fn load_and_fault<T>(dir: &Path, load: &Load, fault: impl Future<Output = T>) -> Result<(Figures, T)> {
    let (fleet, traffic) = (load.fleet(dir), load.traffic());
    fleet.check_pairs(1)?;
    let wanted = Wanted { ack_share: if load.come_back { 1.0 } else { ACK_SHARE }, recording: true };
    let books = Rc::new(Books::new(&fleet, &traffic, wanted)?);
    let fleet = Fleet::connect(fleet.plan()?.0, &books).await?;
    let sampler = Sampler::begin(dir, books.clock, u64::from(load.clients)).await?;
    let (all_settled, stop) = oneshot::channel();
    let sampling = spawn_local(sampler.run(stop));

    let sender = Sender::new(&books, &fleet, &traffic)?;
    let begin_us = sender.measured_from_us();
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (mut returned, mut fault_us) = (None, begin_us..begin_us);
    let over = async {
        books.clock.until_us(begin_us + us(load.fault_at())).await;
        fault_us.start = books.clock.now_us();
        returned = Some(fault.await);
        fault_us.end = books.clock.now_us();
        let seconds_are_over_us = begin_us + us(Duration::from_secs(load.seconds));
        books.clock.until_us(seconds_are_over_us.max(fault_us.end + us(AFTER))).await;
    };
    let sent_share = sender.run_until(over).await?;
    let end_us = books.clock.now_us();
    let returned = returned.with_context(|| format!("the fault was not over within {MOST_SECONDS} s"))?;
    books.settle(traffic.settle()).await;
    drop(all_settled);
    let samples = sampling.await.context("the sampler was stopped")?;

    books.expect_endings();
    fleet.close();
    let evidence = Evidence { begin_us, fault_us, end_us, sent_share, samples, recording: books.take_recording() };
    Ok((Figures::new(load, &books, &evidence), returned))
}
