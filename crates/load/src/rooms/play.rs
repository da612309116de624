use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use signaling_devmesh::MeshFile;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::RoomOptions;
use super::book::Counts;
use super::gauge::{Gauge, Mark};
use super::house::House;
use super::line::LineFindings;
use super::seating::Seating;
use super::store::StoreCosts;
use crate::churn::Leftover;
use crate::costs::Costs;
use crate::fleet::{Fleet, FleetOptions};
use crate::latency::Percentiles;
use crate::metrics::http;
use crate::progress::progress;
use crate::settle::{LOOK_EVERY, settle};
use crate::ticker::Ticker;
use crate::timeline::Row;
use crate::watch::Watch;

/// Joins under way at the same time before the run.
const AT_ONCE: usize = 64;
/// Before the run an answer takes no longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How often to look for one.
const LOOK_FOR_ANSWERS_EVERY: Duration = Duration::from_millis(1);
/// Changes begun before the readers have their turn, when many are overdue.
const MAX_BATCH: u64 = 50;

/// What came of a run.
pub(crate) struct Play {
    pub(super) clients: usize,
    pub(super) visitors: usize,
    pub(super) largest_room: usize,
    pub(super) connect: Percentiles,
    pub(super) planned: u64,
    pub(super) counts: Counts,
    pub(super) unanswered: usize,
    pub(super) unheard: u64,
    pub(super) joins: Percentiles,
    pub(super) leaves: Percentiles,
    pub(super) events: Percentiles,
    pub(super) lateness: Percentiles,
    pub(super) line: Option<LineFindings>,
    pub(super) largest_bytes: usize,
    pub(super) others: BTreeMap<String, u64>,
    pub(super) closed: BTreeMap<String, u64>,
    pub(super) store: Option<StoreCosts>,
    pub(super) costs: Option<Costs>,
    pub(super) leftovers: Vec<Leftover>,
    pub(super) timeline: Vec<Row>,
}

/// The measured time, and how many left the room with the line in all.
struct Course {
    begin: Mark,
    end: Mark,
    left: usize,
}

/// Connects all clients, brings everybody in, says that it begins, lets visitors come and go by the schedule, and waits until all
/// is heard.
pub(crate) async fn play(
    fleet: &FleetOptions,
    options: &RoomOptions,
    watch: &Watch,
    begins: oneshot::Sender<()>,
) -> Result<Play> {
    let seating = Seating::new(usize::try_from(fleet.clients)?, options);
    options.check(fleet, seating.visitors.len())?;
    let (members, visitors, largest_room) = (seating.clients(), seating.visitors.clone(), seating.largest());
    let mesh = fleet.mesh()?;
    let mut gauge = Gauge::new(watch, mesh.as_ref()).await?;
    let house = Rc::new(House::new(fleet, options, seating)?);
    let everybody = FleetOptions { clients: fleet.clients + options.line, ..fleet.clone() };
    let fleet = Fleet::connect(everybody.plan()?.0, &house).await?;
    house.are_there(&fleet.clients);
    enter(&house, members).await?;
    if options.line > 0 {
        set_capacity(mesh.as_ref(), &house.line_room, options.seats).await?;
        line_up(&house, options.line as usize).await?;
    }

    // Nobody may care.
    let _ = begins.send(());
    let Course { begin, end, left } = run(&house, options, &visitors, &mut gauge).await?;
    settle(Duration::from_millis(options.settle_ms), LOOK_EVERY, || house.is_settled()).await;
    let leftovers = gauge.leftovers(&begin, Duration::from_millis(options.settle_ms), options.max_growth).await?;
    let book = house.book.borrow();
    let line = house.line.borrow();
    let play = Play {
        clients: fleet.clients.len(),
        visitors: visitors.len(),
        largest_room,
        connect: fleet.connect.percentiles(),
        planned: options.schedule().total(),
        counts: book.counts(),
        unanswered: book.unanswered(),
        unheard: book.unheard(),
        joins: book.joins.percentiles(),
        leaves: book.leaves.percentiles(),
        events: book.events.percentiles(),
        lateness: house.lateness.borrow().percentiles(),
        line: (options.line > 0).then(|| line.findings(options.seats, left)),
        largest_bytes: house.largest_bytes.get(),
        others: house.others.take(),
        closed: house.closed.take(),
        store: begin.store_costs(&end),
        costs: begin.costs(&end),
        leftovers,
        timeline: house.timeline.borrow().rows(),
    };
    house.ends();
    fleet.close();
    Ok(play)
}

