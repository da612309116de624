//! Load on rooms: visitors join and leave while residents stay and receive the changes. One more
//! room has a long waiting queue.

mod assignment;
mod changes;
mod clients;
mod queue;

use std::mem::take;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use signaling_devmesh::MeshFile;
use tokio::time::{Instant, sleep};

use crate::driver::{Driver, progress, settle};
use crate::exchange::RunOptions;
use crate::fleet::{Fleet, FleetOptions};
use crate::record::Record;
use crate::report::Report;
use crate::servers::{self, Cost, Costs, Reading, Watched, http};
use assignment::Assignment;
use clients::RoomClients;

const MAX_CONCURRENT_JOINS: usize = 64;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Of the rooms beside other load.
const CLIENTS_PER_ROOM: u32 = 10;
const ANSWER_INTERVAL: Duration = Duration::from_millis(1);
const MEMORY_INTERVAL: Duration = Duration::from_millis(500);

/// Options of `mesh-load rooms`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    /// Number of rooms (1 to 1,000,000, at most --clients); each client is in one of them
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rooms: u32,
    /// Share of a room's clients that join and leave, in percent (0 to 100). All others stay, at
    /// least one
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(..=100))]
    visitors: u32,
    /// Joins and leaves per second, of all clients together (1 to 100,000, at most one per visitor)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    #[command(flatten)]
    run: RunOptions,
    /// Number of further clients, of one more room: the first --seats become members, the others
    /// wait in its queue; 0: no such room. Needs --dir, to set the room's capacity through a node
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub(crate) waiting: u32,
    /// Capacity of the room with the waiting queue of --waiting (1 to 100,000)
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seats: u32,
    /// Members that leave the room with the waiting queue of --waiting per second (1 to 10,000);
    /// each leave admits one waiting client
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    leave_rate: u64,
    /// Fail when the 99th percentile of the event delay, from a join or leave until a resident
    /// receives it, is above this, in milliseconds
    #[arg(long)]
    max_event_p99_ms: Option<f64>,
    /// Fail when the memory of a process has grown by more than this since the warm-up, in percent.
    /// A later decrease within --settle-ms counts
    #[arg(long, value_name = "PERCENT")]
    max_growth: Option<f64>,
}

impl Options {
    /// Returns options for rooms of ten clients, half of them visitors with a change every two
    /// seconds.
    pub(crate) fn beside_other_load(fleet: FleetOptions, run: RunOptions) -> Self {
        Self {
            rooms: (fleet.clients / CLIENTS_PER_ROOM).max(1),
            visitors: 50,
            rate: u64::from(fleet.clients / 4).max(1),
            fleet,
            run,
            waiting: 0,
            seats: 1,
            leave_rate: 1,
            max_event_p99_ms: None,
            max_growth: None,
        }
    }

    /// Fails if the numbers conflict. Servers merge a client's changes within 200 ms. At most one
    /// change per second of a visitor leaves time for the answer and the report of each.
    fn check(&self, visitors: usize) -> Result<()> {
        let Self { rooms, rate, waiting, seats, leave_rate, .. } = self;
        let clients = self.fleet.clients;
        ensure!(*rooms <= clients, "--rooms {rooms} exceeds --clients {clients}");
        ensure!(
            visitors as u64 >= *rate,
            "--rate {rate} is more than one change per second of each of {visitors} visitors: raise --clients or \
             --visitors"
        );
        ensure!(*waiting == 0 || self.fleet.dir.is_some(), "--waiting needs --dir, to set the capacity of a room");
        let admitted = u64::from(*seats) + leave_rate * (self.run.warmup + self.run.seconds);
        ensure!(
            *waiting == 0 || u64::from(*waiting) > admitted,
            "--waiting {waiting} ends before the run: with --seats {seats} and --leave-rate {leave_rate} use more than \
             {admitted}"
        );
        Ok(())
    }
}

