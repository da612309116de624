//! Connections of edges: what comes by them, and what they have to carry.

use std::time::Instant;

use crate::edge::FlushUrgency;
use rustc_hash::FxHashMap;
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{DetachReason, Slot, ToEdge, ToNode};
use signaling_wire::{Batches, DecodeError};

use super::{NodeCore, SessionKey, TrunkKey};

/// An edge's connection.
#[derive(Debug, Default)]
pub(super) struct Trunk {
    /// Its edge is in this process: it cannot be lost.
    pub(super) local: bool,
    /// The edge's name; none: this node's own, or it has not said.
    pub(super) edge: Option<Box<str>>,
    pub(super) out: Batches,
    /// Fates and their replies: they wait for company, a little, and ride behind each batch.
    pub(super) lazy: Batches,
    pub(super) session_by_slot: FxHashMap<Slot, SessionKey>,
    /// Frames of clients that came by it.
    pub(super) ups: u64,
    /// Sessions with a run of fates to write.
    pub(super) with_fates: Vec<SessionKey>,
}

impl Trunk {
    pub(super) fn send(&mut self, frame: &ToEdge<'_>) {
        self.out.add(|out| frame.append(out));
    }

    pub(super) fn send_lazily(&mut self, frame: &ToEdge<'_>) {
        self.lazy.add(|out| frame.append(out));
    }
}

impl NodeCore {
    /// An edge has connected.
    pub fn trunk_up(&mut self) -> TrunkKey {
        self.add_trunk(Trunk::default())
    }

    /// The edge of this process has connected: its connection cannot be lost.
    pub fn local_trunk_up(&mut self) -> TrunkKey {
        self.add_trunk(Trunk { local: true, ..Trunk::default() })
    }

    /// Whether the trunk is up, for all that this node knows.
    #[must_use]
    pub fn has_trunk(&self, trunk: TrunkKey) -> bool {
        self.trunks.contains_key(trunk)
    }

    fn add_trunk(&mut self, mut trunk: Trunk) -> TrunkKey {
        if self.draining {
            trunk.send(&ToEdge::Draining);
        }
        for (client_id, at) in self.kicks.iter() {
            trunk.send(&ToEdge::Kicked { client_id: client_id.as_str(), at, at_once: false });
        }
        self.trunks.insert(trunk)
    }

    /// An edge's connection is gone: its clients count as absent until they attach again.
    pub fn trunk_down(&mut self, now: Instant, trunk: TrunkKey) {
        let Some(lost) = self.trunks.remove(trunk) else { return };
        self.newcomers_are_gone(trunk);
        let mut sessions: Vec<_> = lost.session_by_slot.into_values().collect();
        sessions.sort_unstable();
        for key in sessions {
            if let Some(session) = self.sessions.get_mut(key) {
                session.detached = true;
                session.fates = None;
            }
            self.lose(now, key, DetachReason::Lost);
        }
    }

    /// A run of frames from an edge.
    ///
    /// # Errors
    /// If the bytes are no frames; those in front of the fault have been carried out.
    pub fn trunk_frames(&mut self, now: Instant, trunk: TrunkKey, mut frames: &[u8]) -> Result<(), DecodeError> {
        while !frames.is_empty() {
            match ToNode::take(&mut frames)? {
                ToNode::Attach(attach) => self.attach(now, trunk, &attach, attach.grant.map(Grant::read).transpose()?),
                ToNode::Grant { slot, grant } => self.granted((trunk, slot), Grant::read(grant)?),
                ToNode::Up { slot, seq, left, payload } => {
                    if let Some(trunk) = self.trunks.get_mut(trunk) {
                        trunk.ups += 1;
                    }
                    self.up(now, (trunk, slot), seq, left, payload);
                }
                ToNode::Confirm { slot, up_to, exceptions } => self.confirm(now, (trunk, slot), up_to, &exceptions),
                ToNode::Detach { slot, gone } => self.detach(now, (trunk, slot), gone),
                ToNode::Release { slot, to } => self.release(now, (trunk, slot), to),
                ToNode::Alive { slot } => self.alive((trunk, slot)),
                ToNode::Kicked { client_id, at } => self.hear_of_kick(now, trunk, client_id, at),
            }
        }
        Ok(())
    }

    /// Whether the trunk has anything to carry, and whether it must not wait.
    #[must_use]
    pub fn trunk_wants(&self, trunk: TrunkKey) -> FlushUrgency {
        match self.trunks.get(trunk) {
            Some(trunk) if !trunk.out.is_empty() => FlushUrgency::Immediate,
            Some(trunk) if !trunk.lazy.is_empty() || !trunk.with_fates.is_empty() => FlushUrgency::Delayed,
            _ => FlushUrgency::Idle,
        }
    }

    /// Takes what the trunk has to carry, fates last: of each all of it, or a batch.
    pub fn take_trunk_batch(&mut self, key: TrunkKey) -> Vec<u8> {
        let Some(trunk) = self.trunks.get_mut(key) else { return Vec::new() };
        for session in std::mem::take(&mut trunk.with_fates) {
            self.write_fates(key, session);
        }
        let Some(trunk) = self.trunks.get_mut(key) else { return Vec::new() };
        let mut batch = trunk.out.take();
        batch.append(&mut trunk.lazy.take());
        batch
    }
}