/// Brings everybody into the rooms, some at a time.
async fn enter(house: &House, clients: usize) -> Result<()> {
    let bar = progress(clients as u64, "joining");
    for client in 0..clients {
        until("a join", || house.book.borrow().unanswered() < AT_ONCE).await?;
        house.enter(client);
        bar.inc(1);
    }
    until("all joins", || house.book.borrow().unanswered() == 0).await?;
    bar.finish_and_clear();
    let refused = house.book.borrow().counts().refused;
    ensure!(refused == 0, "{refused} clients were not let into their rooms: {:?}", house.others.borrow());
    Ok(())
}

/// Brings the clients of the line there one after the other, so that the order of the line is known.
async fn line_up(house: &House, clients: usize) -> Result<()> {
    let bar = progress(clients as u64, "lining up");
    for number in 0..clients {
        house.line_up(number);
        until("a place in line", || house.line.borrow().has_place(number)).await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let begin = Instant::now();
    while !is_so() {
        ensure!(begin.elapsed() < ANSWER_WITHIN, "no answer to {what} within {ANSWER_WITHIN:?}");
        sleep(LOOK_FOR_ANSWERS_EVERY).await;
    }
    Ok(())
}

/// An operator gives a room a capacity of its own.
async fn set_capacity(mesh: Option<&MeshFile>, room: &str, seats: u32) -> Result<()> {
    let (mesh, node) = mesh
        .and_then(|mesh| Some((mesh, mesh.nodes.first()?)))
        .context("there is no node to set the capacity of a room at")?;
    let url = format!("{}/admin/rooms/{room}/capacity", node.internal);
    let mut request = http()?.put(&url).json(&serde_json::json!({ "capacity": seats }));
    if let Some(token) = mesh.admin_token()? {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await;
    answer
        .and_then(reqwest::Response::error_for_status)
        .with_context(|| format!("cannot set the capacity by {url}"))?;
    Ok(())
}

/// Has visitors come and go, and the line move, each at its time.
async fn run(house: &House, options: &RoomOptions, visitors: &[usize], gauge: &mut Gauge) -> Result<Course> {
    let (changes, leavers) = (options.schedule(), options.line_schedule());
    let (duration_us, warmup_us) = (changes.duration_us, options.warmup * 1_000_000);
    let bar = progress(duration_us / 1_000_000, "changing");
    house.start_us.set(house.clock.now_us());
    // After the start, so that at a tick what is due then is due, and not just not yet.
    let mut ticker = Ticker::every(Duration::from_micros(options.tick_us))?;
    let (mut next, mut next_leaver, mut left, mut begin) = (0, 0, 0, None);
    loop {
        let now_us = (house.clock.now_us() - house.start_us.get()).min(duration_us);
        if begin.is_none() && now_us >= warmup_us {
            house.measure_from(house.start_us.get() + warmup_us);
            begin = Some(gauge.mark(house.answered()).await?);
        }
        while next < changes.due(now_us) {
            let visitor = visitors[usize::try_from(next % visitors.len() as u64)?];
            house.turn(visitor, house.start_us.get() + changes.time_us(next));
            next += 1;
            if next.is_multiple_of(MAX_BATCH) {
                yield_now().await;
            }
        }
        while options.line > 0 && next_leaver < leavers.due(now_us) {
            left += usize::from(house.line_moves(house.start_us.get() + leavers.time_us(next_leaver)));
            next_leaver += 1;
        }
        house.flush();
        if now_us >= duration_us {
            bar.finish_and_clear();
            let begin = begin.context("the run was over before it was measured")?;
            return Ok(Course { begin, end: gauge.mark(house.answered()).await?, left });
        }
        bar.set_position(now_us / 1_000_000);
        ticker.tick().await?;
    }
}
