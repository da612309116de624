//! The planned room requests of a run.

use std::time::Duration;

use signaling_protocol::{ClientId, RoomName};
use signaling_rooms::{Operation, Request, RoomSettings, Rules};

use super::room_client::{RequestKind, RoomRequest};
use crate::agenda::{MS, Micros, SECOND};
use crate::event::ClientIx;
use crate::plan::Size;
use crate::rng::Rng;

/// Room requests of a run, drawn before it.
#[derive(Debug, Default)]
pub(crate) struct RoomPlan {
    /// `None` means a world without rooms.
    pub(crate) settings: Option<RoomSettings>,
    /// Capacity of each room; `None` means the default one.
    pub(super) capacities: Vec<Option<u32>>,
    pub(super) requests: Vec<RoomRequest>,
    /// Requests of operators, each with its time.
    pub(super) operations: Vec<(Micros, Request)>,
}

const FIRST: Micros = SECOND;
const LAST: Micros = 30 * SECOND;
const ROOMS: usize = 4;
const CLIENTS_PERCENT: u64 = 60;

impl RoomPlan {
    /// Draws the plan of a run. Some runs have no rooms.
    pub(crate) fn draw(rng: &mut Rng, size: &Size) -> Self {
        let mut plan = Self::default();
        if !rng.percent(size.rooms_percent) {
            return plan;
        }
        let seconds = |rng: &mut Rng, low, high| Duration::from_secs(rng.within(low, high));
        // A translator repeats a request for 30 s. As with the default, its seat lasts longer.
        let stale = seconds(rng, 14, 18) * 9 / 4;
        let seat_grace = seconds(rng, 4, 12);
        let capacity = rng.pick(&[None, Some(3), Some(6)]).unwrap_or_default();
        let rules = Rules { capacity, stale, ..Rules::default() };
        plan.settings = Some(RoomSettings { rules, records_commits: true, seat_grace, ..RoomSettings::default() });
        let of_its_own = |_| rng.pick(&[None, None, Some(2), Some(3), Some(4), Some(0)]).unwrap_or_default();
        plan.capacities = (0..ROOMS).map(of_its_own).collect();
        (0..size.clients).for_each(|client| plan.room_client(rng, client));
        plan.requests.sort_by_key(|ask| ask.at);
        plan.operations = (0..size.operator_requests).filter_map(|_| operation(rng, size.clients)).collect();
        plan
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
}

/// Draws a request of an operator. `None` without clients.
fn operation(rng: &mut Rng, clients: usize) -> Option<(Micros, Request)> {
    let at = rng.within(FIRST, LAST);
    let room = RoomName::new(&format!("r{}", rng.index(ROOMS))).ok()?;
    let client = ClientId::new(&format!("c{}", rng.index(clients.max(1)))).ok()?;
    let time = Duration::from_millis(rng.within(500, 12_000));
    let op = match rng.within(0, 12) {
        0..=3 => Operation::Remove { client, block: None },
        4..=8 => Operation::Remove { client, block: Some(time) },
        9 => Operation::Unblock { client },
        10 => Operation::Close { time: Some(time / 2) },
        _ => Operation::Open,
    };
    (clients > 0).then_some((at, Request { room, op }))
}
