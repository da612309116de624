//! All clients lose their sockets at once and come back by themselves: they are clients of the SDK, so that its rules are what
//! is measured.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `log` | pure: who was lost when, and back when, after how many tries |
//! | `network` | the clients' connections, which can all be cut at once |
//! | `gathering` | connects the clients |
//! | `wanderer` | writes down what becomes of one of them |
//! | `cut` | takes the balancers away and brings them back; looks how the clients are spread |
//! | `report` | all of it, and what speaks against the servers |

mod cut;
mod gathering;
mod log;
mod network;
mod options;
mod report;
mod wanderer;

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clock::Clock;
use crate::crew::Gate;
use crate::fleet::FleetOptions;
use crate::progress::progress;
use gathering::gather;
use network::Network;
use wanderer::Herd;

pub(crate) use cut::beside;
pub(crate) use log::HerdPart;
pub(crate) use options::HerdOptions;
pub(crate) use report::Report;

/// How often to look whether all are back.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Once all are back they stay a little, so that it can be seen where they are.
const STAY: Duration = Duration::from_secs(2);

/// Connects, passes the gate, and returns once all clients were lost and are back, or the patience is over.
pub(crate) async fn graze(fleet: &FleetOptions, options: &HerdOptions, gate: Gate) -> Result<HerdPart> {
    let total = u64::from(fleet.clients);
    let herd = Rc::new(Herd::new(options)?);
    let network = Network::default();
    let (_clients, connect) = gather(fleet, options, &herd, &network).await?;
    gate.pass().await?;
    herd.begin(Clock::start());
    let begin = Instant::now();
    sleep_until(begin + options.before()).await;
    if options.is_cut_by_clients(fleet) {
        network.cut();
    }
    let bar = progress(total, "coming back");
    let give_up = begin + options.before() + options.away() + options.patience();
    while herd.back() < total && Instant::now() < give_up {
        bar.set_position(herd.back());
        sleep(LOOK_EVERY).await;
    }
    bar.finish_and_clear();
    sleep(STAY).await;
    Ok(herd.part(connect))
}
