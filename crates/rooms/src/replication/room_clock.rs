//! Room time: ms since the creation of a room, counted by one process at a time.

use std::time::{Duration, Instant};

/// Clock of a room at this process. It goes on from the time that a former process has counted, so
/// it compares no clocks of two servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoomClock {
    /// Room time at `since`, in ms.
    time: u64,
    since: Instant,
}

impl RoomClock {
    /// Creates a clock that shows this time (ms) now.
    pub(super) fn at(now: Instant, time: u64) -> Self {
        Self { time, since: now }
    }

    /// Returns the present room time in ms.
    pub(super) fn time(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.since).as_millis();
        self.time.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Sets the clock forward to a time (ms) that another process has counted. It never goes back.
    pub(super) fn raise(&mut self, now: Instant, time: u64) {
        if time > self.time(now) {
            *self = Self::at(now, time);
        }
    }

    /// Returns when the clock shows a room time (ms), or an earlier moment if it has shown it
    /// before. `None`: no `Instant` is that late.
    pub(super) fn instant(&self, time: u64) -> Option<Instant> {
        self.since.checked_add(Duration::from_millis(time.saturating_sub(self.time)))
    }
}

#[cfg(test)]
mod tests {
    use signaling_protocol::{ClientId, NodeId, RoomName};
    use signaling_wire::RoomRequestId;
    use signaling_wire::forward::Item;

    use super::super::requests::Requester;
    use super::*;
    use crate::Operation;
    use crate::fixtures::{Node, requester};

    const SECOND: Duration = Duration::from_secs(1);

    /// The owner `n0` of a room and its backup `n1`, whose clocks differ.
    struct Pair {
        owner: Node,
        backup: Node,
        room: RoomName,
    }

    impl Pair {
        /// Creates a pair. The clock of one of the two is an hour ahead.
        fn new(is_owner_ahead: bool) -> Self {
            let [mut owner, mut backup] = ["n0", "n1"].map(|id| Node::new(id, &["n0", "n1"]));
            (if is_owner_ahead { &mut owner } else { &mut backup }).now += 3_600 * SECOND;
            let room = owner.room_of("n0");
            let mut pair = Self { owner, backup, room };
            pair.pass(Duration::ZERO);
            // Both confirm the view.
            for _ in 0..3 {
                pair.deliver();
            }
            pair
        }

        /// Both clocks go on. The nodes answer each other.
        fn pass(&mut self, time: Duration) {
            for node in [&mut self.owner, &mut self.backup] {
                node.now += time;
                node.all_answer();
            }
        }

        /// Delivers what the nodes have sent.
        fn deliver(&mut self) {
            let (of_owner, of_backup) = (self.owner.fill_lanes(), self.backup.fill_lanes());
            deliver(&of_owner, "n0", &mut self.backup);
            deliver(&of_backup, "n1", &mut self.owner);
        }

        /// Applies operations at the owner, and has the backup apply them.
        fn apply(&mut self, ops: impl IntoIterator<Item = Operation>) {
            ops.into_iter().for_each(|op| ask(&mut self.owner, &self.room, op));
            self.deliver();
        }

        /// Sends the backup the whole room, which begins an epoch.
        fn copy(&mut self) {
            self.owner.step().assign_backup(&self.room);
        }

        /// Ends the owner. Returns the backup as the next one, and the room.
        fn take_over(mut self) -> (Node, RoomName) {
            self.backup.set_view(&["n1"]);
            assert_eq!(self.backup.rooms.mesh_counts().taken_over, 1);
            (self.backup, self.room)
        }

        /// Returns the room time at the backup in seconds.
        fn time_at_backup(&self) -> u64 {
            self.backup.rooms.mesh.copies[&self.room].clock.time(self.backup.now) / 1_000
        }
    }

    fn deliver(items: &[Vec<u8>], from: &str, to: &mut Node) {
        let from = NodeId::new(from).unwrap();
        items.iter().for_each(|item| to.step().received(&from, &Item::take(&mut &item[..]).unwrap()));
    }

    fn ask(node: &mut Node, room: &RoomName, op: Operation) {
        let requester = Requester { node: node.rooms.mesh.id.clone(), id: RoomRequestId(1) };
        node.step().room_requested(requester, (room.clone(), 0), op);
    }

