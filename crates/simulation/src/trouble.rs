//! Times of faults in the mesh, by the deviations that they excuse. `faults` records them; the
//! checks of `ledger`, `clients` and `rooms` read them.

use crate::agenda::{MS, Micros, SECOND};
use crate::ledger::RECOVERY;
use crate::plan::FaultKind;
use crate::spans::Spans;

/// Times of faults, by the deviations that they excuse.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Clients may see delays, plain clients also duplicates: any new view or fault, except an
    /// edge's drain and a silence of discovery.
    pub(crate) any: Spans,
    /// Messages may have no path: any fault but an edge's drain, or a single cut in a mesh of at
    /// least three nodes. A cut soon after another fault counts too: nodes still avoid the peers
    /// that they suspected.
    pub(crate) impassable: Spans,
    /// Servers may have lost information: nodes died, servers were paused, or connections were cut.
    pub(crate) lossy: Spans,
    /// Servers may have different views.
    pub(crate) views: Spans,
    /// Servers may measure batches as less late than they are: a trunk or lane opened slowly.
    pub(crate) slow_openings: Spans,
}

/// Longest opening of a trunk or lane that hides no lateness.
const PROMPT_OPENING: Micros = 300 * MS;
/// Time after a slow opening in which its trunk or lane may carry no prompt batch.
const UNMEASURED: Micros = 30 * SECOND;

impl Trouble {
    /// Records a fault by its kind. With `detour` every two nodes still reach each other, possibly
    /// through others.
    pub(crate) fn fault(&mut self, kind: FaultKind, detour: bool, from: Micros, until: Micros) {
        match kind {
            // Only messages of the edge's own clients depend on it, and they are away.
            FaultKind::DrainEdge => return,
            FaultKind::Join | FaultKind::Drain | FaultKind::Flap => self.views.add(from, until),
            // The crash of a node excuses the messages that depend on it. Other nodes serve.
            FaultKind::Silence => return self.impassable.add(from, until),
            FaultKind::CrashEdge => {}
            _ => self.lossy.add(from, until),
        }
        let is_single = self.any.covers_nothing(from.saturating_sub(RECOVERY), from);
        self.any.add(from, until);
        if !(detour && is_single) {
            self.impassable.add(from, until);
        }
    }

    /// Records that a trunk or lane that was asked for at `began` opens.
    pub(crate) fn opening(&mut self, began: Micros, now: Micros) {
        if now - began > PROMPT_OPENING {
            self.slow_openings.add(now, now + UNMEASURED);
        }
    }

    /// Records the publication of a new view.
    pub(crate) fn view(&mut self, from: Micros, until: Micros) {
        self.any.add(from, until);
        self.impassable.add(from, until);
        self.views.add(from, until);
    }
}
