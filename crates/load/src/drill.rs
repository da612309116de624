//! The steady load while something is done to the nodes, for the scenarios that differ in what.
//!
//! Before and beside the load three things run: a script acts on the mesh through mesh-dev at planned moments, a sampler
//! reads the servers' metrics pages ten times a second, and the books record each message. All that is concluded, is
//! concluded afterwards from these three, by pure code.
//!
//! | module | what it does |
//! |---|---|
//! | `options`, `moment` | the command line; pure: when the first act is to be |
//! | `load`, `figures` | for tests that themselves do something to a mesh: the load meanwhile, and what became of it |
//! | `acts` | what can be done to a mesh, and the script that does it |
//! | `sampler`, `tally`, `page` | asks the servers; pure: adds up what they say, over restarts; reads a page |
//! | `moves` | pure: whom a change of the nodes moves |
//! | `course` | pure: what an act brought about, and when it was over |
//! | `seconds` | pure: the run second by second |
//! | `report` | all of it, and what speaks against the servers |

mod acts;
mod course;
mod figures;
mod load;
mod moment;
mod moves;
mod options;
mod page;
mod report;
mod sampler;
mod seconds;
mod tally;

use std::rc::Rc;

use anyhow::{Context, Result};
use signaling_devmesh::{Control, MeshFile};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::fleet::{Fleet, FleetOptions};
use crate::outcome::Outcome;
use crate::traffic::{Books, Findings, Sender, TrafficOptions, Wanted};
use crate::watch::Watch;
use acts::play;
use report::{Evidence, Report};
use sampler::Sampler;

pub(crate) use acts::{Act, Step};
pub use figures::Figures;
pub use load::{Load, under_load};
pub(crate) use options::DrillOptions;

/// Runs a scenario of this name, whose script follows from the nodes that there are.
pub(crate) async fn run(
    scenario: &'static str,
    fleet: &FleetOptions,
    traffic: &TrafficOptions,
    options: &DrillOptions,
    script: impl FnOnce(&[String]) -> Vec<Step>,
) -> Result<Outcome> {
    fleet.check_pairs(1)?;
    options.check(traffic)?;
    let dir = fleet.dir.as_ref().context("this scenario acts through mesh-dev: say --dir of a running one")?;
    let control = Control::connect(dir).await?;
    let nodes = node_ids(&control.state()?);
    let steps = script(&nodes);
    let first_act_us = moment::first_act_us(options, traffic, &steps)?;

    let wanted = Wanted { ack_share: options.ack_share, recording: true };
    let books = Rc::new(Books::new(fleet, traffic, wanted)?);
    let watch = Watch::new(fleet);
    let fleet = Fleet::connect(fleet.plan()?.0, &books).await?;
    let sampler = Sampler::begin(dir, books.clock, fleet.clients.len() as u64).await?;
    let sender = Sender::new(&books, &fleet, traffic)?;
    let (measured_from_us, end_us) = (sender.measured_from_us(), sender.end_us());
    let (all_settled, stop) = oneshot::channel();
    let (watched_enough, over) = oneshot::channel();
    let sampling = spawn_local(sampler.run(stop));
    let watching = spawn_local(async move { watch.run(over).await });
    let playing = spawn_local(play(control, books.clock, measured_from_us + first_act_us, steps));
    let sending = sender.run(&[]).await;
    // First of all, so that no node is left paused.
    let acts = playing.await.context("the script was stopped")?;
    let sending = sending?;
    books.settle(traffic.settle()).await;
    drop((all_settled, watched_enough));
    let usages = watching.await.context("the watch was stopped")?;
    let samples = sampling.await.context("the sampler was stopped")?;

    let findings = Findings::new(traffic, &fleet, &books, sending);
    books.expect_endings();
    fleet.close();
    let evidence = Evidence {
        names: books.names(),
        partner_of: books.partner_of(),
        nodes,
        recording: books.take_recording(),
        samples,
        acts,
        measured_from_us,
        start_us: measured_from_us - traffic.warmup_us(),
        end_us,
    };
    let report = Report::new(scenario, findings, &evidence, usages.lines());
    Outcome::new(report.table(), &report, report.failures(traffic, options))
}

fn node_ids(mesh: &MeshFile) -> Vec<String> {
    mesh.nodes.iter().map(|node| node.id.clone()).collect()
}
