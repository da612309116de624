//! Owner lookups beside another rendezvous crate and a consistent-hash ring. One iteration is one lookup.
#![allow(missing_docs)]

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hashring::HashRing;
use hrw_hash::HrwNodes;
use signaling_rendezvous::{KeyHash, Ranking};
use twox_hash::XxHash3_64;

const NODE_COUNTS: [usize; 4] = [3, 10, 100, 1_000];
/// Points per node on the ring, the usual number: with fewer the shares are uneven.
const RING_POINTS: usize = 160;
/// A power of two, and enough that no branch predictor learns the answers.
const KEYS: usize = 1 << 14;

fn owner(c: &mut Criterion) {
    let keys: Vec<KeyHash> = (0..KEYS).map(|i| KeyHash::of(&format!("client-{i}"))).collect();
    let mut group = c.benchmark_group("owner");
    for count in NODE_COUNTS {
        let ids: Vec<String> = (0..count).map(|i| format!("signaling-node-{i}")).collect();
        group.throughput(Throughput::Elements(count as u64));

        let ranking = Ranking::new(0, &ids);
        group.bench_function(BenchmarkId::new("signaling-rendezvous", count), |b| {
            let mut keys = keys.iter().cycle();
            b.iter(|| ranking.owner(black_box(*keys.next()?)));
        });

        let seeds: Vec<u64> = ids.iter().map(|id| XxHash3_64::oneshot(id.as_bytes())).collect();
        group.bench_function(BenchmarkId::new("plain twox-hash", count), |b| {
            let mut keys = keys.iter().cycle();
            b.iter(|| {
                let key = black_box(*keys.next()?).get().to_le_bytes();
                seeds.iter().map(|&seed| XxHash3_64::oneshot_with_seed(seed, &key)).zip(0..).max()
            });
        });

        let nodes = HrwNodes::new(ids.iter().map(String::as_str));
        group.bench_function(BenchmarkId::new("hrw-hash", count), |b| {
            let mut keys = keys.iter().cycle();
            b.iter(|| nodes.sorted(&black_box(*keys.next()?).get()).next());
        });

        let mut ring = HashRing::new();
        ring.batch_add(ids.iter().flat_map(|id| (0..RING_POINTS).map(move |point| (id.as_str(), point))).collect());
        group.bench_function(BenchmarkId::new("hashring", count), |b| {
            let mut keys = keys.iter().cycle();
            b.iter(|| ring.get(&black_box(*keys.next()?).get()));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = owner
}
criterion_main!(benches);
