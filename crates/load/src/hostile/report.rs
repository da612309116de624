use serde::Serialize;

use super::HostileOptions;
use super::edges::Seen;

const MIB: f64 = 1024.0 * 1024.0;
/// Less of the crowd than this share, on average, is another crowd.
const ENOUGH: f64 = 0.8;

/// Who was there, on average, while the good clients were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Present {
    handshakes: f64,
    deaf: f64,
}

impl Present {
    pub(crate) fn mean(looks: &[(u64, u64)]) -> Self {
        let mean = |of: fn(&(u64, u64)) -> u64| looks.iter().map(of).sum::<u64>() as f64 / looks.len().max(1) as f64;
        Self { handshakes: mean(|look| look.0), deaf: mean(|look| look.1) }
    }

    /// Says who was missing.
    pub(crate) fn failures(&self, options: &HostileOptions) -> impl Iterator<Item = String> {
        let crowd = [("handshakes", self.handshakes, options.handshakes), ("deaf clients", self.deaf, options.deaf)];
        let is_missing = |(_, present, all): &(&str, f64, u32)| *present < f64::from(*all) * ENOUGH;
        let failure = |(what, present, all)| format!("of {all} {what} only {present:.0} were there");
        crowd.into_iter().filter(is_missing).map(failure)
    }
}

impl Seen {
    /// What its memory says against it.
    pub(crate) fn failure(&self) -> Option<String> {
        let Self { edge, resident_bytes, bound_bytes, .. } = self;
        if *bound_bytes == 0 {
            return Some(format!("{edge} does not say how much memory its clients can make it use"));
        }
        let is_too_much = resident_bytes > bound_bytes;
        is_too_much.then(|| {
            let (had, bound) = (*resident_bytes as f64 / MIB, *bound_bytes as f64 / MIB);
            format!("{edge} had {had:.0} MiB, and said that {bound:.0} is the most")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_fails_that_has_more_than_it_said_or_says_nothing() {
        let seen = |resident_bytes, bound_bytes| Seen { resident_bytes, bound_bytes, ..Seen::default() };

        assert_eq!(seen(1, 1).failure(), None);
        assert!(seen(2 << 20, 1 << 20).failure().is_some_and(|text| text.contains("2 MiB")));
        assert!(seen(1, 0).failure().is_some());
    }

    #[test]
    fn who_was_there_is_a_mean() {
        assert_eq!(Present::mean(&[(10, 4), (20, 8)]), Present { handshakes: 15.0, deaf: 6.0 });
        assert_eq!(Present::mean(&[]), Present::default());
    }
}
