//! A room with a manual clock, and its clients.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{Change, LeftReason, OpResult, Operation, Request, Requester, Room, Rules, Seat, SeatStatus};
use signaling_wire::{Rank, SessionId, SocketId};

use crate::mesh::Mesh;

/// Time of the first operation, in milliseconds since 1970. By the rules alone it is the room time.
pub(crate) const START_MS: u64 = 1_800_000_000_000;
/// Time after which unclaimed seats expire, for [`rules`].
pub(crate) const STALE: Duration = Duration::from_secs(45);

/// Place of a room.
enum Owner {
    /// The rules alone.
    Rules(Box<Room>),
    /// Nodes that own the room.
    Mesh(Mesh),
}

/// One room, its time and its clients.
pub(crate) struct TestRoom {
    owner: Owner,
    rules: Rules,
    name: RoomName,
    now_ms: u64,
    numbers: u64,
}

/// Returns rules for rooms of `capacity` members (0: no limit).
pub(crate) fn rules(capacity: u32) -> Rules {
    Rules { capacity: Some(capacity), stale: STALE, ..Rules::default() }
}

/// Runs a test on a room by the rules alone, and of one and three nodes.
pub(crate) fn on_all(rules: Rules, test: impl Fn(TestRoom)) {
    [0, 1, 3].into_iter().for_each(|nodes| test(TestRoom::new(rules, nodes)));
}

impl TestRoom {
    /// Creates a room in a mesh of this number of nodes. 0: by the rules alone.
    pub(crate) fn new(rules: Rules, nodes: usize) -> Self {
        let owner = match nodes {
            0 => Owner::Rules(Box::new(Room::new(START_MS))),
            _ => Owner::Mesh(Mesh::new(nodes, rules)),
        };
        Self { owner, rules, name: RoomName::new("lobby").unwrap(), now_ms: START_MS, numbers: 0 }
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.now_ms += u64::try_from(time.as_millis()).unwrap();
    }

    pub(crate) fn apply(&mut self, op: Operation) -> OpResult {
        match &mut self.owner {
            Owner::Rules(room) => room.apply(&self.rules, self.now_ms, &op),
            Owner::Mesh(mesh) => {
                mesh.pass_until(self.now_ms);
                mesh.apply(&Request { room: self.name.clone(), op }).1
            }
        }
    }

    /// Returns the requester for the client's next command.
    pub(crate) fn requester(&mut self, name: &str) -> Requester {
        self.numbers += 1;
        Requester { number: self.numbers, ..requester(name) }
    }

    /// Joins a client by its next command, with its name as data.
    pub(crate) fn join(&mut self, name: &str) -> OpResult {
        let requester = self.requester(name);
        self.apply(Operation::Join { requester, data: Some(format!("{{\"name\":\"{name}\"}}").into()), capacity: None })
    }

    /// Joins clients one after the other.
    pub(crate) fn join_all(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.join(name)));
    }

    pub(crate) fn leave(&mut self, name: &str) -> OpResult {
        let requester = self.requester(name);
        self.apply(Operation::Leave { requester })
    }

    pub(crate) fn end_session(&mut self, name: &str, keep: Duration) -> OpResult {
        let requester = self.requester(name);
        self.apply(Operation::Drop { requester, keep })
    }

    pub(crate) fn claim(&mut self, names: &[&str]) -> OpResult {
        let seats = names.iter().map(|name| seat(requester(name), SeatStatus::Unknown));
        self.apply(Operation::Claim { seats: seats.collect() })
    }

    pub(crate) fn restore(&mut self, seats: Vec<Seat>, version: u64) -> OpResult {
        self.apply(Operation::Restore { seats, confirmed_in: (0, 0), version, capacity: None })
    }

    /// Replaces the room by an unknown one.
    pub(crate) fn lose(&mut self) {
        self.name = RoomName::new(&format!("{}-without-data", self.name)).unwrap();
        if let Owner::Rules(room) = &mut self.owner {
            **room = Room::new(self.now_ms + 1_000);
        }
    }

    /// Returns the members of the first page, oldest first.
    pub(crate) fn members(&mut self) -> Vec<String> {
        let result = self.apply(Operation::List { after: None });
        result.members.iter().map(|member| member.client.as_str().to_owned()).collect()
    }
}

/// Returns the only session of a client, at node-0.
pub(crate) fn requester(name: &str) -> Requester {
    let mut session = [0; 16];
    session.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    Requester {
        client: ClientId::new(name).unwrap(),
        session: SessionId(session),
        socket: SocketId([1; 8]),
        rank: Rank(1_800_000_000_000_000),
        attachment: 0,
        number: 0,
        node: NodeId::new("node-0").unwrap(),
    }
}

pub(crate) fn seat(requester: Requester, status: SeatStatus) -> Seat {
    Seat { requester, status, data: None }
}

/// Returns `true` if the only status of a result is that of a member.
pub(crate) fn is_member(result: &OpResult) -> bool {
    matches!(result.statuses[..], [SeatStatus::Member { .. }])
}

/// Returns the clients ahead of the only client of a result, which must be waiting.
pub(crate) fn ahead(result: &OpResult) -> u64 {
    match result.statuses[..] {
        [SeatStatus::Waiting { ahead, .. }] => ahead,
        ref other => panic!("{other:?}"),
    }
}

/// Formats changes: `+name` for a join, `-name` for a leave, `!name` for an expiry, and `~name` for
/// a seat that an operator ended.
pub(crate) fn changes_of(result: &OpResult) -> Vec<String> {
    let change = |change: &Change| match change {
        Change::Joined(member) => format!("+{}", member.client),
        Change::Left { client, reason: LeftReason::Left | LeftReason::Forbidden } => format!("-{client}"),
        Change::Left { client, reason: LeftReason::Expired } => format!("!{client}"),
        Change::Left { client, reason: LeftReason::Removed | LeftReason::Closed } => format!("~{client}"),
    };
    result.changes.iter().map(change).collect()
}
