//! Operators who remove and block clients and close rooms, and what answers promise them.

use std::collections::BTreeMap;

use signaling_protocol::{ClientId, RoomName};
use signaling_rooms::{Change, OpResult, Operation, Request, RoomAnswer};

use crate::agenda::{MS, Micros, micros};
use crate::event::ClientIx;
use crate::world::World;

/// Clocks of rooms have a resolution of 1 ms.
const ROUNDING: Micros = 2 * MS;

/// A client in a room that an operator named, or (`None`) all of them.
type Target = (RoomName, Option<ClientId>);

/// Requests for one target.
#[derive(Debug, Default)]
struct Acts {
    requested: Vec<Micros>,
    /// Times from which and until which it is kept out. `None`: unknown after several requests,
    /// which can arrive in another order.
    ban: Option<(Micros, Micros)>,
    /// Time of the answer that it had a seat, which is ended.
    ended: Option<Micros>,
}

#[derive(Debug, Default)]
pub(super) struct Operators {
    /// Requests by their numbers, from 1 on, each with its time.
    asked: Vec<(Micros, Request)>,
    acts: BTreeMap<Target, Acts>,
}

fn target(Request { room, op }: &Request) -> Option<Target> {
    match op {
        Operation::Remove { client, .. } | Operation::Unblock { client } => Some((room.clone(), Some(client.clone()))),
        Operation::Close { .. } | Operation::Open => Some((room.clone(), None)),
        _ => None,
    }
}

impl Operators {
    /// Records a request, and returns its number.
    fn asks(&mut self, now: Micros, request: &Request) -> u64 {
        if let Some(target) = target(request) {
            let acts = self.acts.entry(target).or_default();
            acts.requested.push(now);
            acts.ban = None;
        }
        self.asked.push((now, request.clone()));
        self.asked.len() as u64
    }

    fn answered(&mut self, now: Micros, number: u64, result: &OpResult) {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let Some((since, request)) = index.and_then(|index| self.asked.get(index)) else { return };
        let Some(acts) = target(request).and_then(|target| self.acts.get_mut(&target)) else { return };
        let time = match request.op {
            Operation::Remove { block, .. } => block,
            Operation::Close { time } => time,
            _ => None,
        };
        if acts.requested.len() == 1 && result.refused.is_none() {
            acts.ban = time.map(|time| (now, since + micros(time)));
        }
        if result.statuses.first().is_some_and(|status| status.end_by_operator().is_some()) {
            acts.ended = Some(now);
        }
    }

    fn of(&self, room: &RoomName, client: &ClientId) -> impl Iterator<Item = &Acts> {
        let targets = [Some(client.clone()), None];
        targets.into_iter().filter_map(|client| self.acts.get(&(room.clone(), client)))
    }

    /// Returns the time from which a client is kept out of a room between these times. `None`: it
    /// may join at one of them.
    fn bans(&self, room: &RoomName, client: &ClientId, (earliest, latest): (Micros, Micros)) -> Option<Micros> {
        let bans = self.of(room, client).filter_map(|acts| acts.ban);
        bans.filter(|(from, until)| *from < earliest && latest + ROUNDING < *until).map(|(from, _)| from).min()
    }
}

impl World {
    /// Schedules the planned requests of operators, each through a live node.
    pub(super) fn plan_operations(&mut self) {
        for (at, request) in std::mem::take(&mut self.rooms.plan.operations) {
            self.agenda.schedule(at, move |world: &mut Self| {
                let alive = |(index, node): (usize, &crate::nodes::NodeHost)| node.server.alive.then_some(index);
                let alive: Vec<_> = world.nodes.iter().enumerate().filter_map(alive).collect();
                let Some(index) = world.rooms.rng.pick(&alive) else { return };
                let number = world.rooms.operators.asks(world.agenda.now(), &request);
                world.counters.add("rooms: requests of operators", 1);
                world.nodes[index].core.rooms_mut().request_for_operator(number, request);
                world.node_turn(index);
            });
        }
    }

    pub(super) fn operators_are_answered(&mut self, answers: Vec<RoomAnswer>) {
        let now = self.agenda.now();
        for (number, answer) in answers {
            if let Ok(result) = answer {
                self.rooms.operators.answered(now, number, &result);
            }
        }
    }

    /// Checks that an operation between these times admitted no client that an operator keeps out.
    /// The loss of nodes can lose blocks.
    pub(super) fn check_bans(&mut self, times: (Micros, Micros), room: &RoomName, changes: &[Change]) {
        for change in changes {
            let Change::Joined(member) = change else { continue };
            let Some(from) = self.rooms.operators.bans(room, &member.client, times) else { continue };
            if self.trouble.lossy.covers_nothing(from, self.agenda.now()) {
                let what = format!("{} joins {room}, kept out since {} ms", member.client, (times.0 - from) / MS);
                self.ledger.broken("room bans", what);
            }
        }
    }

    /// Returns `true` if an operator named this client in the room, or the room, since then.
    pub(super) fn was_operated(&self, client: ClientIx, room: usize, since: Micros) -> bool {
        self.acts(client, room).any(|acts| acts.requested.iter().any(|at| *at >= since))
    }

    /// Returns `true` if an operator has ended the client's seat after it received something of
    /// the room last, without a fault since.
    pub(super) fn was_ended(&self, client: ClientIx, room: usize, since: Micros) -> bool {
        let (now, lossy) = (self.agenda.now(), &self.trouble.lossy);
        let ended = self.acts(client, room).filter_map(|acts| acts.ended).max();
        ended.is_some_and(|ended| ended > since && lossy.covers_nothing(since, now))
    }

    fn acts(&self, client: ClientIx, room: usize) -> impl Iterator<Item = &Acts> {
        let names = RoomName::new(&format!("r{room}")).ok().zip(ClientId::new(&format!("c{client}")).ok());
        names.into_iter().flat_map(|(room, client)| self.rooms.operators.of(&room, &client).collect::<Vec<_>>())
    }
}
