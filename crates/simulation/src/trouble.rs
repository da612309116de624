//! When what was wrong in the mesh, as far as it excuses anything.

use crate::agenda::Micros;
use crate::plan::FaultKind;
use crate::spans::Spans;

/// Stretches of time, by what they excuse.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Something that clients may feel: delays, and what plain clients get twice.
    pub(crate) any: Spans,
    /// Messages may have no way at all: everything but a single cut between two of three nodes or more.
    pub(crate) impassable: Spans,
    /// Servers may not know all that they were told: nodes that died or did nothing, ways that were cut.
    pub(crate) lossy: Spans,
    /// Servers may see different views.
    pub(crate) views: Spans,
}

impl Trouble {
    /// A fault is on. `detour` says that every two nodes still reach each other by way of others.
    pub(crate) fn fault(&mut self, kind: FaultKind, detour: bool, from: Micros, until: Micros) {
        match kind {
            // Nobody's messages depend on it, but for those of its clients, who are away.
            FaultKind::DrainEdge => return,
            FaultKind::Join | FaultKind::Drain | FaultKind::Flap => self.views.add(from, until),
            // What depends on a node that is out is excused by its crash. Other nodes serve.
            FaultKind::Silence => return self.impassable.add(from, until),
            FaultKind::CrashEdge => {}
            _ => self.lossy.add(from, until),
        }
        self.any.add(from, until);
        if !detour {
            self.impassable.add(from, until);
        }
    }

    /// Servers get to know a new view.
    pub(crate) fn view(&mut self, from: Micros, until: Micros) {
        self.any.add(from, until);
        self.impassable.add(from, until);
        self.views.add(from, until);
    }
}
