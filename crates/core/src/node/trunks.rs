//! Trunks of edges: the session of each slot, and the frames for each trunk's next batch.
//!
//! [`NodeCore`] queues frames here, its shell takes batches. Edges assign slots.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use signaling_wire::trunk::{Slot, ToEdge};
use signaling_wire::{Batches, Counter, Elapsed};
use slotmap::SlotMap;

use super::{NodeCore, SessionKey, TrunkKey};
use crate::edge::FlushUrgency;
use crate::lateness::{Lateness, TooLate, TrunkClock};

/// Maximum bytes queued for an edge, beside those of held messages. 10,000 sessions that attach in
/// one turn may have 6 KiB of greeting and state each.
const MAX_QUEUED: usize = 64 * 1024 * 1024;

/// All trunks of this node.
#[derive(Debug, Default)]
pub struct Trunks {
    trunks: SlotMap<TrunkKey, Trunk>,
}

#[derive(Debug)]
struct Trunk {
    /// The edge runs in this process: its trunk cannot be lost.
    is_local: bool,
    /// The edge's name. `None`: this node's own edge, or an edge that has not sent its name.
    edge: Option<Box<str>>,
    out: Batches,
    /// Outcomes and replies. They wait up to the flush delay, and come last in a batch.
    lazy: Batches,
    session_by_slot: FxHashMap<Slot, SessionKey>,
    /// Time of the queued frames, and lateness of the arriving ones.
    clock: TrunkClock,
    lateness: Lateness,
    /// Number of uplink frames received.
    ups: u64,
    /// Sessions with outcomes that are not written yet.
    with_outcomes: Vec<SessionKey>,
    status: Status,
}

/// The report of an edge's server about itself.
#[derive(Debug, Default, PartialEq, Eq)]
enum Status {
    #[default]
    Unknown,
    Requested,
    Received(Box<[u8]>),
}

impl Trunks {
    /// Adds a trunk. `is_local`: its edge runs in this process.
    pub(super) fn add(&mut self, now: Instant, is_local: bool) -> TrunkKey {
        self.trunks.insert(Trunk {
            is_local,
            edge: None,
            out: Batches::default(),
            lazy: Batches::default(),
            session_by_slot: FxHashMap::default(),
            clock: TrunkClock::new(now),
            lateness: Lateness::new(now),
            ups: 0,
            with_outcomes: Vec::new(),
            status: Status::default(),
        })
    }

    /// Removes a trunk. Returns its sessions in the order of their keys. `None`: it is lost.
    pub(super) fn remove(&mut self, trunk: TrunkKey) -> Option<Vec<SessionKey>> {
        let mut sessions: Vec<_> = self.trunks.remove(trunk)?.session_by_slot.into_values().collect();
        sessions.sort_unstable();
        Some(sessions)
    }

    /// Returns `true` until the trunk is lost.
    pub fn contains(&self, trunk: TrunkKey) -> bool {
        self.trunks.contains_key(trunk)
    }

    /// Returns the session of a slot. `None`: the trunk is lost, or the slot is not in use.
    pub(super) fn session_at(&self, (trunk, slot): (TrunkKey, Slot)) -> Option<SessionKey> {
        self.trunks.get(trunk)?.session_by_slot.get(&slot).copied()
    }

    /// Counts an uplink frame, and returns the session of its slot as [`Self::session_at`].
    #[inline]
    pub(super) fn uplink(&mut self, (trunk, slot): (TrunkKey, Slot)) -> Option<SessionKey> {
        let trunk = self.trunks.get_mut(trunk)?;
        trunk.ups += 1;
        trunk.session_by_slot.get(&slot).copied()
    }

