//! All rooms of a node, as one machine: rooms with seats of its clients, and rooms that it owns or
//! backs up. An input is a [`Step`]. What it decides waits in [`Outputs`].

use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ErrorCode, NodeId};
use signaling_wire::{Counter, Incarnation, SessionId};

use crate::counted::ByteTotal;
use crate::replication::MeshRooms;
use crate::seats::LocalRooms;
use crate::{Context, Outputs, RoomSettings, Step};

slotmap::new_key_type! {
    /// Key of a client's session with one socket at its node. After the session is removed it names
    /// no other one.
    pub struct SocketKey;
}

/// One process of a node.
#[derive(Debug, Clone)]
pub struct NodeProcess {
    /// The node's name.
    pub id: NodeId,
    /// Random id of this process start.
    pub incarnation: Incarnation,
    /// Seed of the rendezvous hash, the same on all servers.
    pub hash_seed: u64,
    /// Start of the process.
    pub start: Instant,
}

/// The rooms of a node. `M` is a message of a client that waits for a room, or goes to its members:
/// the rooms only keep it.
pub struct Rooms<M> {
    pub(crate) local: LocalRooms<M>,
    pub(crate) mesh: MeshRooms,
}

impl<M: Clone> Rooms<M> {
    /// Creates the rooms of a node without clients and view.
    pub fn new(process: &NodeProcess, settings: RoomSettings) -> Self {
        let bytes = ByteTotal::default();
        let local = LocalRooms::new(process.start, settings, Rc::clone(&bytes));
        Self { local, mesh: MeshRooms::new(process, &settings, bytes) }
    }

    /// Returns the machine for an input at a time. The caller takes the outputs after it.
    /// `counter`: that of the node.
    pub fn step<'a, C: Context>(&'a mut self, now: Instant, counter: &'a mut Counter, cx: C) -> Step<'a, M, C> {
        Step { local: &mut self.local, mesh: &mut self.mesh, counter, cx, now }
    }
}

impl<M> Rooms<M> {
    /// Returns the state of a session for its next node. Without `is_final` it lacks room versions:
    /// the client may miss later messages if this node fails.
    pub fn state_of(&self, session: SessionId, resumed: bool, delivered: Vec<(u64, u64)>, is_final: bool) -> Vec<u8> {
        self.local.state_of(session, resumed, delivered, is_final)
    }

    /// Returns `true` if outputs are to be carried out.
    #[inline]
    pub fn has_outputs(&self) -> bool {
        !self.local.outputs.is_empty()
    }

    /// Takes all outputs, in order.
    pub fn take_outputs(&mut self) -> Outputs<M> {
        std::mem::take(&mut self.local.outputs)
    }

    /// Gives the memory of outputs back that were taken and carried out.
    pub fn reuse_outputs(&mut self, done: Outputs<M>) {
        self.local.outputs.reuse(done);
    }

    /// Returns the number of items for nodes that were dropped, for lack of room in a lane or as
    /// damaged.
    pub fn dropped(&self) -> u64 {
        self.local.dropped
    }

    /// Returns the refused requests, in the order of [`ErrorCode::ALL`].
    pub fn refused(&self) -> [u64; ErrorCode::ALL.len()] {
        self.local.refused
    }

    /// Returns `true` if rare sweeps suffice: no room has pending work.
    pub fn is_idle(&self) -> bool {
        self.local.is_idle() && self.mesh.is_idle()
    }

    /// Returns `true` if the node may stop: no command and request is pending, and no room waits
    /// here for its next owner.
    pub fn is_quiet(&self) -> bool {
        self.local.is_quiet() && self.mesh.is_quiet()
    }
}
