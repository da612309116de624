//! A day in minutes: the load grows from 3,000 to 300,000 messages a second and falls again, an autoscaler changes the
//! number of nodes, and balancers move their clients by the real placement, on a simulated clock:
//!
//!     cargo run --release -p signaling-balancer --example day [CLIENTS] [SECONDS_OF_RISE]
//!
//! Tells for each change who moved and how long it took, and how even the nodes were. What is not real: nodes answer at once, and
//! a message costs its sender's node what was measured, whoever sends it.

mod autoscaler;
mod balancer;
mod nodes;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::{Autoscaler, Policy, SYNC};
use balancer::{Balancer, Share};
use nodes::Pods;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use signaling_balancer::trunks::TURN;
use signaling_discovery::View;

const QUIET_RATE: f64 = 3_000.0;
const PEAK_RATE: f64 = 300_000.0;
/// What a message costs the nodes: what PERFORMANCE.md and the README measured at 30,000 a second for balancer and nodes together,
/// less the balancer's part.
const CORE_SECONDS_PER_MESSAGE: f64 = 23.8e-6;
const BALANCERS: u64 = 8;
const QUIET_S: u64 = 60;
const PEAK_S: u64 = 300;
/// Long enough to come back to the fewest nodes.
const EVENING_S: u64 = 1_500;
/// One client in ten is busy, and sends ten times as much.
const BUSY_WEIGHT: f64 = 10.0;
/// The first balancer sees a view after so long, each other one so much later than the one before.
const DISCOVERY_MS: u64 = 200;
/// The autoscaler sees what was so many seconds ago, as metrics are gathered every 15 s.
const METRICS_ARE_OLD_S: u64 = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.replace('_', "").parse::<u32>());
    let (clients, rise) = (number(200_000)?, u64::from(number(180)?));
    let mut day = Day::begin(clients)?;
    println!("{clients} clients at {BALANCERS} balancers; {QUIET_RATE} to {PEAK_RATE} messages a second in {rise} s\n");
    println!(
        "| at | messages/s | nodes | moved | of all | fair share | settled after | clients, most to mean | load, most to mean |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for second in 0..QUIET_S + rise + PEAK_S + rise + EVENING_S {
        day.second(second, rate_at(second, rise))?;
    }
    day.print_sum();
    Ok(())
}

/// Messages a second.
fn rate_at(second: u64, rise: u64) -> f64 {
    let risen = second.saturating_sub(QUIET_S).min(rise) as f64 / rise as f64;
    let fallen = second.saturating_sub(QUIET_S + rise + PEAK_S).min(rise) as f64 / rise as f64;
    QUIET_RATE + (PEAK_RATE - QUIET_RATE) * (risen - fallen)
}

struct Day {
    epoch: Instant,
    balancers: Vec<Balancer>,
    pods: Pods,
    autoscaler: Autoscaler,
    weights: f64,
    clients: u64,
    /// The newest view, and which balancer has seen it when, in milliseconds of the day.
    view: Arc<View>,
    to_be_seen: Vec<(u64, usize, Arc<View>)>,
    shares: BTreeMap<String, Share>,
    /// Messages a second, second by second.
    rates: Vec<f64>,
    change: Option<Change>,
    sum: Sum,
}

/// A new set of nodes that clients move for.
struct Change {
    since: u64,
    from: usize,
    to: usize,
    moved: u64,
    busy: u64,
}

#[derive(Default)]
struct Sum {
    changes: u32,
    moved: u64,
    longest_ms: u64,
    hottest: f64,
    hot_s: u64,
    overrun_s: u64,
    node_seconds: u64,
    most_clients: f64,
    most_load: f64,
}

impl Day {
    fn begin(clients: u32) -> Result<Self, Box<dyn Error>> {
        let epoch = Instant::now();
        let policy = Policy::of_nodes();
        let pods = Pods::starting_with(policy.min);
        let view = pods.view(0)?;
        let mut balancers: Vec<Balancer> = (0..BALANCERS).map(|_| Balancer::new()).collect();
        for balancer in &mut balancers {
            balancer.sees(epoch, &view)?;
        }
        let (mut random, mut weights) = (StdRng::seed_from_u64(1), 0.0);
        for number in 0..clients {
            let weight = if random.random_ratio(1, 10) { BUSY_WEIGHT } else { 1.0 };
            weights += weight;
            balancers[random.random_range(0..BALANCERS as usize)].connect(epoch, number, weight)?;
        }
        let mut day = Self {
            epoch,
            balancers,
            pods,
            autoscaler: Autoscaler::new(policy),
            weights,
            clients: u64::from(clients),
            view,
            to_be_seen: Vec::new(),
            shares: BTreeMap::new(),
            rates: Vec::new(),
            change: None,
            sum: Sum::default(),
        };
        day.look_at_shares();
        Ok(day)
    }

    fn second(&mut self, second: u64, rate: f64) -> Result<(), Box<dyn Error>> {
        self.rates.push(rate);
        if second > 0 && second.is_multiple_of(SYNC) {
            self.autoscale(second);
        }
        for ms in (second * 1_000..(second + 1) * 1_000).step_by(TURN.as_millis() as usize) {
            self.turn(ms)?;
        }
        let hottest = self.shares.values().map(|share| self.cores(share, rate)).fold(0.0, f64::max);
        self.sum.hottest = self.sum.hottest.max(hottest);
        self.sum.hot_s += u64::from(hottest > 0.8);
        self.sum.overrun_s += u64::from(hottest > 1.0);
        self.sum.node_seconds += self.pods.pods.len() as u64;
        Ok(())
    }

