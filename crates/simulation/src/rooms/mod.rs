//! Rooms of the nodes, clients in them, and checks of their guarantees.

mod commits;
mod operators;
mod plan;
mod room_client;
mod room_view;
mod settle;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use signaling_protocol::{NodeId, RoomName};
use signaling_rooms::{RoomSettings, Rules};
use signaling_wire::forward::LogPosition;

use self::operators::Operators;
use self::room_client::{RoomClient, RoomRequest};
use self::watch::Watch;
use crate::agenda::{Micros, SECOND, micros};
use crate::event::{ClientRequest, RoomRequestIx, SocketId};
use crate::rng::Rng;
use crate::trouble::Trouble;
use crate::world::World;

pub(crate) use self::plan::RoomPlan;

/// Maximum time in which nodes give a room another owner or backup after a fault.
const MAX_REPAIR: Micros = 5 * SECOND;

/// All state of rooms outside the nodes.
#[derive(Default)]
pub(crate) struct RoomWorld {
    /// Separate generator, so that rooms change the rest of a run as little as possible.
    rng: Rng,
    plan: RoomPlan,
    rules: Rules,
    watch: Watch,
    /// The last operation that a node announced, with the owner of its epoch and the version of the
    /// node's view, by room.
    observed: BTreeMap<RoomName, (LogPosition, NodeId, Option<usize>)>,
    /// Time at which each room had room time 0, at the latest: by the earliest announcement of its
    /// owner's operations.
    begun: BTreeMap<RoomName, Micros>,
    /// Times at which an owner lacked operations that were announced before.
    lost_at: Vec<Micros>,
    /// Time of the last answer for each room in which its owner may lack members.
    settled_after: BTreeMap<usize, Micros>,
    requests: Vec<RoomRequest>,
    /// Clients whose last operation in a room had too low a rank, by the room.
    outranked: BTreeSet<(usize, usize)>,
    /// Number of requests that clients sent.
    said: u64,
    clients: Vec<RoomClient>,
    operators: Operators,
}

impl RoomWorld {
    /// Creates the state of the rooms of a run, with `plan` and this number of clients.
    pub(crate) fn new(seed: u64, mut plan: RoomPlan, clients: usize) -> Self {
        let rules = plan.settings.map(|settings| settings.rules).unwrap_or_default();
        Self {
            rng: Rng::new(seed ^ 0x0005_70fe),
            rules,
            watch: Watch::new(rules),
            requests: std::mem::take(&mut plan.requests),
            clients: (0..clients).map(|_| RoomClient::default()).collect(),
            plan,
            ..Self::default()
        }
    }

    /// Returns the room settings of nodes.
    pub(crate) fn settings(&self) -> RoomSettings {
        self.plan.settings.unwrap_or_default()
    }

    /// Returns `true` if owners lacked operations in this time.
    fn has_lost(&self, from: Micros, until: Micros) -> bool {
        self.lost_at.iter().any(|at| (from..=until).contains(at))
    }

    /// Returns `true` if no fault delayed operations on rooms in this time.
    fn is_served(trouble: &Trouble, from: Micros, until: Micros) -> bool {
        trouble.any.with(&trouble.impassable).covers_nothing(from.saturating_sub(MAX_REPAIR), until)
    }

    /// Returns `true` if nodes may still restore lost seats.
    fn may_fill(&self, from: Micros, until: Micros) -> bool {
        self.has_lost(from.saturating_sub(2 * self.stale()), until)
    }

    /// Returns `true` if an owner reported since then that a room may lack members.
    fn was_settling(&self, room: usize, since: Micros) -> bool {
        self.settled_after.get(&room).is_some_and(|at| *at >= since)
    }

    /// Returns the time after which unclaimed seats expire.
    pub(crate) fn stale(&self) -> Micros {
        micros(self.rules.stale)
    }

    /// Returns the JSON of a request with this `id` and records its send. Returns `None` for an
    /// unknown request.
    pub(crate) fn sends(&mut self, now: Micros, ask: RoomRequestIx, socket: SocketId, id: u64) -> Option<String> {
        let request = self.requests.get_mut(ask)?;
        // A socket that is read later may carry an earlier request.
        if request.said.is_none_or(|(before, _)| before <= socket) {
            request.repeated |= request.said.is_some();
            request.said = Some((socket, now));
            self.said += 1;
            request.turn = self.said;
        }
        // A request without an `id` gets no answer by `id`.
        request.answered |= !request.takes_id();
        Some(request.to_json(ask, id))
    }

    /// Returns `true` if the request has an `id`, so that its answer names it.
    pub(crate) fn takes_id(&self, ask: RoomRequestIx) -> bool {
        self.requests.get(ask).is_some_and(RoomRequest::takes_id)
    }

    /// Registers the same request as a new one and returns its index; `None` for an unknown one.
    pub(crate) fn anew(&mut self, ask: RoomRequestIx) -> Option<RoomRequestIx> {
        let RoomRequest { from, room, what, .. } = *self.requests.get(ask)?;
        self.requests.push(RoomRequest::new(from, room, what));
        Some(self.requests.len() - 1)
    }
}

impl World {
    /// Schedules the planned room requests.
    pub(crate) fn plan_rooms(&mut self) {
        for (ask, request) in self.rooms.requests.iter().enumerate() {
            let from = request.from;
            let wanted = ClientRequest::Room(ask);
            self.agenda.schedule(request.at, move |world: &mut Self| world.client_wants(from, wanted));
        }
        self.give_capacities();
        self.plan_operations();
    }
}

/// Returns the number in the name of a room or client.
fn number(name: &str) -> Option<usize> {
    name.get(1..)?.parse().ok()
}