/// Connects all clients, joins their rooms, waits for `gate`, runs the schedule, waits for all
/// changes for at most `settle_ms`, and reports. Fails if options conflict, the mesh file is
/// unreadable, or a client cannot connect or join. Fails too if `gate` does, a node does not set
/// the capacity, or the timer breaks. Lost changes and exceeded limits only fail the report.
pub(crate) async fn visit(options: &Options, gate: impl Future<Output = Result<()>>) -> Result<(Report, Record)> {
    let fleet = &options.fleet;
    let assignment = Assignment::new(usize::try_from(fleet.clients)?, options);
    options.check(assignment.visitors.len())?;
    let all_clients = FleetOptions { clients: fleet.clients + options.waiting, ..fleet.clone() };
    let (plan, watched) = all_clients.plan()?;
    let mesh = fleet.mesh()?;
    let clients = Rc::new(RoomClients::new(options, assignment.clone())?);
    let connected = Fleet::connect(plan, &clients).await?;
    clients.sockets.borrow_mut().clone_from(&connected.clients);
    join_rooms(&clients, assignment.clients()).await?;
    if options.waiting > 0 {
        set_capacity(mesh.as_ref(), &clients.queue_room, options.seats).await?;
        join_queue(&clients, options.waiting as usize).await?;
    }

    gate.await?;
    let (begin, costs) = run_schedule(&clients, options, &assignment.visitors, &watched).await?;
    let settle_timeout = Duration::from_millis(options.run.settle_ms);
    settle(settle_timeout, || clients.is_settled()).await;
    let growth = match options.max_growth {
        Some(limit) => growth(&begin, &watched, settle_timeout, limit).await,
        None => Vec::new(),
    };
    let (totals, unanswered, unreceived, mut record) = {
        let mut changes = clients.changes.borrow_mut();
        (changes.totals, changes.unanswered() as u64, changes.unreceived(), take(&mut changes.record))
    };
    record.generator.planned = options.run.schedule(options.rate).total();
    record.generator.begun = totals.begun;
    record.times.connect = connected.close();
    record.costs = Some(costs).filter(|costs| !costs.processes.is_empty());

    let queue = (options.waiting > 0).then(|| clients.queue.borrow().totals(options.seats));
    let mut report = Report::new("rooms");
    report.set("rooms", options.rooms);
    report.set("visitors", assignment.visitors.len());
    report.set("changes", totals);
    report.set("unanswered", unanswered);
    report.set("unreceived", unreceived);
    report.set("queue", &queue);
    options.run.describe(&mut report, all_clients.clients, options.rate, &record);

    record.judge(&mut report, false);
    report.fail_if(totals.refused, "changes were refused");
    report.fail_if(unanswered, "changes have no answer");
    report.fail_if(totals.removed, "clients left a room without a request");
    report.fail_if(totals.duplicated, "changes were received twice by a resident");
    report.fail_if(unreceived, "changes were not received by a resident");
    if let Some(queue) = queue {
        report.fail_if(queue.overtook as u64, "waiting clients were admitted before an earlier one");
        report.fail_if(queue.left.saturating_sub(queue.admitted) as u64, "free seats were given to no waiting client");
        report.fail_if(queue.above_capacity.into(), "room had more members than seats");
    }
    report.fail_above("event delay", &record.times.event, options.max_event_p99_ms);
    growth.into_iter().for_each(|growth| report.fail(growth));
    Ok((report, record))
}

async fn join_rooms(clients: &RoomClients, count: usize) -> Result<()> {
    let bar = progress(count as u64, "joining");
    for client in 0..count {
        until("a join", || clients.changes.borrow().unanswered() < MAX_CONCURRENT_JOINS).await?;
        clients.join_first(client);
        bar.inc(1);
    }
    until("all joins", || clients.changes.borrow().unanswered() == 0).await?;
    let changes = clients.changes.borrow();
    let (refused, received) = (changes.totals.refused, &changes.record.received);
    ensure!(refused == 0, "{refused} clients were not admitted to their rooms: {received:?}");
    Ok(())
}

/// Joins the waiting queue with one client after the other, so that its order is known.
async fn join_queue(clients: &RoomClients, count: usize) -> Result<()> {
    let bar = progress(count as u64, "queuing");
    for number in 0..count {
        clients.join_queue(number);
        until("a join of the waiting queue", || clients.queue.borrow().has_seat(number)).await?;
        bar.inc(1);
    }
    Ok(())
}

/// Waits until `is_so` returns `true`, checked each 1 ms, at most 20 s. Fails then, with `what` in
/// the error.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let begin = Instant::now();
    while !is_so() {
        ensure!(begin.elapsed() < ANSWER_TIMEOUT, "no answer to {what} within {ANSWER_TIMEOUT:?}");
        sleep(ANSWER_INTERVAL).await;
    }
    Ok(())
}

