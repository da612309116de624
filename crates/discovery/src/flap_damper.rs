//! Observations of servers, and their conversion into members without flaps. Pure.
//! A change of the view moves clients, so a node that is unready or unlisted stays for a hold time.
//! A removed node returns once it has served steadily, each time for longer ([`FailureDetector`]).
//! A terminating node drains at once, until it is no longer listed. A polled source can repeat an
//! outdated answer: a node that does not drain leaves only when the next answer lacks it too. While
//! no node serves, only draining ones are removed: the source is more likely at fault.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use signaling_protocol::NodeId;

use crate::Subject;
use signaling_membership::{Address, FailureDetector, NodeEntry, View, Zone};

/// Default time that an unready or unlisted node stays in the view.
pub(crate) const HOLD: Duration = Duration::from_secs(4);
/// Time unready or unlisted after which a removed node is forgotten.
const FORGET: Duration = Duration::from_secs(60);

/// One server in a source. A source lists each id once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) id: NodeId,
    /// Address of its internal listener. A known id with another address is another server.
    pub(crate) address: Address,
    pub(crate) status: ServerStatus,
    /// `None`: the source names none.
    pub(crate) zone: Option<Zone>,
}

/// Status of a server, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerStatus {
    /// It terminates and no longer serves.
    Ending,
    /// It is not ready and may become ready again.
    Unready,
    /// It terminates but still serves.
    Draining,
    /// It serves.
    Serving,
}

impl ServerStatus {
    /// Returns the status for `subject`: unready peers as serving, ending ones as draining.
    pub(crate) fn for_subject(self, subject: Subject) -> Self {
        match (subject, self) {
            (Subject::Peers, Self::Unready) => Self::Serving,
            (Subject::Peers, Self::Ending) => Self::Draining,
            (_, status) => status,
        }
    }
}

/// Servers of recent observations, and their state as members.
pub(crate) struct FlapDamper {
    hold: Duration,
    known: BTreeMap<NodeId, Known>,
}

struct Known {
    member: NodeEntry,
    /// Since it neither serves nor drains; `None` while it does.
    missing: Option<Missing>,
    /// A suspect is removed from the view.
    detector: FailureDetector,
}

#[derive(Clone, Copy)]
struct Missing {
    since: Instant,
    /// The first reading from then on confirms the absence; `None` once confirmed.
    doubted_until: Option<Instant>,
}

impl Known {
    fn new(member: NodeEntry, now: Instant) -> Self {
        let mut detector = FailureDetector::new(now);
        detector.answered(now);
        Self { member, missing: None, detector }
    }

    fn serves(&self) -> bool {
        self.missing.is_none() && !self.member.draining
    }

    fn misses(&mut self, until: Option<Instant>, now: Instant) {
        match &mut self.missing {
            None => self.missing = Some(Missing { since: now, doubted_until: until }),
            Some(missing) if missing.doubted_until.is_some_and(|until| now >= until) => missing.doubted_until = None,
            Some(_) => {}
        }
        if self.detector.is_suspect() {
            self.detector.failed(now);
        }
    }

    fn missing_for(&self, now: Instant) -> Duration {
        self.missing.map_or(Duration::ZERO, |missing| now.saturating_duration_since(missing.since))
    }
}

impl FlapDamper {
    pub(crate) fn new(hold: Duration) -> Self {
        Self { hold, known: BTreeMap::new() }
    }

    /// Applies all observations of one reading. Until `until`, if set, the source may repeat
    /// outdated data, so a missing node must be missing in a reading after it too.
    pub(crate) fn apply(&mut self, observations: &[Observation], until: Option<Instant>, now: Instant) {
        let was_unserved = !self.is_served();
        for observation in observations {
            self.apply_one(observation, until, now);
        }
        let named: HashSet<_> =
            observations.iter().map(|observation| (&observation.id, &observation.address)).collect();
        self.known.retain(|id, known| {
            if named.contains(&(id, &known.member.address)) {
                return true;
            }
            known.misses(until, now);
            !known.member.draining
        });
        if was_unserved && self.is_served() {
            // Time without any serving node does not count.
            for missing in self.known.values_mut().filter_map(|known| known.missing.as_mut()) {
                *missing = Missing { since: now, doubted_until: until };
            }
        }
    }

    fn apply_one(&mut self, observation: &Observation, until: Option<Instant>, now: Instant) {
        let Observation { id, address, status, zone } = observation;
        let Some(known) = self.known.get_mut(id).filter(|known| known.member.address == *address) else {
            if *status != ServerStatus::Unready {
                let draining = *status != ServerStatus::Serving;
                let member = NodeEntry { id: id.clone(), address: address.clone(), draining, zone: zone.clone() };
                self.known.insert(id.clone(), Known::new(member, now));
            }
            return;
        };
        known.member.zone.clone_from(zone);
        match status {
            ServerStatus::Serving => {
                known.member.draining = false;
                known.missing = None;
                known.detector.answered(now);
            }
            // A draining node is unready, but stays until it is no longer named.
            ServerStatus::Draining | ServerStatus::Ending => {
                known.member.draining = true;
                known.missing = None;
            }
            ServerStatus::Unready => known.misses(until, now),
        }
    }

