//! Decides when `Watcher` logs repeated breaks of working watches. Pure.
//! A list repairs each break at once, so the view is never old, and one or two breaks are harmless.
//! Repeated breaks or silences cost the API server a list each time and delay changes.

use std::mem::{replace, take};

/// Excess of breaks over good ends that causes a warning.
const BREAKS_FOR_WARNING: u32 = 3;

/// Breaks of working watches minus ends in time, from 0 to 3.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    count: u32,
    is_logged: bool,
}

impl Breaks {
    /// Records a break of a working watch. Returns `true` once per series, when a warning is due.
    pub(super) fn record_break(&mut self) -> bool {
        self.count = (self.count + 1).min(BREAKS_FOR_WARNING);
        self.count == BREAKS_FOR_WARNING && !replace(&mut self.is_logged, true)
    }

    /// Records an end in time. Returns `true` when the recovery from a warning is to be logged.
    pub(super) fn record_end(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        self.count == 0 && take(&mut self.is_logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_in_a_row_are_logged_once() {
        let mut breaks = Breaks::default();
        for _ in 0..2 {
            let logged: Vec<_> = (0..6).map(|_| breaks.record_break()).collect();
            assert_eq!(logged, [false, false, true, false, false, false]);
            let logged: Vec<_> = (0..5).map(|_| breaks.record_end()).collect();
            assert_eq!(logged, [false, false, true, false, false]);
        }
    }

    #[test]
    fn rare_break_is_not_logged() {
        let mut breaks = Breaks::default();
        assert!((0..100).all(|_| !breaks.record_break() && !breaks.record_end()));
    }

    #[test]
    fn rare_clean_end_does_not_reset_the_count() {
        let mut breaks = Breaks::default();
        let logged = (0..100).filter(|_| breaks.record_break() | breaks.record_break() | breaks.record_end()).count();
        assert_eq!(logged, 1);
    }
}