    /// Binds a slot to a session. The trunk has to be up.
    pub(super) fn bind(&mut self, (trunk, slot): (TrunkKey, Slot), session: SessionKey) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.session_by_slot.insert(slot, session);
        }
    }

    /// Frees a slot.
    pub(super) fn unbind(&mut self, (trunk, slot): (TrunkKey, Slot)) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.session_by_slot.remove(&slot);
        }
    }

    /// Queues a frame, unless the trunk is lost.
    #[inline]
    pub(super) fn send(&mut self, trunk: TrunkKey, frame: &ToEdge<'_>) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.out.add(|out| frame.append(out));
        }
    }

    /// Queues a frame with a TTL, and its time, unless the trunk is lost.
    #[inline]
    pub(super) fn send_timed(&mut self, now: Instant, counter: &Counter, trunk: TrunkKey, frame: &ToEdge<'_>) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            let elapsed = trunk.clock.time(now);
            let clock = |out: &mut Vec<u8>| ToEdge::Clock { elapsed, counter: counter.present(now) }.append(out);
            trunk.out.add_stamped(elapsed, clock, |out| frame.append(out));
        }
    }

    /// Sends the time and the counter over each trunk on which no other frame has done so.
    pub(super) fn beat(&mut self, now: Instant, counter: &Counter) {
        for trunk in self.trunks.values_mut() {
            if let Some(elapsed) = trunk.clock.beat(now) {
                trunk.out.add(|out| ToEdge::Clock { elapsed, counter: counter.present(now) }.append(out));
            }
        }
    }

    /// Measures frames with this time that arrive now. Returns how late they are.
    ///
    /// # Errors
    /// If they are more than 5 s late.
    pub(super) fn measure(&mut self, now: Instant, trunk: TrunkKey, elapsed: Elapsed) -> Result<Duration, TooLate> {
        self.trunks.get_mut(trunk).map_or(Ok(Duration::ZERO), |trunk| trunk.lateness.measure(now, elapsed))
    }

    /// Queues a frame that may wait up to the flush delay, unless the trunk is lost.
    #[inline]
    pub(super) fn send_lazily(&mut self, trunk: TrunkKey, frame: &ToEdge<'_>) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.lazy.add(|out| frame.append(out));
        }
    }

    /// Queues a frame for every trunk except `except`. `None`: for all.
    pub(super) fn send_to_all(&mut self, except: Option<TrunkKey>, frame: &ToEdge<'_>) {
        for (_, trunk) in self.trunks.iter_mut().filter(|(key, _)| Some(*key) != except) {
            trunk.out.add(|out| frame.append(out));
        }
    }

    /// Records that a session has outcomes to write before the trunk's next batch.
    pub(super) fn has_outcomes(&mut self, trunk: TrunkKey, session: SessionKey) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.with_outcomes.push(session);
        }
    }

    /// Stores the report of a trunk's edge, if it was requested.
    pub(super) fn set_status(&mut self, trunk: TrunkKey, report: &[u8]) {
        if let Some(trunk) = self.trunks.get_mut(trunk).filter(|trunk| trunk.status == Status::Requested) {
            trunk.status = Status::Received(report.into());
        }
    }

    /// Returns the name of a trunk's edge. `None`: the node's own edge, or no name was sent.
    pub(super) fn edge(&self, trunk: TrunkKey) -> Option<&str> {
        self.trunks.get(trunk)?.edge.as_deref()
    }
}

/// Trunks, as the shell and operators use them.
impl Trunks {
    /// Returns the urgency of the trunk's next batch; `Idle` for a lost trunk.
    pub fn wants(&self, trunk: TrunkKey) -> FlushUrgency {
        match self.trunks.get(trunk) {
            Some(trunk) if !trunk.out.is_empty() => FlushUrgency::Immediate,
            Some(trunk) if !trunk.lazy.is_empty() || !trunk.with_outcomes.is_empty() => FlushUrgency::Delayed,
            _ => FlushUrgency::Idle,
        }
    }

    /// Stores the name of a trunk's edge, for operators. Ignores a lost trunk.
    pub fn name_edge(&mut self, trunk: TrunkKey, name: &str) {
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.edge = Some(name.into());
        }
    }

    /// Asks the edges of all trunks from other processes for reports about their servers.
    pub fn request_statuses(&mut self) {
        for trunk in self.trunks.values_mut().filter(|trunk| !trunk.is_local) {
            trunk.status = Status::Requested;
            trunk.out.add(|out| ToEdge::StatusRequest.append(out));
        }
    }

    /// Has the server of the edge with this name taken out of service for an operator, or returned.
    /// Returns `false` if no trunk of this name is connected.
    pub fn set_edge_drained(&mut self, name: &str, drained: bool) -> bool {
        let is_its = |trunk: &&mut Trunk| !trunk.is_local && trunk.edge.as_deref() == Some(name);
        // An edge that renews its trunk has two.
        let trunks = self.trunks.values_mut().filter(is_its);
        trunks.map(|trunk| trunk.out.add(|out| ToEdge::SetDrained { drained }.append(out))).count() > 0
    }

    /// Returns `true` if an edge has not answered the last request for reports.
    pub fn awaits_statuses(&self) -> bool {
        self.trunks.values().any(|trunk| trunk.status == Status::Requested)
    }

    /// Returns the reports of edges since the last request, as JSON.
    pub fn statuses(&self) -> impl Iterator<Item = &[u8]> {
        self.trunks.values().filter_map(|trunk| match &trunk.status {
            Status::Received(report) => Some(&**report),
            Status::Unknown | Status::Requested => None,
        })
    }
}