/// Sets the capacity of a room through the first node of a mesh. Fails without a mesh or node, or
/// if the node does not set it.
pub(crate) async fn set_capacity(mesh: Option<&MeshFile>, room: &str, seats: u32) -> Result<()> {
    let mesh = mesh.context("no mesh to set the capacity of a room at: use --dir")?;
    let node = mesh.nodes.first().context("the mesh has no node to set the capacity of a room at")?;
    let url = format!("{}/admin/rooms/{room}/capacity", node.internal);
    let request = http()?.put(&url).bearer_auth(mesh.admin_token()?).json(&serde_json::json!({ "capacity": seats }));
    let answer = request.send().await.and_then(reqwest::Response::error_for_status);
    answer.map(drop).with_context(|| format!("cannot set the capacity by {url}"))
}

/// Runs the scheduled joins and leaves of visitors and of the waiting queue. Returns a reading of
/// the start of the measured time, and the costs in it. Its messages are the answered changes of
/// visitors, and the seats that were filled again from the waiting queue.
async fn run_schedule(
    clients: &RoomClients,
    options: &Options,
    visitors: &[usize],
    watched: &[Watched],
) -> Result<(Reading, Costs)> {
    let (changes, leaves) = (options.run.schedule(options.rate), options.run.schedule(options.leave_rate));
    let (duration_us, warmup_us) = (changes.duration_us, options.run.warmup * 1_000_000);
    let mut driver = Driver::start(changes, clients.clock, "changing")?;
    let start_us = driver.start_us;
    clients.measure(start_us + warmup_us..start_us + duration_us);
    let begin = |number: u64, at_us| {
        let turn = usize::try_from(number % visitors.len() as u64).unwrap_or(0);
        clients.change(visitors[turn], at_us);
    };
    let mut next_leave = 0;
    let mut turn = || {
        let now_us = (clients.clock.now_us() - start_us).min(duration_us);
        while options.waiting > 0 && next_leave < leaves.due(now_us) {
            clients.leave_queue_room(start_us + leaves.time_us(next_leave));
            next_leave += 1;
        }
    };
    driver.until(warmup_us, begin, &mut turn).await?;
    let before = servers::read(watched);
    let answered_before = clients.answered();
    driver.until(duration_us, begin, &mut turn).await?;
    let costs = Costs::between(&before, &servers::read(watched), clients.answered() - answered_before);
    Ok((before, costs))
}

/// Waits for at most `timeout` until the memory of each process is at most `limit` percent above
/// `before`. Returns a message for each that is above then.
async fn growth(before: &Reading, watched: &[Watched], timeout: Duration, limit: f64) -> Vec<String> {
    let give_up = Instant::now() + timeout;
    let grown = |Cost { name, rss_kib, rss_growth_kib, .. }: Cost| {
        let before_kib = rss_kib.saturating_add_signed(-rss_growth_kib);
        let has_grown = rss_kib as f64 > before_kib as f64 * (1.0 + limit / 100.0);
        has_grown.then(|| format!("{name}: memory grew from {before_kib} to {rss_kib} KiB, by more than {limit}%"))
    };
    loop {
        let costs = Costs::between(before, &servers::read(watched), 0);
        let growth: Vec<_> = costs.processes.into_iter().filter_map(grown).collect();
        if growth.is_empty() || Instant::now() >= give_up {
            return growth;
        }
        sleep(MEMORY_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;

    #[test]
    fn conflicting_options_are_named() {
        let fitting = ["--dir=x", "--waiting=101", "--leave-rate=3", "--seconds=27"];
        let short = ["--dir=x", "--waiting=100", "--leave-rate=3", "--seconds=27"];
        let cases: [(&[&str], Option<&str>); 6] = [
            (&[], None),
            (&["--rooms=2000"], Some("--rooms 2000")),
            (&["--rate=501"], Some("--rate 501")),
            (&["--waiting=1000"], Some("needs --dir")),
            (&short, Some("more than 100")),
            (&fitting, None),
        ];
        for (arguments, expected) in cases {
            let error = options::<Options>(arguments).unwrap().check(500).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{arguments:?}: {error:?}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{arguments:?}");
        }
    }
}
