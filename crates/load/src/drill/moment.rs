use std::time::Duration;

use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::{DrillOptions, Step};
use crate::traffic::TrafficOptions;

/// Before the first act, so that there is something to compare with.
const BEFORE: Duration = Duration::from_secs(2);
/// After the last act, so that its effects show.
const AFTER: Duration = Duration::from_secs(3);

/// When the first act is to be, from the begin of the measured time: as told, or drawn from its first half.
pub(super) fn first_act_us(options: &DrillOptions, traffic: &TrafficOptions, steps: &[Step]) -> Result<u64> {
    let seconds = Duration::from_secs(traffic.seconds);
    let waits: Duration = steps.iter().map(|step| step.wait).sum();
    let Some(latest) = seconds.checked_sub(waits + AFTER).filter(|latest| *latest >= BEFORE) else {
        let needed = BEFORE + waits + AFTER;
        bail!("--seconds {} is too short for these acts: they need {}", traffic.seconds, needed.as_secs_f64().ceil());
    };
    let at = match options.at {
        Some(at) => Duration::try_from_secs_f64(at).unwrap_or_default(),
        None => StdRng::seed_from_u64(traffic.seed).random_range(BEFORE..=latest.min(BEFORE.max(seconds / 2))),
    };
    if !(BEFORE..=latest).contains(&at) {
        bail!("--at is to be from {} to {} here", BEFORE.as_secs_f64(), latest.as_secs_f64());
    }
    Ok(u64::try_from(at.as_micros())?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::drill::Act;
    use crate::testing::parse;

    fn moment(arguments: &[&str], waits: &[u64]) -> Result<u64> {
        let command = parse(arguments).unwrap();
        let steps = waits.iter().map(|wait| Step { wait: Duration::from_secs(*wait), act: Act::Scale(1) });
        first_act_us(&command.drill, &command.traffic, &steps.collect::<Vec<_>>())
    }

    #[test]
    fn a_moment_that_was_told_is_taken() {
        assert_eq!(moment(&["--seconds=20", "--at=4.5"], &[0]).unwrap(), 4_500_000);
    }

    #[test]
    fn a_drawn_moment_follows_from_the_seed_and_leaves_time_before_and_after() {
        let drawn: Vec<u64> =
            (0..100).map(|seed| moment(&["--seconds=20", &format!("--seed={seed}")], &[0, 10]).unwrap()).collect();

        assert!(drawn.iter().all(|moment| (2_000_000..=7_000_000).contains(moment)), "{drawn:?}");
        assert_ne!(drawn[0], drawn[1]);
        assert_eq!(drawn[7], moment(&["--seconds=20", "--seed=7"], &[0, 10]).unwrap());
    }

    #[test]
    fn too_little_time_is_refused_with_what_would_do() {
        let error = |arguments: &[&str], waits: &[u64]| moment(arguments, waits).unwrap_err().to_string();

        assert!(error(&["--seconds=10"], &[0, 6]).contains("they need 11"));
        assert!(error(&["--seconds=10", "--at=8"], &[0]).contains("from 2 to 7"));
        assert!(error(&["--seconds=10", "--at=-1"], &[0]).contains("from 2 to 7"));
    }
}
