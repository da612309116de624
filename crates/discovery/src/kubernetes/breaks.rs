//! Decides when repeated breaks of working watches are logged. Pure.
//!
//! A list repairs each break at once, so the view is never old, and one or two breaks are harmless.
//! Repeated breaks or silences cost the API server a list each time and delay changes.

use std::mem::{replace, take};

/// Excess of breaks over good ends that causes a warning.
const BREAKS_FOR_WARNING: u32 = 3;

/// Recent breaks minus good ends.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    count: u32,
    is_logged: bool,
}

impl Breaks {
    /// Records a break of a working watch. Returns `true` if a warning is due.
    pub(super) fn broke(&mut self) -> bool {
        self.count = (self.count + 1).min(BREAKS_FOR_WARNING);
        self.count == BREAKS_FOR_WARNING && !replace(&mut self.is_logged, true)
    }

    /// Records an end in time. Returns `true` if recovery from a logged warning is due in the log.
    pub(super) fn ended(&mut self) -> bool {
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
            let logged: Vec<_> = (0..6).map(|_| breaks.broke()).collect();
            assert_eq!(logged, [false, false, true, false, false, false]);
            let logged: Vec<_> = (0..5).map(|_| breaks.ended()).collect();
            assert_eq!(logged, [false, false, true, false, false]);
        }
    }

    #[test]
    fn rare_break_is_not_logged() {
        let mut breaks = Breaks::default();
        assert!((0..100).all(|_| !breaks.broke() && !breaks.ended()));
    }

    #[test]
    fn rare_clean_end_does_not_reset_the_count() {
        let mut breaks = Breaks::default();
        let logged = (0..100).filter(|_| breaks.broke() | breaks.broke() | breaks.ended()).count();
        assert_eq!(logged, 1);
    }
}
