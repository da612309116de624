use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use signaling_devmesh::MeshFile;
use tokio::time::{Instant, sleep};

use super::Options;
use super::gauge::{Gauge, Mark};
use super::house::House;
use super::seating::Seating;
use crate::driver::{Driver, settle};
use crate::fleet::{Fleet, FleetOptions};
use crate::metrics::http;
use crate::progress::progress;
use crate::report::Report;

/// Maximum concurrent joins before the run.
const AT_ONCE: usize = 64;
/// Maximum time to an answer before the run.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const LOOK_FOR_ANSWERS_EVERY: Duration = Duration::from_millis(1);

/// Marks around the measured time, and the number of leaves of the queue's room.
struct Course {
    begin: Mark,
    end: Mark,
    left: usize,
}

/// Connects all clients, joins their rooms, runs the schedule, waits for all changes, and judges.
pub(crate) async fn play(options: &Options) -> Result<Report> {
    let fleet = &options.fleet;
    let seating = Seating::new(usize::try_from(fleet.clients)?, options);
    options.check(seating.visitors.len())?;
    let (members, visitors, largest_room) = (seating.clients(), seating.visitors.clone(), seating.largest());
    let everybody = FleetOptions { clients: fleet.clients + options.line, ..fleet.clone() };
    let (plan, watched) = everybody.plan()?;
    let mesh = fleet.mesh()?;
    let mut gauge = Gauge::new(watched, mesh.as_ref()).await?;
    let house = Rc::new(House::new(options, seating)?);
    let connected = Fleet::connect(plan, &house).await?;
    house.are_there(&connected.clients);
    enter(&house, members).await?;
    if options.line > 0 {
        set_capacity(mesh.as_ref(), &house.line_room, options.seats).await?;
        line_up(&house, options.line as usize).await?;
    }

    let Course { begin, end, left } = run(&house, options, &visitors, &mut gauge).await?;
    let settle_timeout = Duration::from_millis(options.run.settle_ms);
    settle(settle_timeout, || house.is_settled()).await;
    let growth = match options.max_growth {
        Some(limit) => gauge.growth(&begin, settle_timeout, limit).await?,
        None => Vec::new(),
    };
    let (book, line) = (house.book.borrow(), house.line.borrow());
    let (counts, unanswered, unheard) = (book.counts, book.unanswered(), book.unheard());
    let mut record = house.record.take();
    record.add("generator", "planned", options.run.schedule(options.rate).total());
    record.add("generator", "begun", counts.begun);
    record.set_times("connect", &connected.connect);
    for (name, times) in [("join", &book.joins), ("leave", &book.leaves), ("event", &book.events)] {
        record.set_times(name, times);
    }
    record.costs = begin.costs(&end);
    house.ends();
    connected.close();

    let line = (options.line > 0).then(|| line.findings(options.seats, left));
    let mut report = Report::new("rooms");
    report.set("clients", everybody.clients);
    report.set("rooms", options.rooms);
    report.set("largest_room", largest_room);
    report.set("visitors", visitors.len());
    options.run.describe(&mut report, options.rate);
    report.set("changes", counts);
    report.set("unanswered", unanswered);
    report.set("unheard", unheard);
    report.set("line", &line);
    record.describe(&mut report);
    report.set("store", begin.store_costs(&end));

    record.judge(&mut report, false);
    report.fail_if(counts.refused, "changes were refused");
    report.fail_if(unanswered as u64, "changes have no answer");
    report.fail_if(counts.put_out, "clients were put out of a room");
    report.fail_if(counts.doubled, "times a change was heard again");
    report.fail_if(unheard, "times a change was not heard");
    if let Some(line) = line {
        report.fail_if(line.overtook as u64, "clients of the line were let in before one in front of them");
        report.fail_if(line.left.saturating_sub(line.admitted) as u64, "free seats were given to no waiting client");
        report.fail_if(line.above_capacity.into(), "room had more members than seats");
    }
    report.fail_above("time of a join", record.percentiles("join"), options.max_join_p99_ms);
    report.fail_above("time until others hear of a change", record.percentiles("event"), options.max_event_p99_ms);
    growth.into_iter().for_each(|growth| report.fail(growth));
    Ok(report)
}

async fn enter(house: &House, clients: usize) -> Result<()> {
    let bar = progress(clients as u64, "joining");
    for client in 0..clients {
        until("a join", || house.book.borrow().unanswered() < AT_ONCE).await?;
        house.enter(client);
        bar.inc(1);
    }
    until("all joins", || house.book.borrow().unanswered() == 0).await?;
    bar.finish_and_clear();
    let refused = house.book.borrow().counts.refused;
    ensure!(
        refused == 0,
        "{refused} clients were not let into their rooms: {:?}",
        house.record.borrow().group("received")
    );
    Ok(())
}

/// Joins the waiting queue with one client after the other, so that its order is known.
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

/// Runs the scheduled joins and leaves of visitors and of the waiting queue.
async fn run(house: &House, options: &Options, visitors: &[usize], gauge: &mut Gauge) -> Result<Course> {
    let (changes, leavers) = (options.run.schedule(options.rate), options.run.schedule(options.line_rate));
    let (duration_us, warmup_us) = (changes.duration_us, options.run.warmup * 1_000_000);
    let mut driver = Driver::start(changes, house.clock, "changing")?;
    let start_us = driver.start_us;
    house.measure(start_us + warmup_us..start_us + duration_us);
    let begin = |number: u64, at_us| {
        let turn = usize::try_from(number % visitors.len() as u64).unwrap_or(0);
        house.turn(visitors[turn], at_us);
    };
    let (mut next_leaver, mut left) = (0, 0);
    let mut turn = || {
        let now_us = (house.clock.now_us() - start_us).min(duration_us);
        while options.line > 0 && next_leaver < leavers.due(now_us) {
            left += usize::from(house.line_moves(start_us + leavers.time_us(next_leaver)));
            next_leaver += 1;
        }
        house.flush();
    };
    driver.until(warmup_us, begin, &mut turn).await?;
    let begin_mark = gauge.mark(house.answered()).await?;
    driver.until(duration_us, begin, &mut turn).await?;
    Ok(Course { begin: begin_mark, end: gauge.mark(house.answered()).await?, left })
}