    /// Removes nodes that have been missing for `hold`, if any node serves, and readmits nodes that
    /// have served long enough, as of `now`.
    pub(crate) fn tick(&mut self, now: Instant) {
        let is_served = self.is_served();
        for known in self.known.values_mut() {
            let is_confirmed = known.missing.is_some_and(|missing| missing.doubted_until.is_none());
            if is_served && is_confirmed && known.missing_for(now) >= self.hold {
                known.detector.failed(now);
            }
            known.detector.end_probation(now);
        }
        self.known.retain(|_, known| !known.detector.is_suspect() || known.missing_for(now) < FORGET);
    }

    /// Returns `true` if at least one node serves and does not drain.
    pub(crate) fn is_served(&self) -> bool {
        self.known.values().any(Known::serves)
    }

    /// Returns `true` if at least one node serves or drains.
    pub(crate) fn has_present_server(&self) -> bool {
        self.known.values().any(|known| known.missing.is_none())
    }

    pub(crate) fn view(&self) -> View {
        let members = self.known.values().filter(|known| known.member.draining || !known.detector.is_suspect());
        // Ids are unique here, so this is never an error.
        View::new(members.map(|known| known.member.clone())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServerStatus::{Draining, Ending, Serving, Unready};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn serving_node_is_a_member_at_once() {
        let mut mesh = Mesh::new();
        assert_eq!(mesh.sees(&[("a", Serving), ("b", Unready), ("c", Draining), ("d", Ending)]), "a c! d!");
        assert_eq!(mesh.sees(&[("a", Serving), ("b", Serving), ("c", Draining)]), "a b c!");
    }

    #[test]
    fn node_stays_when_it_is_briefly_unready() {
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..20 {
            mesh.sees(&[("a", Serving), ("b", Unready)]);
            assert_eq!(mesh.after(HOLD - SECOND), "a b");
            mesh.sees(&[("a", Serving), ("b", Serving)]);
            assert_eq!(mesh.after(SECOND), "a b");
        }
    }

    #[test]
    fn node_leaves_after_the_hold_time_until_it_serves_steadily() {
        for without_b in [&[("a", Serving), ("b", Unready)][..], &[("a", Serving)]] {
            let mut mesh = Mesh::of(&["a", "b"]);
            mesh.sees(without_b);
            assert_eq!(mesh.after(HOLD - SECOND), "a b");
            assert_eq!(mesh.after(SECOND), "a");
            mesh.sees(&[("a", Serving), ("b", Serving)]);
            assert_eq!(mesh.after(4 * SECOND), "a");
            assert_eq!(mesh.after(SECOND), "a b");
        }
    }

    #[test]
    fn flapping_node_changes_the_view_ever_less_often() {
        let mut mesh = Mesh::of(&["a", "b"]);
        let mut changes = 0;
        let mut last = mesh.members();
        for second in 0..600 {
            let status = if second / 10 % 2 == 0 { Unready } else { Serving };
            mesh.sees(&[("a", Serving), ("b", status)]);
            let members = mesh.after(SECOND);
            changes += u32::from(members != last);
            last = members;
        }
        assert!(changes <= 6, "60 flaps, and the view changed {changes} times");
    }

    #[test]
    fn node_stays_until_a_second_answer_lacks_it() {
        let answer = 30 * SECOND;
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.reads(&["a"], answer);
        mesh.after(answer - SECOND);
        assert_eq!(mesh.reads(&["a"], SECOND), "a b", "it may be a cached copy of the same answer");
        assert_eq!(mesh.after(SECOND), "a b", "no new answer");
        assert_eq!(mesh.reads(&["a"], answer), "a");
    }

    #[test]
    fn node_stays_when_answers_lack_it_in_turn() {
        let answer = 30 * SECOND;
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..10 {
            mesh.reads(&["a"], answer);
            mesh.after(answer);
            mesh.reads(&["b", "a"], answer);
            mesh.after(answer);
            mesh.reads(&["b"], answer);
            assert_eq!(mesh.after(answer), "a b");
        }
    }

    #[test]
    fn quick_answers_do_not_shorten_the_hold_time() {
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..HOLD.as_secs() {
            assert_eq!(mesh.reads(&["a"], Duration::ZERO), "a b");
            mesh.after(SECOND);
        }
        assert_eq!(mesh.members(), "a");
    }

    #[test]
    fn answers_without_a_serving_node_confirm_nothing() {
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..3 {
            mesh.reads(&[], SECOND);
            mesh.after(SECOND);
        }
        mesh.reads(&["a"], 30 * SECOND);
        assert_eq!(mesh.after(29 * SECOND), "a b");
    }

    #[test]
    fn ending_node_drains_in_any_former_state() {
        let ends = [("a", Serving), ("b", Ending)];
        let served_before = Mesh::of(&["a", "b"]);
        let mut was_removed = Mesh::of(&["a", "b"]);
        was_removed.sees(&[("a", Serving), ("b", Unready)]);
        was_removed.after(HOLD);
        let mut was_unready = Mesh::of(&["a"]);
        was_unready.sees(&[("a", Serving), ("b", Unready)]);
        let mut was_draining = Mesh::of(&["a", "b"]);
        assert_eq!(was_draining.sees(&[("a", Serving), ("b", Draining)]), "a b!");
        for mut mesh in [served_before, was_removed, was_unready, was_draining, Mesh::new()] {
            mesh.sees(&ends);
            assert_eq!(mesh.after(100 * SECOND), "a b!", "it hands off clients although it is unready");
            assert_eq!(mesh.sees(&[("a", Serving)]), "a");
            assert_eq!(mesh.sees(&ends), "a b!", "it was missing by mistake");
        }
    }

    #[test]
    fn new_address_replaces_a_server_at_once() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving), ("b", Draining)]);
        mesh.damper.apply(&[observation("a", 1, Serving), observation("b", 2, Unready)], None, mesh.now);
        assert_eq!(mesh.members(), "a", "the old one has ended, the new one is not there yet");
        mesh.damper.apply(&[observation("a", 1, Serving), observation("b", 2, Serving)], None, mesh.now);
        assert_eq!(mesh.members(), "a b");
        assert_eq!(mesh.damper.view().get("b").unwrap().address.as_str(), "h:2");
    }

    #[test]
    fn zone_of_a_server_may_come_later() {
        let mut mesh = Mesh::of(&["a"]);
        let zone = Some(Zone::new("west").unwrap());
        mesh.damper.apply(&[Observation { zone: zone.clone(), ..observation("a", 1, Serving) }], None, mesh.now);
        assert_eq!(mesh.damper.view().get("a").unwrap().zone, zone);
    }

    #[test]
    fn no_node_is_removed_while_none_serves() {
        for observations in [&[][..], &[("a", Unready), ("b", Unready), ("c", Unready)]] {
            let mut mesh = Mesh::of(&["a", "b", "c"]);
            mesh.sees(observations);
            assert!(!mesh.damper.has_present_server());
            assert_eq!(mesh.after(1000 * SECOND), "a b c");
            // The hold time of the others starts when the first node is back.
            mesh.sees(&[("b", Serving)]);
            assert_eq!(mesh.after(HOLD - SECOND), "a b c");
            assert_eq!(mesh.after(SECOND), "b");
        }
    }

    #[test]
    fn removed_node_is_forgotten() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving)]);
        mesh.after(HOLD);
        mesh.after(FORGET);
        assert_eq!(mesh.damper.known.len(), 1);
    }

    struct Mesh {
        damper: FlapDamper,
        now: Instant,
    }

    impl Mesh {
        fn new() -> Self {
            Self { damper: FlapDamper::new(HOLD), now: Instant::now() }
        }

        fn of(ids: &[&str]) -> Self {
            let mut mesh = Self::new();
            let all: Vec<_> = ids.iter().map(|id| (*id, Serving)).collect();
            mesh.sees(&all);
            mesh
        }

        fn sees(&mut self, all: &[(&str, ServerStatus)]) -> String {
            let observations: Vec<_> = all.iter().map(|(id, status)| observation(id, 1, *status)).collect();
            self.damper.apply(&observations, None, self.now);
            self.after(Duration::ZERO)
        }

        /// Applies an answer with these ids, all serving, that is valid for `holds`.
        fn reads(&mut self, ids: &[&str], holds: Duration) -> String {
            let observations: Vec<_> = ids.iter().map(|id| observation(id, 1, Serving)).collect();
            self.damper.apply(&observations, Some(self.now + holds), self.now);
            self.after(Duration::ZERO)
        }

        /// Returns the members after this time.
        fn after(&mut self, time: Duration) -> String {
            self.now += time;
            self.damper.tick(self.now);
            self.members()
        }

        /// Returns the members' ids, with a mark on draining ones.
        fn members(&self) -> String {
            let view = self.damper.view();
            let ids = view.members().iter().map(|m| format!("{}{}", m.id, if m.draining { "!" } else { "" }));
            ids.collect::<Vec<_>>().join(" ")
        }
    }

    fn observation(id: &str, port: u16, status: ServerStatus) -> Observation {
        Observation { id: id.parse().unwrap(), address: format!("h:{port}").parse().unwrap(), status, zone: None }
    }
}
