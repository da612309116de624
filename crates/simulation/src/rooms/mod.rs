//! Rooms: one store for all nodes, with the real rules on the simulated clock, clients who are in rooms, and what they are
//! promised.
//!
//! | what | where |
//! |---|---|
//! | who asks what of which room, and what becomes of the store | `plan` |
//! | the store, and the ways to it | `store` |
//! | whether the store admits in order, and what has changed in each room | `watch` |
//! | what one client believes of one room | `picture` |
//! | clients ask, and are told | `goer` |
//! | what must hold when it has been quiet | `settle` |

mod goer;
mod picture;
mod plan;
mod settle;
mod store;
mod watch;

use signaling_core::node::RoomSettings;
use signaling_rooms::{Rooms, Rules};

use self::goer::{Ask, RoomClient};
use self::plan::Away;
use self::watch::{Seats, Watch};
use crate::agenda::{Micros, SECOND};
use crate::counters::Counters;
use crate::event::{Act, AskId, Event, SocketId, Wish};
use crate::rng::Rng;
use crate::spans::Spans;
use crate::world::World;

pub(crate) use self::goer::Refused;
pub(crate) use self::plan::RoomPlan;

/// All that there is of rooms beside what nodes know.
pub(crate) struct RoomWorld {
    /// Its own chance: what happens without rooms is the same with them, as far as it can be.
    rng: Rng,
    settings: Option<RoomSettings>,
    rules: Rules,
    store: Rooms,
    watch: Watch,
    away: Vec<Away>,
    /// When the store did not answer.
    unavailable: Spans,
    emptied: Vec<Micros>,
    set_back: Vec<(Micros, Micros)>,
    /// What a replica has, and how many changes were made by then.
    copy: Option<(Rooms, Seats, u64)>,
    changes: u64,
    /// By room, where it is not that of all rooms.
    capacities: Vec<Option<u32>>,
    asks: Vec<Ask>,
    /// How often clients have asked anything.
    said: u64,
    goers: Vec<RoomClient>,
}

impl RoomWorld {
    pub(crate) fn new(seed: u64, plan: RoomPlan, clients: usize) -> Self {
        let RoomPlan { settings, capacity, capacities, asks, away, emptied, set_back } = plan;
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
            asks,
            said: 0,
            goers: (0..clients).map(|_| RoomClient::default()).collect(),
        }
    }

    /// What nodes are told of rooms.
    pub(crate) fn settings(&self) -> RoomSettings {
        self.settings.unwrap_or_default()
    }

    fn presence(&self) -> Micros {
        Micros::try_from(self.settings().presence.as_micros()).unwrap_or(SECOND)
    }

    /// Whether the store has lost anything in this time.
    fn has_lost(&self, from: Micros, until: Micros) -> bool {
        let mut losses = self.emptied.iter().chain(self.set_back.iter().map(|(at, _)| at));
        losses.any(|at| (from..=until).contains(at))
    }

    /// Whether nodes may still give the store back what it has lost.
    fn may_fill(&self, from: Micros, until: Micros) -> bool {
        self.has_lost(from.saturating_sub(2 * self.stale()), until)
    }

    fn stale(&self) -> Micros {
        Micros::try_from(self.rules.stale.as_micros()).unwrap_or(SECOND)
    }

    /// What a client says to ask for something, if that is to be asked for.
    pub(crate) fn says(&mut self, now: Micros, ask: AskId, socket: SocketId, id: u64) -> Option<String> {
        let asked = self.asks.get_mut(ask)?;
        // What is read last may have been said first.
        if asked.said.is_none_or(|(before, _)| before <= socket) {
            asked.said = Some((socket, now));
            self.said += 1;
            asked.turn = self.said;
        }
        // Nobody says by an `id` that it is done.
        asked.answered |= !asked.takes_id();
        Some(asked.to_json(ask, id))
    }

    pub(crate) fn takes_id(&self, ask: AskId) -> bool {
        self.asks.get(ask).is_some_and(Ask::takes_id)
    }

    /// The same once more, as something that nobody has heard of.
    pub(crate) fn anew(&mut self, ask: AskId) -> Option<AskId> {
        let Ask { from, room, what, .. } = *self.asks.get(ask)?;
        self.asks.push(Ask::new(from, room, what));
        Some(self.asks.len() - 1)
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
    /// Schedules what is asked of rooms, and what becomes of the store.
    pub(crate) fn plan_rooms(&mut self) {
        for (ask, asked) in self.rooms.asks.iter().enumerate() {
            self.agenda.schedule(asked.at, Event::Act(Act::Wish(asked.from, Wish::Ask(ask))));
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

/// Rooms and clients have names made of their numbers.
fn number(name: &str) -> Option<usize> {
    name.get(1..)?.parse().ok()
}
