//! Places many keys on many nodes, as the whole of a mesh would, and tells how even that is, what it takes, and whom a node
//! moves that joins or leaves:
//!
//!     cargo run --release -p signaling-rendezvous --example placement [KEYS] [NODES]

use std::error::Error;
use std::time::Instant;

use signaling_rendezvous::{KeyHash, Ranking};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.replace('_', "").parse::<u32>());
    let (keys, nodes) = (number(10_000_000)?, number(1_000)?);
    if keys == 0 || nodes < 2 {
        return Err("there must be a key, and two nodes of which one can leave".into());
    }
    let ranking = |nodes: u32| Ranking::new(0, (0..nodes).map(|number| format!("node-{number}")));
    let before = ranking(nodes);

    let (hashes, took) = timed(|| (0..keys).map(|number| KeyHash::of(&format!("client-{number}"))).collect::<Vec<_>>());
    let mib = size_of_val(&*hashes) as f64 / f64::from(1 << 20);
    println!("hashed   {keys} ids in {took:.2} s, {:.0} ns each; the hashes take {mib:.0} MiB", each_ns(took, keys));

    let (owners, took) = timed(|| hashes.iter().filter_map(|key| before.owner(*key)).collect::<Vec<_>>());
    let lookup = each_ns(took, keys);
    println!(
        "placed   on {nodes} nodes in {took:.1} s, {lookup:.0} ns each, {:.2} ns per node",
        lookup / f64::from(nodes)
    );
    Spread::of(&owners, before.len()).print();

    let after = ranking(nodes + 1);
    let newcomer = after.index_of(&format!("node-{nodes}")).ok_or("the newcomer is missing")?;
    // Those that hold a key know its owner: they compare one score.
    let owner_in_after: Vec<usize> = before.ids().iter().filter_map(|id| after.index_of(id)).collect();
    let (moved, took) = timed(|| {
        let moves = |(key, owner): (&KeyHash, &usize)| {
            after.score_of(*key, newcomer) > after.score_of(*key, owner_in_after[*owner])
        };
        hashes.iter().zip(&owners).filter(|pair| moves(*pair)).count()
    });
    print_move("joined", moved, keys, f64::from(nodes + 1), took);

    let leaver = before.len() / 2;
    let rest = Ranking::new(0, before.ids().iter().enumerate().filter(|(at, _)| *at != leaver).map(|(_, id)| id));
    let homeless: Vec<KeyHash> =
        hashes.iter().zip(&owners).filter(|(_, owner)| **owner == leaver).map(|(key, _)| *key).collect();
    let (heirs, took) = timed(|| homeless.iter().filter_map(|key| rest.owner(*key)).collect::<Vec<_>>());
    print_move("left", homeless.len(), keys, f64::from(nodes), took);
    Spread::of(&heirs, rest.len()).print();
    Ok(())
}

/// How many keys nodes have.
struct Spread {
    mean: f64,
    least: u32,
    most: u32,
    deviation: f64,
}

impl Spread {
    fn of(owners: &[usize], nodes: usize) -> Self {
        let mut counts = vec![0_u32; nodes];
        owners.iter().for_each(|owner| counts[*owner] += 1);
        let mean = owners.len() as f64 / nodes as f64;
        let variance = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / nodes as f64;
        let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
        Self { mean, least: least.unwrap_or(0), most: most.unwrap_or(0), deviation: variance.sqrt() }
    }

    fn print(&self) {
        let Self { mean, least, most, deviation } = self;
        println!(
            "         {mean:.1} a node, {least} to {most}: {:.3} to {:.3} of the mean; deviation {:.2} %, by chance {:.2} %",
            f64::from(*least) / mean,
            f64::from(*most) / mean,
            deviation * 100.0 / mean,
            // Of a Poisson distribution.
            100.0 / mean.sqrt()
        );
    }
}

fn print_move(what: &str, moved: usize, keys: u32, share_of: f64, took: f64) {
    let share = moved as f64 / f64::from(keys);
    println!(
        "{what:<8} one node: {moved} keys move, {:.3} of their fair share; found in {:.0} ms",
        share * share_of,
        took * 1e3
    );
}

fn each_ns(seconds: f64, count: u32) -> f64 {
    seconds * 1e9 / f64::from(count)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed().as_secs_f64())
}