    fn join(client: &str) -> Operation {
        Operation::Join { requester: requester(client, "n1", 1), data: None, capacity: None }
    }

    fn members(node: &Node, room: &RoomName) -> u64 {
        node.rooms.owned(room.as_str()).map_or(0, |room| room.counts().0)
    }

    /// Takes the room of a pair over 20 s after these operations. The backup has their log, or a
    /// copy alone.
    fn each_takeover(ops: impl Fn() -> Vec<Operation>, test: impl Fn(Node, RoomName)) {
        for (is_owner_ahead, is_copied) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut pair = Pair::new(is_owner_ahead);
            ops().into_iter().for_each(|op| ask(&mut pair.owner, &pair.room, op));
            let log = pair.owner.fill_lanes();
            if !is_copied {
                deliver(&log, "n0", &mut pair.backup);
            }
            pair.pass(5 * SECOND);
            if is_copied {
                pair.copy();
            }
            pair.deliver();
            pair.pass(15 * SECOND);
            let (next, room) = pair.take_over();
            test(next, room);
        }
    }

    #[test]
    fn unclaimed_seat_ends_in_its_time_after_a_takeover() {
        let keep = 45 * SECOND;
        let ops = || vec![join("alice"), Operation::Drop { requester: requester("alice", "n1", 1), keep }];
        each_takeover(ops, |mut next, room| {
            for (passed, present) in [(24 * SECOND, 1), (SECOND, 0)] {
                next.now += passed;
                next.sweep();
                assert_eq!(members(&next, &room), present);
            }
        });
    }

    #[test]
    fn block_ends_in_its_time_after_a_takeover() {
        let block = Operation::Remove { client: ClientId::new("alice").unwrap(), block: Some(60 * SECOND) };
        each_takeover(|| vec![block.clone()], |next, room| admits_after(40 * SECOND, next, &room));
    }

    #[test]
    fn closure_ends_in_its_time_after_a_takeover() {
        let close = Operation::Close { time: Some(60 * SECOND) };
        each_takeover(|| vec![close.clone()], |next, room| admits_after(40 * SECOND, next, &room));
    }

    /// Checks that alice can join after this time, and not a second before.
    fn admits_after(time: Duration, mut node: Node, room: &RoomName) {
        for (passed, present) in [(time - SECOND, 0), (SECOND, 1)] {
            node.now += passed;
            ask(&mut node, room, join("alice"));
            assert_eq!(members(&node, room), present);
        }
    }

    #[test]
    fn room_time_does_not_go_back_when_items_are_late() {
        for is_copied in [false, true] {
            let mut pair = Pair::new(true);
            pair.apply([join("alice")]);
            pair.pass(10 * SECOND);
            match is_copied {
                true => pair.copy(),
                false => ask(&mut pair.owner, &pair.room, join("bob")),
            }
            pair.pass(20 * SECOND);
            pair.deliver();
            assert_eq!(pair.time_at_backup(), 30, "{is_copied}");
        }
    }

    #[test]
    fn backup_goes_on_from_the_time_of_the_owner() {
        let mut pair = Pair::new(false);
        pair.apply([join("alice")]);
        pair.pass(10 * SECOND);
        // The backup counts no time while its process is suspended.
        pair.owner.now += 50 * SECOND;
        pair.owner.all_answer();
        pair.apply([join("bob")]);
        pair.pass(SECOND);
        assert_eq!(pair.time_at_backup(), 61);
    }

    #[test]
    fn clock_shows_no_earlier_time() {
        let start = Instant::now();
        let mut clock = RoomClock::at(start + SECOND, 5_000);
        assert_eq!(clock.time(start), 5_000);
        clock.raise(start + 2 * SECOND, 5_999);
        assert_eq!(clock.time(start + 2 * SECOND), 6_000);
        clock.raise(start + 2 * SECOND, 9_000);
        assert_eq!(clock.time(start + 3 * SECOND), 10_000);
        assert_eq!(clock.instant(10_000), Some(start + 3 * SECOND));
        assert_eq!(clock.instant(1), Some(start + 2 * SECOND));
    }
}
