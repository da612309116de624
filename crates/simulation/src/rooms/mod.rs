//! Rooms: one store for all nodes with the real rules on the simulated clock, clients in rooms,
//! and checks of their guarantees.
//!
//! | responsibility | module |
//! |---|---|
//! | planned requests and store faults | `plan` |
//! | the store and its network | `store` |
//! | admission order of the store, and the changes of each room | `watch` |
//! | one client's view of one room | `room_view` |
//! | requests, answers and events of clients | `room_client` |
//! | checks after a quiet time | `settle` |

mod plan;
mod room_client;
mod room_view;
mod settle;
mod store;
mod watch;

use signaling_core::node::RoomSettings;
use signaling_rooms::{Rooms, Rules};

use self::plan::Away;
use self::room_client::{RoomClient, RoomRequest};
use self::watch::{Seats, Watch};
use crate::agenda::{Micros, SECOND};
use crate::counters::Counters;
use crate::event::{Act, AskId, Event, SocketId, Wish};
use crate::rng::Rng;
use crate::spans::Spans;
use crate::world::World;

pub(crate) use self::plan::RoomPlan;
pub(crate) use self::room_client::Refused;

/// All state of rooms outside the nodes.
pub(crate) struct RoomWorld {
    /// Separate generator, so that rooms change the rest of a run as little as possible.
    rng: Rng,
    settings: Option<RoomSettings>,
    rules: Rules,
    store: Rooms,
    watch: Watch,
    away: Vec<Away>,
    /// Times in which the store did not answer.
    unavailable: Spans,
    emptied: Vec<Micros>,
    set_back: Vec<(Micros, Micros)>,
    /// A replica's state, with the number of changes in it.
    copy: Option<(Rooms, Seats, u64)>,
    changes: u64,
    /// Capacity of each room, by index. `None` means the default of all rooms.
    capacities: Vec<Option<u32>>,
    requests: Vec<RoomRequest>,
    /// Number of requests that clients sent.
    said: u64,
    clients: Vec<RoomClient>,
}

impl RoomWorld {
    pub(crate) fn new(seed: u64, plan: RoomPlan, clients: usize) -> Self {
        let RoomPlan { settings, capacity, capacities, requests, away, emptied, set_back } = plan;
        let presence = settings.map_or(Rules::default().stale, |settings| settings.presence);
        let rules = Rules { capacity, stale: Rules::stale_after(presence), ..Rules::default() };
        let mut unavailable = Spans::default();
        away.iter().for_each(|away| unavailable.add(away.from, away.until));
        Self {
            rng: Rng::new(seed ^ 0x0005_70fe),
            settings,
            rules,
            store: Rooms::new(rules),
            watch: Watch::new(rules),
            away,
            unavailable,
            emptied,
            set_back,
            copy: None,
            changes: 0,
            capacities,
            requests,
            said: 0,
            clients: (0..clients).map(|_| RoomClient::default()).collect(),
        }
    }

    /// Returns the room settings of nodes.
    pub(crate) fn settings(&self) -> RoomSettings {
        self.settings.unwrap_or_default()
    }

    fn presence(&self) -> Micros {
        Micros::try_from(self.settings().presence.as_micros()).unwrap_or(SECOND)
    }

    /// Returns `true` if the store lost data in this time.
    fn has_lost(&self, from: Micros, until: Micros) -> bool {
        let mut losses = self.emptied.iter().chain(self.set_back.iter().map(|(at, _)| at));
        losses.any(|at| (from..=until).contains(at))
    }

    /// Returns `true` if nodes may still restore data that the store lost.
    fn may_fill(&self, from: Micros, until: Micros) -> bool {
        self.has_lost(from.saturating_sub(2 * self.stale()), until)
    }

    fn stale(&self) -> Micros {
        Micros::try_from(self.rules.stale.as_micros()).unwrap_or(SECOND)
    }

    /// Returns the JSON of a request and records its send. Returns `None` for an unknown request.
    pub(crate) fn says(&mut self, now: Micros, ask: AskId, socket: SocketId, id: u64) -> Option<String> {
        let request = self.requests.get_mut(ask)?;
        // A socket that is read later may carry an earlier request.
        if request.said.is_none_or(|(before, _)| before <= socket) {
            request.said = Some((socket, now));
            self.said += 1;
            request.turn = self.said;
        }
        // A request without an `id` gets no answer by `id`.
        request.answered |= !request.takes_id();
        Some(request.to_json(ask, id))
    }

    pub(crate) fn takes_id(&self, ask: AskId) -> bool {
        self.requests.get(ask).is_some_and(RoomRequest::takes_id)
    }

    /// Registers the same request as a new one.
    pub(crate) fn anew(&mut self, ask: AskId) -> Option<AskId> {
        let RoomRequest { from, room, what, .. } = *self.requests.get(ask)?;
        self.requests.push(RoomRequest::new(from, room, what));
        Some(self.requests.len() - 1)
    }

    pub(crate) fn count(&self, counters: &mut Counters) {
        if self.settings.is_none() {
            return;
        }
        counters.add("rooms: worlds with rooms", 1);
        counters.add("rooms: store emptied", self.emptied.len() as u64);
        counters.add("rooms: store away", self.away.len() as u64);
    }
}

impl World {
    /// Schedules the planned room requests and store faults.
    pub(crate) fn plan_rooms(&mut self) {
        for (ask, request) in self.rooms.requests.iter().enumerate() {
            self.agenda.schedule(request.at, Event::Act(Act::Wish(request.from, Wish::Ask(ask))));
        }
        for at in &self.rooms.emptied {
            self.agenda.schedule(*at, Event::Act(Act::StoreEmptied));
        }
        for (at, lost) in &self.rooms.set_back {
            self.agenda.schedule(*at - lost, Event::Act(Act::StoreCopied));
            self.agenda.schedule(*at, Event::Act(Act::StoreSetBack));
        }
        self.give_capacities();
    }
}

/// Returns the number in the name of a room or client.
fn number(name: &str) -> Option<usize> {
    name.get(1..)?.parse().ok()
}
