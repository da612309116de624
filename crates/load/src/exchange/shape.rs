use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::message::Body;

const DESCRIPTION_BYTES: RangeInclusive<usize> = 2_000..=4_000;
const CANDIDATE_BYTES: RangeInclusive<usize> = 150..=300;
const CANDIDATES: RangeInclusive<u32> = 10..=30;
/// Maximum parts of one side: its description, which is part 0, and its candidates.
const PARTS: u64 = 64;

/// Number and size of the messages that the two sides of a call exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) caller: Side,
    pub(super) callee: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    description_bytes: usize,
    pub(super) candidates: u32,
}

impl Shape {
    /// Returns the shape of a call, which depends only on the seed and the number.
    pub(super) fn of(seed: u64, call: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ call.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut side = || Side {
            description_bytes: random.random_range(DESCRIPTION_BYTES),
            candidates: random.random_range(CANDIDATES),
        };
        Self { caller: side(), callee: side() }
    }
}

impl Side {
    /// Returns the number of messages: the description and the candidates.
    pub(super) fn parts(self) -> u32 {
        1 + self.candidates
    }

    /// Returns the sending time of a part since the start of candidate gathering.
    pub(super) fn leaves_after_us(self, part: u32, gather_us: u64) -> u64 {
        gather_us * u64::from(part) / u64::from(self.candidates.max(1))
    }

    pub(super) fn body(self, part: u32) -> Body {
        let bytes = self.bytes(part);
        if part == 0 { Body::description(bytes) } else { Body::candidate(bytes) }
    }

    fn bytes(self, part: u32) -> usize {
        if part == 0 {
            return self.description_bytes;
        }
        let spread = CANDIDATE_BYTES.end() - CANDIDATE_BYTES.start() + 1;
        CANDIDATE_BYTES.start() + (self.description_bytes + part as usize * 37) % spread
    }
}

/// Returns the tag of a message, which encodes its call and part.
pub(super) fn tag_of(call: u64, part: u32) -> u64 {
    call * PARTS + u64::from(part)
}

pub(super) fn call_and_part(tag: u64) -> (u64, u32) {
    (tag / PARTS, (tag % PARTS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_as_large_as_calls_are_and_differ() {
        let shapes: Vec<Shape> = (0..1_000).map(|call| Shape::of(7, call)).collect();
        let sides = || shapes.iter().flat_map(|shape| [shape.caller, shape.callee]);

        assert!(sides().all(|side| CANDIDATES.contains(&side.candidates)));
        assert!(sides().all(|side| DESCRIPTION_BYTES.contains(&side.bytes(0))));
        assert!(sides().all(|side| (1..side.parts()).all(|part| CANDIDATE_BYTES.contains(&side.bytes(part)))));
        let mean = sides().map(|side| f64::from(side.candidates)).sum::<f64>() / 2_000.0;
        assert!((19.0..21.0).contains(&mean), "{mean}");
        assert_ne!(shapes[0], shapes[1]);
        assert_eq!(Shape::of(7, 3), shapes[3]);
        assert_ne!(Shape::of(8, 3), shapes[3]);
    }

    #[test]
    fn description_leaves_first_and_the_last_candidate_at_the_end() {
        let side = Side { description_bytes: 2_000, candidates: 10 };

        assert_eq!([0, 5, 10].map(|part| side.leaves_after_us(part, 100_000)), [0, 50_000, 100_000]);
        assert_eq!(side.leaves_after_us(10, 0), 0);
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for (call, part) in [(0, 0), (1, 30), (9_999_999, 1)] {
            assert_eq!(call_and_part(tag_of(call, part)), (call, part));
        }
        assert!(u64::from(CANDIDATES.end() + 1) <= PARTS);
    }
}
