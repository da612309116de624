//! Who is in the room: how long it takes to learn that from the rooms' store, and from asking all nodes what each of them knows.
//!
//!     cargo run --release -p signaling-load --example who_is_in
//!
//! Each node is a process of its own, which holds its share of the members in memory and answers over HTTP; they are asked all at
//! once, over connections that are open already, and their answers merged by the time of joining. The store is a Redis of our own
//! behind the store's client as nodes use it. One question is under way at a time, and nothing else goes on: what is compared is
//! the shortest time in which either way can answer. Prints medians, as a table.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a measurement")]

mod nodes;
mod server;
mod store;

use std::time::{Duration, Instant};

use nodes::Nodes;
use store::RoomsInRedis;

const SIZES: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
const NODES: [usize; 4] = [1, 3, 5, 10];
/// Members of one answer to a client.
const PAGE: usize = 500;
/// Each question is asked for so long, and so often at least and at most.
const FOR: Duration = Duration::from_secs(2);
const LEAST: usize = 5;
const MOST: usize = 300;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, number, of] = &arguments[..]
        && command == "serve"
    {
        return nodes::serve(number.parse().unwrap(), of.parse().unwrap()).await;
    }
    let redis = RoomsInRedis::start().await;
    let mut rows: Vec<String> = Vec::new();
    for size in SIZES {
        redis.fill(size).await;
        let names = median(async || redis.names(size).await).await;
        let first = median(async || redis.first_page(size).await).await;
        let whole = median(async || redis.whole(size).await).await;
        rows.push(format!("| {size} | {} | {} | {} |", ms(names), ms(first), ms(whole)));
    }
    for count in NODES {
        let nodes = Nodes::start(count).await;
        for (size, row) in SIZES.into_iter().zip(&mut rows) {
            let first = median(async || nodes.members(size, PAGE).await).await;
            let whole = median(async || nodes.members(size, size).await).await;
            row.push_str(&format!(" {} / {} |", ms(first), ms(whole)));
        }
    }
    let columns: String = NODES.map(|count| format!(" {count} nodes: page / whole |")).concat();
    println!("| members | sorted set alone | store: page | store: whole |{columns}");
    println!("|{}", "---|".repeat(4 + NODES.len()));
    rows.iter().for_each(|row| println!("{row}"));
}

/// The median of how long it takes, of answers that were all complete.
async fn median(mut ask: impl AsyncFnMut() -> usize) -> Duration {
    let (begin, mut times) = (Instant::now(), Vec::new());
    let expected = ask().await;
    while times.len() < LEAST || (times.len() < MOST && begin.elapsed() < FOR) {
        let asked = Instant::now();
        assert_eq!(ask().await, expected);
        times.push(asked.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}
