//! Cost of the codec per message of 300 bytes: one read of 16 frames, decoded and encoded again.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use signaling_core::ws::{Decoder, Event, Limits, encode};

const FRAMES: usize = 16;
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn codec(criterion: &mut Criterion) {
    let payload = [b'x'; 300];
    let read = frame(&payload).repeat(FRAMES);
    let mut scratch = read.clone();
    let mut out = Vec::new();
    let mut decoder = Decoder::default();

    let mut group = criterion.benchmark_group("300 B message");
    group.throughput(Throughput::Elements(FRAMES as u64));
    // The copy stands in for the read that fills the scratch buffer.
    group.bench_function("copy", |bencher| {
        bencher.iter(|| scratch.copy_from_slice(black_box(&read)));
    });
    group.bench_function("copy, decode", |bencher| {
        bencher.iter(|| {
            scratch.copy_from_slice(black_box(&read));
            let mut input = decoder.feed(&mut scratch, Limits::default());
            while let Ok(Some(event)) = input.next() {
                black_box(event);
            }
        });
    });
    group.bench_function("copy, decode, encode", |bencher| {
        bencher.iter(|| {
            scratch.copy_from_slice(black_box(&read));
            out.clear();
            let mut input = decoder.feed(&mut scratch, Limits::default());
            while let Ok(Some(event)) = input.next() {
                if let Event::Text(text) = event {
                    encode::text(&mut out, text);
                }
            }
            black_box(&out);
        });
    });
    group.finish();
}

/// A client's text frame of 126 to 65,535 bytes.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend(KEY);
    frame.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

criterion_group!(benches, codec);
criterion_main!(benches);
