use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result};
use signaling_devmesh::{Control, MeshFile};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::HerdOptions;
use crate::clock::Clock;
use crate::crew::Over;
use crate::fleet::FleetOptions;
use crate::metrics::{Spread, http};
use crate::watch::{Usages, Watch};

/// How often to look where the clients are.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What was done and seen beside the clients.
pub(crate) struct Beside {
    pub(super) cut: Result<Cut>,
    pub(super) usages: Usages,
    /// Where the clients were once all were back, as far as that was seen.
    pub(super) spread: Spread,
}

/// When the clients were cut off, and when they could come back. Times are those of the run.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) cut_us: u64,
    /// The start of the balancers begins.
    pub(super) returned_us: u64,
    pub(super) balancers: Vec<String>,
}

/// From the moment that all are connected.
pub(crate) async fn beside(fleet: &FleetOptions, options: &HerdOptions, watch: &Watch, over: Over) -> Beside {
    let spread = RefCell::new(Spread::default());
    let (balancers_start, returned) = oneshot::channel();
    let cut = async {
        let cut = cut(fleet, options).await;
        drop(balancers_start);
        cut
    };
    let acting = async { tokio::join!(watch.run(over), cut) };
    tokio::select! {
        (usages, cut) = acting => Beside { cut, usages, spread: spread.take() },
        never = look(fleet, returned, &spread) => match never {},
    }
}

async fn cut(fleet: &FleetOptions, options: &HerdOptions) -> Result<Cut> {
    let clock = Clock::start();
    sleep(options.before()).await;
    if options.is_cut_by_clients(fleet) {
        let cut_us = clock.now_us();
        return Ok(Cut { cut_us, returned_us: cut_us, balancers: Vec::new() });
    }
    let control = Control::connect(fleet.dir.as_ref().context("say --dir of a running mesh-dev")?).await?;
    let balancers: Vec<String> = control.state()?.balancers.into_iter().map(|balancer| balancer.id).collect();
    let (cut_us, back_at) = (clock.now_us(), Instant::now() + options.away());
    let kills = balancers.iter().map(|id| control.kill(id));
    futures_util::future::try_join_all(kills).await?;
    sleep_until(back_at).await;
    let returned_us = clock.now_us();
    let restarts = balancers.iter().map(|id| control.restart(id));
    futures_util::future::try_join_all(restarts).await?;
    Ok(Cut { cut_us, returned_us, balancers })
}

/// From the return on, keeps the latest view in which most clients were at the nodes: in the very last ones they leave.
async fn look(fleet: &FleetOptions, returned: oneshot::Receiver<()>, spread: &RefCell<Spread>) -> Infallible {
    let http = http();
    // Fires when the other end is dropped, which is an error to it.
    let _ = returned.await;
    loop {
        // First of all, so that no node still counts who has just been cut off.
        sleep(LOOK_EVERY).await;
        let mesh = fleet.dir.as_ref().and_then(|dir| MeshFile::read(dir).ok());
        if let (Ok(http), Some(mesh)) = (&http, mesh) {
            let seen = Spread::over_nodes(http, &mesh).await;
            if seen.clients_by_server.len() == mesh.nodes.len() && seen.total() >= spread.borrow().total() {
                spread.replace(seen);
            }
        }
    }
}
