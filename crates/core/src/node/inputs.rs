//! Trunks that open and fail, and frames of edges, as the shell passes them in.

use std::time::{Duration, Instant};

use crate::edge::{KickName, TrunkError};
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{DetachReason, ToEdge, ToNode};

use super::{NodeCore, TrunkKey};

impl NodeCore {
    /// Adds the trunk of an edge in another process. The edge first receives `Draining` if this
    /// node drains, and all kicks. `now`: the time at which the trunk is accepted.
    pub fn trunk_up(&mut self, now: Instant) -> TrunkKey {
        self.add_trunk(now, false)
    }

    /// Adds the trunk of this process's own edge, as [`Self::trunk_up`]. It is not removed by
    /// [`Self::close_trunks`] or after a process pause.
    pub fn local_trunk_up(&mut self, now: Instant) -> TrunkKey {
        self.add_trunk(now, true)
    }

    pub(super) fn add_trunk(&mut self, now: Instant, is_local: bool) -> TrunkKey {
        let trunk = self.trunks.add(now, is_local);
        if self.peers.is_draining() {
            self.trunks.send(trunk, &ToEdge::Draining);
        }
        for (name, at) in self.kicks.iter() {
            self.trunks.send(trunk, &ToEdge::Kicked { name: name.as_str(), at, at_once: false });
        }
        trunk
    }

    /// Removes a lost trunk. Its sessions linger, and its clients count as absent until they attach
    /// again. Its waiting newcomers are dropped. Ignores a trunk that was removed before.
    pub fn trunk_down(&mut self, now: Instant, trunk: TrunkKey) {
        let Some(sessions) = self.trunks.remove(trunk) else { return };
        self.directory.drop_newcomers(|of, _| of == trunk);
        for key in sessions {
            if let Some(session) = self.directory.get_mut(key) {
                session.detached = true;
                session.outcomes = None;
            }
            self.lose(now, key, DetachReason::Lost);
        }
    }

    /// Handles a run of frames from an edge, whose trunk has to be up. A frame for a slot without a
    /// session has no effect, unless it attaches one or ends the wait of the slot's newcomer.
    ///
    /// # Errors
    /// If the bytes are no frames, hold a damaged grant, or are more than 5 s late. Frames before
    /// the fault have been handled. The trunk must be closed.
    pub fn trunk_frames(&mut self, now: Instant, trunk: TrunkKey, mut frames: &[u8]) -> Result<(), TrunkError> {
        let mut late = Duration::ZERO;
        while !frames.is_empty() {
            match ToNode::take(&mut frames)? {
                ToNode::Attach(attach) => {
                    self.counter.receive(now, attach.rank.0)?;
                    self.attach(now, trunk, &attach, attach.grant.map(Grant::read).transpose()?);
                }
                ToNode::Clock { elapsed, counter } => {
                    self.counter.receive(now, counter)?;
                    late = self.trunks.measure(now, trunk, elapsed)?;
                }
                ToNode::Grant { slot, grant } => self.granted(now, (trunk, slot), Grant::read(grant)?),
                ToNode::Up { slot, seq, ttl, payload } => {
                    if let Some(session) = self.trunks.uplink((trunk, slot)) {
                        self.up(now, session, seq, ttl.less(late), payload);
                    }
                }
                ToNode::Confirm { slot, up_to, exceptions } => self.confirm(now, (trunk, slot), up_to, &exceptions),
                ToNode::Detach { slot, cause, debts } => self.detach(now, (trunk, slot), (cause, debts)),
                ToNode::Release { slot, to } => self.release(now, (trunk, slot), to),
                ToNode::Alive { slot } => self.alive((trunk, slot)),
                ToNode::Proved { slot, client_id } => self.proved(now, (trunk, slot), client_id),
                ToNode::Kicked { name, at } => self.learn_kick(now, Some(trunk), &KickName::new(name), at),
                ToNode::Status { report } => self.trunks.set_status(trunk, report),
            }
        }
        Ok(())
    }
}