impl NodeCore {
    /// Takes the trunk's next batch, with outcomes last; empty without frames or a trunk. It has at
    /// most twice [`MAX_BATCH_BYTES`](signaling_wire::limits::MAX_BATCH_BYTES). Others may follow.
    pub fn take_trunk_batch(&mut self, key: TrunkKey) -> Vec<u8> {
        let Some(trunk) = self.trunks.trunks.get_mut(key) else { return Vec::new() };
        for session in std::mem::take(&mut trunk.with_outcomes) {
            self.write_outcomes(session);
        }
        let Some(trunk) = self.trunks.trunks.get_mut(key) else { return Vec::new() };
        let mut batch = trunk.out.take();
        batch.append(&mut trunk.lazy.take());
        batch
    }

    /// Removes all trunks of edges in other processes, as if they were lost.
    pub fn close_trunks(&mut self, now: Instant) {
        self.end_trunks(now, |_| true);
    }

    /// Removes the trunks with too many queued bytes: their edges take too little. The shell closes
    /// them.
    pub(super) fn end_full_trunks(&mut self, now: Instant) {
        let limit = MAX_QUEUED.saturating_add(self.settings.hold_limits.bytes);
        self.end_trunks(now, |trunk| trunk.out.bytes() + trunk.lazy.bytes() > limit);
    }

    fn end_trunks(&mut self, now: Instant, is_ended: impl Fn(&Trunk) -> bool) {
        let ended = self.trunks.trunks.iter().filter(|(_, trunk)| !trunk.is_local && is_ended(trunk));
        ended.map(|(key, _)| key).collect::<Vec<_>>().into_iter().for_each(|trunk| self.trunk_down(now, trunk));
    }

    /// Returns for each trunk the name of its edge, the number of clients served over it, and of
    /// uplink frames received from it. No name: the edge is this node's own, or has sent none.
    pub fn edges(&self) -> impl Iterator<Item = (Option<&str>, usize, u64)> {
        let is_attached = |key| self.directory.get(key).is_some_and(|session| !session.socket_ended);
        self.trunks.trunks.values().map(move |trunk| {
            let attached = trunk.session_by_slot.values().filter(|session| is_attached(**session)).count();
            (trunk.edge.as_deref(), attached, trunk.ups)
        })
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::trunk::ToNode;

    use super::*;
    use crate::fixtures::mesh_node;

    #[test]
    fn report_of_an_edge_is_kept_only_if_it_was_requested() {
        let now = Instant::now();
        let mut node = mesh_node("n0", &["n0"]);
        let (local, trunk) = (node.add_trunk(now, true), node.add_trunk(now, false));
        let reports = |node: &mut NodeCore, report: &[u8]| {
            let mut bytes = Vec::new();
            ToNode::Status { report }.append(&mut bytes);
            node.trunk_frames(now, trunk, &bytes).unwrap();
            node.trunks().statuses().map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        assert!(reports(&mut node, b"1").is_empty());
        node.trunks_mut().request_statuses();
        assert!(node.take_trunk_batch(local).is_empty(), "its own edge is no other server");
        assert_eq!(ToEdge::take(&mut &*node.take_trunk_batch(trunk)).unwrap(), ToEdge::StatusRequest);
        node.trunks_mut().name_edge(trunk, "b0");
        assert!(node.trunks_mut().set_edge_drained("b0", true) && !node.trunks_mut().set_edge_drained("b1", true));
        assert_eq!(ToEdge::take(&mut &*node.take_trunk_batch(trunk)).unwrap(), ToEdge::SetDrained { drained: true });
        assert!(node.trunks().awaits_statuses());
        assert_eq!(reports(&mut node, b"2"), [b"2"]);
        assert!(!node.trunks().awaits_statuses());
        assert_eq!(reports(&mut node, b"3"), [b"2"]);
    }

    #[test]
    fn trunk_with_too_many_queued_bytes_ends() {
        let now = Instant::now();
        for (is_local, excess, stays) in [(false, 0, true), (false, 1, false), (true, 1, true)] {
            let mut node = mesh_node("n0", &["n0"]);
            node.settings.hold_limits.bytes = 1_000;
            let trunk = node.add_trunk(now, is_local);
            node.trunks.trunks[trunk].out.add(|out| *out = vec![0; MAX_QUEUED]);
            node.trunks.trunks[trunk].lazy.add(|out| *out = vec![0; 1_000 + excess]);
            node.sweep(now);
            assert_eq!(node.trunks().contains(trunk), stays, "{is_local} {excess}");
        }
    }
}
