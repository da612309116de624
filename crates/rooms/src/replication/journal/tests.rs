use signaling_protocol::NodeId;
use signaling_wire::{Rank, RoomRequestId, SessionId};

use super::super::copies::RoomCopy;
use super::super::requests::Requester as Request;
use super::reading::{MAX_READS, READING_TIME};
use super::*;
use crate::fixtures::{Node, requester};
use crate::journal::{JournalBans, JournalRead, JournalRoom, JournalSummary};
use crate::{Operation, Output, RoomSettings, Rules, SeatKind, SeatStatus};

const NOW: Duration = Duration::ZERO;

/// Returns the only node of a mesh, whose rooms have two members each, this long after its
/// start.
fn node(age: Duration) -> Node {
    let rules = Rules { capacity: Some(2), ..Rules::default() };
    let mut node = Node::with("n0", &["n0"], RoomSettings { has_journal: true, rules, ..RoomSettings::default() });
    node.now += age;
    node
}

fn name(room: &str) -> RoomName {
    RoomName::new(room).unwrap()
}

fn ask(node: &mut Node, room: &str, op: Operation) {
    let requester = Request { node: NodeId::new("n0").unwrap(), id: RoomRequestId(1) };
    node.step().room_requested(requester, (name(room), 0), op);
}

fn join(client: &str, number: u64) -> Operation {
    Operation::Join { requester: requester(client, "n0", number), data: None, capacity: None }
}

fn leave(client: &str) -> Operation {
    Operation::Leave { requester: requester(client, "n0", 9) }
}

/// Takes all writes and reports each as written.
fn write(node: &mut Node) -> Vec<JournalWrite> {
    let mut all = Vec::new();
    loop {
        let writes = node.rooms.take_journal(node.now, 1);
        if writes.is_empty() {
            return all;
        }
        for write in &writes {
            node.step().journal_written(&write.room, write.number, JournalOutcome::Written);
        }
        all.extend(writes);
    }
}

/// Returns each client of the only write with its former and present kind.
fn clients(writes: &[JournalWrite]) -> Vec<(&str, Option<SeatKind>, Option<SeatKind>)> {
    let [JournalWrite { state: Some(state), .. }] = writes else { panic!("{writes:?}") };
    let kind = |seat: &Seat| if seat.status.is_member() { SeatKind::Member } else { SeatKind::Waiting };
    state.clients.iter().map(|it| (it.client.as_str(), it.former, it.seat.as_ref().map(kind))).collect()
}

fn reads(node: &mut Node) -> Vec<String> {
    let outputs = node.rooms.take_outputs().queue.into_iter();
    outputs.filter_map(|it| if let Output::ReadJournal { room } = it { Some(room.to_string()) } else { None }).collect()
}

fn seat(client: &str, status: SeatStatus) -> Seat {
    Seat { requester: requester(client, "n0", 1), status, data: None }
}

/// Answers a read with members alice and bob, and carol in the queue.
fn found(node: &mut Node, epoch: u64) {
    found_with(node, epoch, JournalBans::default());
}

/// Answers a read as [`found`], with these bans.
fn found_with(node: &mut Node, epoch: u64, bans: JournalBans) {
    let seats = vec![
        seat("alice", SeatStatus::Member { place: 5 }),
        seat("bob", SeatStatus::Member { place: 6 }),
        seat("carol", SeatStatus::Waiting { place: 7, ahead: 0 }),
    ];
    let summary = JournalSummary { incarnation: 3, version: 4, capacity: Some(2), keeps_capacity: true };
    let found = Some(JournalRoom { epoch, summary, bans, seats });
    node.step().journal_read(JournalRead { room: name("r"), found });
}

fn counts(node: &Node) -> (u64, u64) {
    node.rooms.owned("r").unwrap().counts()
}

