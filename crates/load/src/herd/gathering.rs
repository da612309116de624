use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signaling_client::{Client, Options};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::HerdOptions;
use super::network::Network;
use super::wanderer::{Herd, live};
use crate::fleet::{FleetOptions, FleetPlan};
use crate::latency::Latencies;
use crate::progress::progress;

/// Clients that may be connecting at the same time.
const MAX_OPENING: usize = 64;

/// Starts all clients at a bounded rate, and returns once all are connected. The first failure ends it.
pub(super) async fn gather(
    fleet: &FleetOptions,
    options: &HerdOptions,
    herd: &Rc<Herd>,
    network: &Network,
) -> Result<(JoinSet<()>, Latencies)> {
    let FleetPlan { urls, sources, rate, .. } = fleet.plan()?.0;
    let total = urls.len();
    let bar = progress(total as u64, "connecting");
    let (mut clients, mut connect) = (JoinSet::new(), Latencies::new()?);
    let (arrive, mut arrivals) = mpsc::channel(MAX_OPENING);
    let mut clock = interval(Duration::from_secs(1) / rate);
    let mut waiting = urls.into_iter().enumerate();
    let (mut begun, mut here) = (0, 0);
    while here < total {
        tokio::select! {
            _ = clock.tick(), if begun < total && begun - here < MAX_OPENING => {
                let Some((number, urls)) = waiting.next() else { bail!("there are fewer clients than were counted") };
                begun += 1;
                let source = sources.get(number % sources.len().max(1)).copied();
                let id = fleet.client_id(number);
                let number = u64::from(fleet.first) + number as u64;
                let seed = options.seed.wrapping_add(number);
                let options = Options::new(&id, urls.iter().map(|url| server(url)))?.seed(seed);
                let client = Client::connect_by(options, network.way(source));
                clients.spawn_local(live(Rc::clone(herd), number, client, arrive.clone()));
            }
            Some((number, arrival)) = arrivals.recv() => {
                let took = arrival.map_err(anyhow::Error::msg).with_context(|| format!("client {number} of {total}"))?;
                here += 1;
                connect.record(took);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok((clients, connect))
}

/// The URL without the client's id, which the client adds.
fn server(url: &str) -> String {
    let Some((address, query)) = url.split_once('?') else { return url.to_owned() };
    let rest: Vec<_> = query.split('&').filter(|pair| !pair.starts_with("client_id=")).collect();
    if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_adds_its_id_itself() {
        assert_eq!(server("ws://a:1/v1/connect?client_id=load-1"), "ws://a:1/v1/connect");
        assert_eq!(server("ws://a:1/v1/connect?client_id=load-1&node=node-2"), "ws://a:1/v1/connect?node=node-2");
        assert_eq!(server("ws://a:1"), "ws://a:1");
    }
}
