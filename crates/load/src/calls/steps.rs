use std::fmt::Write as _;

use serde::Serialize;

/// What the set-up time was at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Step {
    /// Calls a second.
    pub(crate) rate: u64,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    /// Whether something else speaks against it: messages lost, or calls that could not be begun in time.
    pub(crate) is_fine: bool,
}

/// Where the 99th percentile has doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubling {
    /// The last rate at which it had not; absent where already the first is not kept up.
    pub(crate) below: Option<u64>,
    /// The first at which it had.
    pub(crate) above: u64,
}

/// `None` as long as it has not doubled.
pub(crate) fn doubling(steps: &[Step]) -> Option<Doubling> {
    let first = steps.first()?;
    let above = steps.iter().position(|step| !step.is_fine || step.p99_us > 2 * first.p99_us)?;
    let below = above.checked_sub(1).map(|before| steps[before].rate);
    Some(Doubling { below, above: steps[above].rate })
}

/// One line for each rate.
pub(crate) fn table(steps: &[Step]) -> String {
    let mut table = format!("\n{:>10}{:>12}{:>12}\n", "calls/s", "p50 ms", "p99 ms");
    for Step { rate, p50_us, p99_us, is_fine } in steps {
        let ms = |us: &u64| *us as f64 / 1_000.0;
        let note = if *is_fine { "" } else { "  not kept up" };
        // Writing to a String cannot fail.
        let _ = writeln!(table, "{rate:>10}{:>12.1}{:>12.1}{note}", ms(p50_us), ms(p99_us));
    }
    match doubling(steps) {
        Some(Doubling { below: Some(below), above }) => {
            let _ = writeln!(table, "the p99 of the set-up time doubles between {below} and {above} calls a second");
        }
        Some(Doubling { below: None, above }) => {
            let _ = writeln!(table, "already {above} calls a second are not kept up: begin with a lower --rate");
        }
        None => table.push_str("the p99 of the set-up time has not doubled\n"),
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(times: &[(u64, u64, bool)]) -> Vec<Step> {
        let step = |(rate, p99_us, is_fine): &(u64, u64, bool)| Step {
            rate: *rate,
            p50_us: *p99_us / 2,
            p99_us: *p99_us,
            is_fine: *is_fine,
        };
        times.iter().map(step).collect()
    }

    #[test]
    fn it_has_doubled_at_the_first_rate_above_twice_the_first() {
        let steps = steps(&[(200, 5_000, true), (250, 9_000, true), (312, 10_001, true)]);

        assert_eq!(doubling(&steps), Some(Doubling { below: Some(250), above: 312 }));
        assert_eq!(doubling(&steps[..2]), None);
        assert!(table(&steps).contains("between 250 and 312"));
    }

    #[test]
    fn a_rate_that_is_not_kept_up_counts_as_doubled() {
        let doubled = doubling(&steps(&[(200, 5_000, true), (250, 6_000, false)]));

        assert_eq!(doubled, Some(Doubling { below: Some(200), above: 250 }));
    }

    #[test]
    fn a_first_rate_that_is_not_kept_up_has_none_below() {
        let steps = steps(&[(50, 5_000, false)]);

        assert_eq!(doubling(&steps), Some(Doubling { below: None, above: 50 }));
        assert!(table(&steps).contains("already 50 calls a second"), "{}", table(&steps));
    }

    #[test]
    fn without_a_rate_there_is_nothing_to_double() {
        assert_eq!(doubling(&[]), None);
    }
}
