//! Decides when `Watcher` logs repeated breaks of working watches. Pure.
//! A watch works from `KubernetesSettings::proven_after` on. It ends in time if the API server ends
//! it then. Any other end is a break: an error, or silence. A list repairs each break, so one or
//! two are harmless. Repeated ones cost the API server a list each time and delay changes.

use std::mem::{replace, take};

/// Excess of breaks over ends in time that causes a warning.
const BREAKS_FOR_WARNING: u32 = 3;

/// Breaks of working watches minus ends in time, from 0 to 3.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    count: u32,
    is_logged: bool,
}

impl Breaks {
    /// Records a break. Returns `true` when a warning is due: at 3, once until the recovery.
    pub(super) fn record_break(&mut self) -> bool {
        self.count = (self.count + 1).min(BREAKS_FOR_WARNING);
        self.count == BREAKS_FOR_WARNING && !replace(&mut self.is_logged, true)
    }

    /// Records an end in time. Returns `true` when the recovery is to be logged: at 0.
    pub(super) fn record_end_in_time(&mut self) -> bool {
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
            let logged: Vec<_> = (0..5).map(|_| breaks.record_end_in_time()).collect();
            assert_eq!(logged, [false, false, true, false, false]);
        }
    }

    #[test]
    fn rare_break_is_not_logged() {
        let mut breaks = Breaks::default();
        assert!((0..100).all(|_| !breaks.record_break() && !breaks.record_end_in_time()));
    }

    #[test]
    fn rare_end_in_time_does_not_reset_the_count() {
        let mut breaks = Breaks::default();
        let mut logs = || breaks.record_break() | breaks.record_break() | breaks.record_end_in_time();
        let logged = (0..100).filter(|_| logs()).count();
        assert_eq!(logged, 1);
    }
}
