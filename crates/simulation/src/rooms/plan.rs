//! The planned room requests and store faults of a run.

use std::time::Duration;

use signaling_core::node::RoomSettings;

use super::room_client::{RequestKind, RoomRequest};
use crate::agenda::{MS, Micros, SECOND};
use crate::event::ClientIx;
use crate::plan::Size;
use crate::rng::Rng;
use crate::spans::Spans;

/// Room requests and store faults of a run, drawn before it.
#[derive(Debug, Default)]
pub(crate) struct RoomPlan {
    /// `None` means a world without rooms.
    pub(super) settings: Option<RoomSettings>,
    /// `true` if nodes own the rooms; `false` if a store has them.
    pub(crate) mesh: bool,
    /// Default capacity of rooms; `None` means no limit.
    pub(super) capacity: Option<u32>,
    /// Capacity of each room; `None` means the default one.
    pub(super) capacities: Vec<Option<u32>>,
    pub(super) requests: Vec<RoomRequest>,
    /// Times in which the store does not answer.
    pub(super) away: Spans,
    /// Times at which the store loses everything.
    pub(super) emptied: Vec<Micros>,
    /// Time of each loss of the last writes, and how long before it the kept state ends.
    pub(super) set_back: Vec<(Micros, Micros)>,
}

const FIRST: Micros = SECOND;
const LAST: Micros = 30 * SECOND;
const ROOMS: usize = 4;
const CLIENTS_PERCENT: u64 = 60;
/// Addition to the interval of refreshes if nodes own the rooms.
const MESH_REFRESH: Duration = Duration::from_secs(6);

impl RoomPlan {
    /// Draws the plan of a run. Some runs have no rooms.
    pub(crate) fn draw(rng: &mut Rng, size: &Size) -> Self {
        let mut plan = Self::default();
        if !rng.percent(size.rooms_percent) {
            return plan;
        }
        let seconds = |rng: &mut Rng, low, high| Duration::from_secs(rng.within(low, high));
        let (presence_refresh, seat_grace) = (seconds(rng, 8, 12), seconds(rng, 4, 12));
        plan.settings = Some(RoomSettings { presence_refresh, seat_grace, ..RoomSettings::default() });
        plan.capacity = rng.pick(&[None, Some(3), Some(6)]).unwrap_or_default();
        let of_its_own = |_| rng.pick(&[None, None, Some(2), Some(3), Some(4), Some(0)]).unwrap_or_default();
        plan.capacities = (0..ROOMS).map(of_its_own).collect();
        (0..size.clients).for_each(|client| plan.room_client(rng, client));
        plan.requests.sort_by_key(|ask| ask.at);
        plan.mesh = rng.percent(size.mesh_rooms_percent);
        if let Some(settings) = plan.settings.as_mut().filter(|_| plan.mesh) {
            // A translator repeats a request for 30 s. As with the default, its seat lasts longer.
            settings.presence_refresh += MESH_REFRESH;
        }
        if size.faults > 0 && !plan.mesh {
            plan.store(rng);
            plan.set_backs(rng);
        }
        plan
    }

    /// Returns the times at which the store loses data.
    pub(super) fn losses(&self) -> impl Iterator<Item = Micros> {
        self.emptied.iter().copied().chain(self.set_back.iter().map(|(at, _)| *at))
    }

    fn room_client(&mut self, rng: &mut Rng, client: ClientIx) {
        if !rng.percent(CLIENTS_PERCENT) {
            return;
        }
        for _ in 0..rng.within(1, 4) {
            let room = rng.index(ROOMS);
            let mut at = rng.within(FIRST, 10 * SECOND);
            self.ask(at, client, room, RequestKind::Join { shows: true });
            for _ in 0..rng.within(0, 7) {
                at += match rng.within(0, 3) {
                    0 => rng.within(0, 50 * MS),
                    1 => rng.within(50 * MS, SECOND),
                    _ => rng.within(SECOND, 8 * SECOND),
                };
                let what = match rng.within(0, 10) {
                    0..=1 => RequestKind::Leave,
                    2..=3 => RequestKind::Join { shows: true },
                    4 => RequestKind::Join { shows: false },
                    5..=6 => RequestKind::Members,
                    _ => RequestKind::Broadcast,
                };
                self.ask(at, client, room, what);
                if what == RequestKind::Leave && rng.percent(70) {
                    at += rng.delay();
                    self.ask(at, client, room, RequestKind::Join { shows: true });
                }
            }
        }
    }

    fn ask(&mut self, at: Micros, client: ClientIx, room: usize, what: RequestKind) {
        self.requests.push(RoomRequest { at: at.min(LAST), ..RoomRequest::new(client, room, what) });
    }

    fn store(&mut self, rng: &mut Rng) {
        for _ in 0..rng.within(0, 3) {
            let from = rng.within(FIRST, LAST - 6 * SECOND);
            let until = from + rng.within(100 * MS, 6 * SECOND);
            self.away.add(from, until);
            // The store may lose all data in the outage.
            if rng.percent(25) {
                self.emptied.push(until - MS);
            }
        }
        if rng.percent(15) {
            self.emptied.push(rng.within(FIRST, LAST));
        }
    }

    /// Plans the takeover of the store by a lagging replica, with broadcasts while nodes restore
    /// lost data.
    fn set_backs(&mut self, rng: &mut Rng) {
        if rng.percent(40) {
            let at = rng.within(4 * SECOND, LAST);
            let lost = rng.within(50 * MS, 3 * SECOND);
            self.set_back.push((at, lost));
            if rng.percent(50) {
                self.away.add(at - MS, at + rng.within(100 * MS, 3 * SECOND));
            }
        }
        for at in self.losses().collect::<Vec<_>>() {
            for _ in 0..rng.within(0, 4) {
                let clients: Vec<_> = self.requests.iter().map(|ask| (ask.from, ask.room)).collect();
                let Some((client, room)) = rng.pick(&clients) else { return };
                self.ask(at + rng.within(0, 4 * SECOND), client, room, RequestKind::Broadcast);
            }
        }
    }
}