    fn autoscale(&mut self, second: u64) {
        let now = second * 1_000;
        let known = self.rates[..=(second.saturating_sub(METRICS_ARE_OLD_S)) as usize]
            .iter()
            .rev()
            .take(METRICS_ARE_OLD_S as usize);
        let rate = known.clone().sum::<f64>() / known.count() as f64;
        let none = Share::default();
        let measured: Vec<f64> = self
            .pods
            .staying()
            .filter(|pod| pod.is_measured(now))
            .map(|pod| self.cores(self.shares.get(&pod.name).unwrap_or(&none), rate))
            .collect();
        let wanted = self.autoscaler.decide(second, self.pods.staying().count() as u32, &measured);
        self.pods.scale(now, wanted);
    }

    fn turn(&mut self, ms: u64) -> Result<(), Box<dyn Error>> {
        let now = self.epoch + Duration::from_millis(ms);
        // A node that was told to go does so once nobody is at it.
        let (pods, shares) = (&mut self.pods.pods, &self.shares);
        if self.change.is_none() {
            let has_clients = |name: &str| shares.get(name).is_some_and(|share| share.clients > 0);
            pods.retain(|pod| !pod.is_leaving || (pod.is_ready(ms) && has_clients(&pod.name)));
        }
        let view = self.pods.view(ms)?;
        if view.members() != self.view.members() {
            let serving = |view: &View| view.members().iter().filter(|member| !member.draining).count();
            let (from, to) = (serving(&self.view), serving(&view));
            self.view = Arc::clone(&view);
            let seen_at = |n: usize| ms + DISCOVERY_MS * (n as u64 + 1);
            self.to_be_seen.extend((0..self.balancers.len()).map(|n| (seen_at(n), n, Arc::clone(&view))));
            let since = self.change.as_ref().map_or((ms, from), |change| (change.since, change.from));
            self.change = Some(Change { since: since.0, from: since.1, to, moved: 0, busy: ms });
        }
        let Some(mut change) = self.change.take() else { return Ok(()) };
        for (_, n, view) in self.to_be_seen.extract_if(.., |(at, ..)| *at <= ms) {
            self.balancers[n].sees(now, &view)?;
        }
        for balancer in &mut self.balancers {
            if !balancer.is_settled() {
                change.moved += balancer.turn(now)?;
                change.busy = ms;
            }
        }
        if self.to_be_seen.is_empty() && self.balancers.iter().all(Balancer::is_settled) {
            self.look_at_shares();
            self.tell(ms, &change);
        } else {
            self.change = Some(change);
        }
        Ok(())
    }

    fn look_at_shares(&mut self) {
        self.shares.clear();
        for (node, share) in self.balancers.iter().flat_map(Balancer::shares) {
            let sum = self.shares.entry(node.to_owned()).or_default();
            sum.clients += share.clients;
            sum.weight += share.weight;
        }
    }

    fn cores(&self, share: &Share, rate: f64) -> f64 {
        rate * share.weight / self.weights * CORE_SECONDS_PER_MESSAGE
    }

    fn tell(&mut self, ms: u64, change: &Change) {
        let serving: Vec<&Share> = self.shares.values().filter(|share| share.clients > 0).collect();
        let most_to_mean = |part: &dyn Fn(&Share) -> f64| {
            let (most, all) =
                serving.iter().fold((0.0_f64, 0.0), |(most, all), share| (most.max(part(share)), all + part(share)));
            most * serving.len() as f64 / all
        };
        let (clients, load) =
            (most_to_mean(&|share: &Share| share.clients as f64), most_to_mean(&|share: &Share| share.weight));
        self.sum.most_clients = self.sum.most_clients.max(clients);
        self.sum.most_load = self.sum.most_load.max(load);
        if change.moved == 0 {
            return;
        }
        let took = change.busy - change.since;
        self.sum.changes += 1;
        self.sum.moved += change.moved;
        self.sum.longest_ms = self.sum.longest_ms.max(took);
        let of_all = change.moved as f64 / self.clients as f64;
        let fair = change.from.abs_diff(change.to) as f64 / change.from.max(change.to) as f64;
        println!(
            "| {} s | {:.0} | {} to {} | {} | {of_all:.3} | {fair:.3} | {:.2} s | {clients:.3} | {load:.3} |",
            ms / 1_000,
            self.rates.last().copied().unwrap_or_default(),
            change.from,
            change.to,
            change.moved,
            took as f64 / 1e3,
        );
    }

    fn print_sum(&self) {
        let Sum { changes, moved, longest_ms, hottest, hot_s, overrun_s, node_seconds, most_clients, most_load } =
            &self.sum;
        let messages: f64 = self.rates.iter().sum();
        println!(
            "\n{changes} changes moved each client {:.2} times on average; the longest took {longest_ms} ms",
            *moved as f64 / self.clients as f64
        );
        println!("most to mean: {most_clients:.3} of clients, {most_load:.3} of load, at worst");
        println!(
            "the hottest node was at {hottest:.2} cores; {hot_s} s above 0.8, {overrun_s} s above 1, which is all there is"
        );
        println!(
            "{node_seconds} node seconds, {:.2} of what the load alone would take at the autoscaler's target",
            *node_seconds as f64 / (messages * CORE_SECONDS_PER_MESSAGE / Policy::of_nodes().target)
        );
    }
}
