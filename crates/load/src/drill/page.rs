use std::ops::{Add, AddAssign, Sub};

use serde::Serialize;

use crate::metrics::sum;

/// What a server's metrics page says, or several together, of what is of interest here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Sessions that balancers have asked a node to let go (`signaling_handoffs_total`).
    pub(super) handoffs: u64,
    /// Sessions that have come to a node (`signaling_sessions_attached_total`): by handoff, or by themselves.
    pub(super) attached: u64,
    /// Envelopes that nodes have sent again (`signaling_resends_total`).
    pub(super) resends: u64,
    /// Frames that edges have sent again (`signaling_edge_resends_total`).
    pub(super) edge_resends: u64,
    /// Repeats that edges did not write again (`signaling_filtered_repeats_total`).
    pub(super) filtered_repeats: u64,
}

/// A metrics page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) counts: Counts,
    /// Sessions at this node now (`signaling_sessions`).
    pub(super) sessions: u64,
}

impl Page {
    /// Reads the text format of Prometheus; what is not there is 0.
    pub(super) fn read(text: &str) -> Self {
        let counts = Counts {
            handoffs: sum(text, "signaling_handoffs_total"),
            attached: sum(text, "signaling_sessions_attached_total"),
            resends: sum(text, "signaling_resends_total"),
            edge_resends: sum(text, "signaling_edge_resends_total"),
            filtered_repeats: sum(text, "signaling_filtered_repeats_total"),
        };
        Self { counts, sessions: sum(text, "signaling_sessions") }
    }
}

impl Counts {
    /// Sessions that have moved: handed off, or re-attached without (their node was gone). Each of the former attaches too.
    pub(super) fn moved(&self) -> u64 {
        self.handoffs.max(self.attached)
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            handoffs: self.handoffs + other.handoffs,
            attached: self.attached + other.attached,
            resends: self.resends + other.resends,
            edge_resends: self.edge_resends + other.edge_resends,
            filtered_repeats: self.filtered_repeats + other.filtered_repeats,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Of an earlier reading; not below 0.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            handoffs: self.handoffs.saturating_sub(earlier.handoffs),
            attached: self.attached.saturating_sub(earlier.attached),
            resends: self.resends.saturating_sub(earlier.resends),
            edge_resends: self.edge_resends.saturating_sub(earlier.edge_resends),
            filtered_repeats: self.filtered_repeats.saturating_sub(earlier.filtered_repeats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_by_whole_names_and_labels_are_summed_up() {
        let text = "# HELP signaling_sessions Sessions with a socket at this node.\n\
                    # TYPE signaling_sessions gauge\n\
                    signaling_sessions 34\n\
                    signaling_sessions_attached_total 40\n\
                    signaling_sessions_detached_total 6\n\
                    signaling_resends_total{to=\"a\"} 2\n\
                    signaling_resends_total{to=\"b\"} 3\n\
                    signaling_edge_resends_total 7\n\
                    signaling_handoffs_total 8\n\
                    signaling_filtered_repeats_total 1\n";

        let counts = Counts { handoffs: 8, attached: 40, resends: 5, edge_resends: 7, filtered_repeats: 1 };
        assert_eq!(Page::read(text), Page { counts, sessions: 34 });
    }

    #[test]
    fn what_is_no_page_counts_nothing() {
        assert_eq!(Page::read("<html>\nsignaling_sessions many\n"), Page::default());
    }

    #[test]
    fn a_session_that_was_handed_off_and_attached_has_moved_once() {
        assert_eq!(Counts { handoffs: 5, attached: 7, ..Counts::default() }.moved(), 7);
        assert_eq!(Counts { handoffs: 5, attached: 4, ..Counts::default() }.moved(), 5);
    }
}
