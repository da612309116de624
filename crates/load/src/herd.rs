//! All clients lose their sockets at once and come back as the protocol asks them to: any time within a second, then
//! within two, four, up to thirty; what a server asks for wins.
//!
//! | module | what it does |
//! |---|---|
//! | `options` | the command line |
//! | `log` | pure: who was lost when, and back when, after how many tries |
//! | `wanderer` | one client that comes back again and again |
//! | `cut` | takes the balancers away and brings them back; looks how the clients are spread |
//! | `report` | all of it, and what speaks against the servers |

mod cut;
mod log;
mod options;
mod report;
mod wanderer;

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::clock::Clock;
use crate::crew::Gate;
use crate::fleet::{FleetOptions, Opened};
use crate::progress::progress;
use wanderer::{Herd, Who, live};

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
    let (cut, is_cut) = watch::channel(false);
    let mut clients = JoinSet::new();
    let first = u64::from(fleet.first);
    let connect = fleet
        .plan()?
        .0
        .open(|Opened { home, client }| {
            let number = first + home.number as u64;
            let who = Who { client: number, seed: options.seed.wrapping_add(number) };
            clients.spawn_local(live(Rc::clone(&herd), home, client, is_cut.clone(), who));
        })
        .await?;
    gate.pass().await?;
    herd.begin(Clock::start());
    let begin = Instant::now();
    sleep_until(begin + options.before()).await;
    if options.is_cut_by_clients(fleet) {
        cut.send_replace(true);
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