#[test]
fn write_has_the_present_state_of_changed_clients() {
    use SeatKind::{Member, Waiting};
    let mut node = node(READING_TIME);
    ["alice", "bob", "carol"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
    let first = write(&mut node);
    assert_eq!((first[0].number, first[0].after), (1, None));
    let all = [("alice", None, Some(Member)), ("bob", None, Some(Member)), ("carol", None, Some(Waiting))];
    assert_eq!(clients(&first), all);

    ask(&mut node, "r", leave("alice"));
    ask(&mut node, "r", join("dave", 1));
    ask(&mut node, "r", join("erin", 1));
    ask(&mut node, "r", leave("erin"));
    let second = write(&mut node);
    assert_eq!((second[0].number, second[0].after), (2, Some(1)));
    let changed =
        [("alice", Some(Member), None), ("carol", Some(Waiting), Some(Member)), ("dave", None, Some(Waiting))];
    assert_eq!(clients(&second), changed);
    assert_eq!(second[0].state.as_ref().unwrap().counts, (2, 1));
    ask(&mut node, "r", join("bob", 1));
    assert_eq!(write(&mut node), [], "a repeated join changes nothing");
}

#[test]
fn whole_room_follows_a_loss_a_new_epoch_and_an_outage() {
    let mut node = node(READING_TIME);
    ["alice", "bob"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
    write(&mut node);
    ask(&mut node, "r", leave("alice"));
    let lost = node.rooms.take_journal(node.now, 1).remove(0);
    node.step().journal_written(&lost.room, lost.number, JournalOutcome::Lost);
    let whole = |node: &mut Node, number| {
        let writes = write(node);
        assert_eq!((writes[0].number, writes[0].after), (number, None));
        assert_eq!(clients(&writes), [("bob", None, Some(SeatKind::Member))]);
    };
    whole(&mut node, 3);
    node.step().assign_backup(&name("r"));
    whole(&mut node, 4);
    node.step().set_journal_up(false);
    ask(&mut node, "r", join("alice", 10));
    ask(&mut node, "r", leave("alice"));
    assert!(matches!(node.rooms.mesh.owned["r"].room.clone().take_changed_clients(), ChangedClients::All));
    node.step().set_journal_up(true);
    ask(&mut node, "r", Operation::Leave { requester: requester("alice", "n0", 11) });
    whole(&mut node, 5);
}

#[test]
fn refused_owner_begins_a_later_epoch_if_all_members_confirm_it() {
    for is_confirmed in [true, false] {
        let mut node = node(READING_TIME);
        ask(&mut node, "r", join("alice", 1));
        let refused = node.rooms.take_journal(node.now, 1).remove(0);
        if !is_confirmed {
            node.rooms.mesh.barrier.waiting.insert(NodeId::new("n1").unwrap());
        }
        let later = refused.epoch + 1_000_000;
        node.step().journal_written(&refused.room, refused.number, JournalOutcome::Refused(later));
        let next = write(&mut node).first().map(|write| (write.epoch, write.after));
        assert_eq!(next, is_confirmed.then_some((later + 1, None)));
        assert_eq!(node.rooms.journal_counts().refused, 1);
    }
}

#[test]
fn large_room_is_written_in_parts() {
    let mut node = node(READING_TIME);
    let data = Some("x".repeat(50_000).into());
    for client in 0..60 {
        let requester = requester(&format!("c{client:02}"), "n0", 1);
        ask(&mut node, "r", Operation::Join { requester, data: data.clone(), capacity: Some(100) });
    }
    let first = node.rooms.take_journal(node.now, 1);
    node.step().journal_written(&name("r"), first[0].number, JournalOutcome::Written);
    // Changes between two parts, of more bytes than one has.
    ask(&mut node, "r", leave("c00"));
    for client in 36..60 {
        let (requester, data) = (requester(&format!("c{client}"), "n0", 2), Some("y".repeat(50_000).into()));
        ask(&mut node, "r", Operation::Join { requester, data, capacity: None });
    }
    let rest = write(&mut node);
    let partial = |write: &JournalWrite| write.state.as_ref().unwrap().is_partial;
    assert!(partial(&first[0]) && !partial(rest.last().unwrap()) && rest.len() >= 2);
    let parts = first.iter().chain(&rest);
    assert!(parts.clone().skip(1).all(|write| write.after == Some(write.number - 1)));
    let all: BTreeSet<_> = parts.flat_map(|it| &it.state.as_ref().unwrap().clients).map(|it| &it.client).collect();
    assert_eq!(all.len(), 60);
    let left = rest[0].state.as_ref().unwrap().clients.iter().find(|it| it.client.as_str() == "c00").unwrap();
    assert_eq!((left.former, &left.seat), (Some(SeatKind::Member), &None));
}

#[test]
fn room_gives_signs_of_life_until_it_ends() {
    let mut node = node(READING_TIME);
    ["alice", "bob", "carol"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
    write(&mut node);
    for (beat, renews) in [(1, true), (2, false)] {
        node.now += BEAT_INTERVAL;
        node.sweep();
        let writes = write(&mut node);
        let [JournalWrite { after: Some(_), state: Some(state), .. }] = &writes[..] else { panic!("{writes:?}") };
        let clients = |clients: &[ClientId]| clients.iter().map(ToString::to_string).collect::<Vec<_>>();
        let alive = state.beat.as_ref().unwrap();
        assert_eq!(clients(&alive.members), ["alice", "bob"]);
        assert_eq!((clients(&alive.waiting), alive.renews), (vec!["carol".to_owned()], renews), "{beat}");
    }
    node.step().end_room(&name("r"));
    let writes = write(&mut node);
    assert!(matches!(writes[..], [JournalWrite { number: 4, after: None, state: None, .. }]), "{writes:?}");
    assert!(node.rooms.mesh.journal.unwrap().beats.is_empty());
}

#[test]
fn room_without_journal_marks_no_changes() {
    let mut node = Node::new("n0", &["n0"]);
    ask(&mut node, "r", join("alice", 1));
    assert!(matches!(node.rooms.mesh.owned["r"].room.clone().take_changed_clients(), ChangedClients::Unwatched));
    assert_eq!((node.rooms.take_journal(node.now, 1), reads(&mut node)), (vec![], vec![]));
}

#[test]
fn clients_of_the_journal_are_back_until_they_expire() {
    let mut node = node(NOW);
    let later = Operation::Join {
        requester: crate::Requester { session: SessionId([2; 16]), rank: Rank(2), ..requester("alice", "n0", 1) },
        data: None,
        capacity: None,
    };
    ask(&mut node, "r", later);
    ask(&mut node, "r", join("dave", 1));
    assert_eq!((reads(&mut node), counts(&node)), (vec!["r".to_owned()], (0, 2)));
    assert_eq!(write(&mut node), [], "a write would remove what is read");

    found(&mut node, 1);
    assert_eq!(counts(&node), (2, 2));
    let seats = |node: &Node| {
        let seats = node.rooms.owned("r").unwrap().seats_after(None);
        let of =
            |seat: &Seat| (seat.requester.client.to_string(), seat.requester.session.0[0], seat.status.is_member());
        seats.map(of).collect::<Vec<_>>()
    };
    let of = |client: &str, session, is_member| (client.to_owned(), session, is_member);
    let all = [of("alice", 2, true), of("bob", 1, true), of("carol", 1, false), of("dave", 1, false)];
    assert_eq!(seats(&node), all, "the new session of alice has her seat");
    let dave = node.rooms.owned("r").unwrap().seat(&ClientId::new("dave").unwrap()).unwrap().status;
    assert_eq!(dave, SeatStatus::Waiting { place: 8, ahead: 0 }, "a newcomer is behind the queue of the journal");
    assert_eq!(write(&mut node)[0].after, None);

    node.now += Duration::from_secs(46);
    node.sweep();
    assert_eq!(seats(&node), [of("alice", 2, true), of("dave", 1, true)]);
}

#[test]
fn epoch_of_the_owner_is_above_that_of_the_journal() {
    let mut node = node(NOW);
    ask(&mut node, "r", join("alice", 1));
    let later = node.rooms.mesh.owned["r"].at.epoch + 1_000_000;
    found(&mut node, later);
    assert_eq!(write(&mut node)[0].epoch, later + 1);
}

#[test]
fn client_that_an_operator_keeps_out_is_not_read_back() {
    let client = requester("alice", "n0", 1).client;
    let block = Operation::Remove { client, block: Some(Duration::from_secs(60)) };
    for (op, is_lost, present) in [
        (block.clone(), false, (1, 1)),
        (block, true, (1, 1)),
        (Operation::Close { time: None }, false, (0, 0)),
        (Operation::Close { time: None }, true, (0, 0)),
    ] {
        let mut node = node(NOW);
        if is_lost {
            node.step().take_over_rooms(BTreeSet::from([(name("r"), NodeId::new("n0").unwrap())]));
        }
        ask(&mut node, "r", op);
        assert_eq!(reads(&mut node), ["r"]);
        found(&mut node, 1);
        assert_eq!(counts(&node), present, "{is_lost}");
    }
}

/// Returns the bans of the only write. `None`: it has none.
fn bans(writes: &[JournalWrite]) -> Option<JournalBans> {
    let [JournalWrite { state: Some(state), .. }] = writes else { panic!("{writes:?}") };
    state.bans.clone()
}

#[test]
fn bans_are_written_when_they_change_or_with_the_whole_room() {
    let mut node = node(READING_TIME);
    ask(&mut node, "r", join("alice", 1));
    assert_eq!(bans(&write(&mut node)), Some(JournalBans::default()));
    let bob = ClientId::new("bob").unwrap();
    ask(&mut node, "r", Operation::Remove { client: bob.clone(), block: Some(Duration::from_secs(60)) });
    node.now += Duration::from_secs(10);
    let blocked = JournalBans { blocks: vec![(bob.clone(), 50_000)], closed_for: None };
    assert_eq!(bans(&write(&mut node)), Some(blocked), "the rest at the time of the write");
    ask(&mut node, "r", join("carol", 1));
    assert_eq!(bans(&write(&mut node)), None);
    ask(&mut node, "r", Operation::Unblock { client: bob });
    assert_eq!(bans(&write(&mut node)), Some(JournalBans::default()));
    ask(&mut node, "r", Operation::Close { time: None });
    assert_eq!(bans(&write(&mut node)).unwrap().closed_for, Some(u64::MAX));
    node.step().assign_backup(&name("r"));
    assert_eq!(bans(&write(&mut node)).unwrap().closed_for, Some(u64::MAX));
}

#[test]
fn blocked_clients_of_the_journal_stay_out() {
    let mut node = node(NOW);
    ["alice", "dave"].into_iter().for_each(|client| ask(&mut node, "r", join(client, 1)));
    let blocks = ["alice", "bob", "dave"].map(|client| (ClientId::new(client).unwrap(), 60_000));
    found_with(&mut node, 1, JournalBans { blocks: blocks.to_vec(), closed_for: None });
    // Alice and dave had come before their blocks. Carol is unclaimed in the queue.
    node.now += Duration::from_secs(6);
    node.sweep();
    ask(&mut node, "r", join("bob", 1));
    assert_eq!(counts(&node), (1, 0));
    node.now += Duration::from_secs(60);
    ask(&mut node, "r", join("bob", 2));
    assert!(node.rooms.owned("r").unwrap().seat(&ClientId::new("bob").unwrap()).is_some());
}

#[test]
fn settled_room_takes_blocks_of_the_journal_and_no_seats() {
    let mut node = node(NOW);
    ask(&mut node, "r", join("alice", 1));
    node.now += Duration::from_secs(2);
    ask(&mut node, "r", join("erin", 1));
    assert_eq!(counts(&node), (2, 0), "the wait is over");
    let blocks = vec![(ClientId::new("alice").unwrap(), 60_000)];
    found_with(&mut node, 1, JournalBans { blocks, closed_for: None });
    assert_eq!(counts(&node), (1, 0), "erin alone");
    ask(&mut node, "r", join("alice", 2));
    assert_eq!(counts(&node), (1, 0));
}

#[test]
fn next_owner_reads_a_room_that_waits_for_the_journal() {
    let mut node = node(NOW);
    ask(&mut node, "r", join("alice", 1));
    assert_eq!(reads(&mut node), ["r"]);
    let mut owned = node.rooms.mesh.owned.remove(&name("r")).unwrap();
    node.rooms.mesh.forget_journal(&name("r"), &mut owned);
    let OwnedRoom { room, clock, at, .. } = owned;
    let copy = RoomCopy { room, clock, at, base: 0, from: None, givers: BTreeSet::new() };
    node.rooms.mesh.copies.insert(name("r"), copy);
    node.step().take_over_rooms(BTreeSet::new());
    assert_eq!(reads(&mut node), ["r"]);
}

#[test]
fn room_that_is_closed_in_the_journal_stays_closed() {
    for (closed_for, is_open) in [(60_000, true), (u64::MAX, false)] {
        let mut node = node(NOW);
        ask(&mut node, "r", join("alice", 1));
        found_with(&mut node, 1, JournalBans { blocks: Vec::new(), closed_for: Some(closed_for) });
        node.sweep();
        ask(&mut node, "r", join("bob", 1));
        assert_eq!(counts(&node), (0, 0));
        node.now += Duration::from_secs(61);
        ask(&mut node, "r", join("bob", 2));
        assert_eq!(counts(&node) != (0, 0), is_open);
    }
}

#[test]
fn newcomer_waits_for_the_journal_for_at_most_one_second() {
    for is_answered in [true, false] {
        let mut node = node(NOW);
        ask(&mut node, "r", join("alice", 1));
        assert_eq!(counts(&node), (0, 1));
        if is_answered {
            node.step().journal_read(JournalRead { room: name("r"), found: None });
        } else {
            node.now += Duration::from_millis(1_001);
            node.sweep();
        }
        assert_eq!(counts(&node), (1, 0), "{is_answered}");
        if !is_answered {
            found(&mut node, 1);
            assert_eq!(counts(&node), (1, 0), "others may have the seats");
        }
    }
}

#[test]
fn first_operation_reads_only_after_a_start_or_two_losses() {
    let mut node = node(READING_TIME);
    ask(&mut node, "a", join("alice", 1));
    ask(&mut node, "~mb.2s:path:id", join("alice", 1));
    node.set_view(&["n0", "n1", "n2", "n3"]);
    node.set_view(&["n0", "n1"]);
    node.set_view(&["n0"]);
    assert_eq!(reads(&mut node), [""; 0]);
    ask(&mut node, "b", join("alice", 1));
    node.step().set_journal_up(false);
    ask(&mut node, "c", join("alice", 1));
    node.step().set_journal_up(true);
    node.now += READING_TIME;
    ask(&mut node, "d", join("alice", 1));
    assert_eq!(reads(&mut node), ["b"]);
}

#[test]
fn at_most_256_rooms_are_read_at_a_time() {
    let mut node = node(NOW);
    for room in 0..300 {
        ask(&mut node, &format!("r{room:03}"), join("alice", 1));
    }
    assert_eq!(reads(&mut node).len(), MAX_READS);
    node.step().journal_read(JournalRead { room: name("r000"), found: None });
    assert_eq!(reads(&mut node), ["r256"]);
    node.step().set_journal_up(false);
    node.step().journal_read(JournalRead { room: name("r001"), found: None });
    assert_eq!(reads(&mut node), [""; 0], "a journal that is down is not read");
}
