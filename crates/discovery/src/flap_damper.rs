//! From observations to members, without flaps.
//!
//! To take a node out of the view moves all its clients, and to put it back moves them again. So a node that is merely
//! unready, or not named for a moment, stays as it was for a while; one that was put out has to serve steadily before it is
//! back, for longer each time ([`Trust`]). Who is said to end is believed at once, and is gone once it is named no more:
//! until then it drains, whatever it was before. So servers agree about it, whenever they have begun to look.
//!
//! A source that is asked from time to time may be wrong until it is asked again: what one answer lacks, the next one has to
//! lack too.
//!
//! As long as nobody at all serves, nobody is put out: the source, or what it asks, is likelier to be at fault than every
//! node at once.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use signaling_protocol::NodeId;

use crate::observation::{Observation, ServerStatus};
use signaling_core::{FailureDetector, Member, View};

/// How long a node stays in the view though it is unready or unnamed.
pub(crate) const HOLD: Duration = Duration::from_secs(4);
/// How long one that was put out, and is named no more, is remembered.
const FORGET: Duration = Duration::from_secs(60);

/// All servers of late, and which of them are members.
pub(crate) struct FlapDamper {
    hold: Duration,
    known: BTreeMap<NodeId, Known>,
}

struct Known {
    member: Member,
    /// It neither serves nor drains.
    missing: Option<Missing>,
    /// A suspect has been put out.
    trust: FailureDetector,
}

#[derive(Clone, Copy)]
struct Missing {
    since: Instant,
    /// Only what is read from then on can confirm it. None: it is confirmed.
    doubted_until: Option<Instant>,
}

impl Known {
    fn new(member: Member, now: Instant) -> Self {
        let mut trust = FailureDetector::new(now);
        trust.answered(now);
        Self { member, missing: None, trust }
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
        if self.trust.is_suspect() {
            self.trust.failed(now);
        }
    }

    fn missing_for(&self, now: Instant) -> Duration {
        self.missing.map_or(Duration::ZERO, |missing| now.saturating_duration_since(missing.since))
    }

    fn is_surely_missing(&self) -> bool {
        self.missing.is_some_and(|missing| missing.doubted_until.is_none())
    }
}

impl FlapDamper {
    pub(crate) fn new(hold: Duration) -> Self {
        Self { hold, known: BTreeMap::new() }
    }

    /// Takes all that the source shows now: whoever is not among it is not named any more. Where the source may say the same
    /// `until` then whatever happens, be it wrong, whoever is missing is so only if it still is in what is read afterwards.
    pub(crate) fn see(&mut self, observations: &[Observation], until: Option<Instant>, now: Instant) {
        let nobody_served = !self.is_served();
        for observation in observations {
            self.see_one(observation, until, now);
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
        if nobody_served && self.is_served() {
            // What was missed while nobody served counts for nothing.
            for missing in self.known.values_mut().filter_map(|known| known.missing.as_mut()) {
                *missing = Missing { since: now, doubted_until: until };
            }
        }
    }

    fn see_one(&mut self, observation: &Observation, until: Option<Instant>, now: Instant) {
        let Observation { id, address, status } = observation;
        let Some(known) = self.known.get_mut(id).filter(|known| known.member.address == *address) else {
            if *status != ServerStatus::Unready {
                let draining = *status != ServerStatus::Serving;
                let member = Member { id: id.clone(), address: address.clone(), draining };
                self.known.insert(id.clone(), Known::new(member, now));
            }
            return;
        };
        match status {
            ServerStatus::Serving => {
                known.member.draining = false;
                known.missing = None;
                known.trust.answered(now);
            }
            // Its own readiness says no while it drains, but it is still there: until it is named no more.
            ServerStatus::Draining | ServerStatus::Ending => {
                known.member.draining = true;
                known.missing = None;
            }
            ServerStatus::Unready => known.misses(until, now),
        }
    }

    /// Lets time have its effect: who has been missing for too long is put out, who has served for long enough is back.
    pub(crate) fn settle(&mut self, now: Instant) {
        if self.is_served() {
            for known in self.known.values_mut() {
                if known.is_surely_missing() && known.missing_for(now) >= self.hold {
                    known.trust.failed(now);
                }
            }
        }
        for known in self.known.values_mut() {
            known.trust.look(now);
        }
        self.known.retain(|_, known| !known.trust.is_suspect() || known.missing_for(now) < FORGET);
    }

    /// Whether somebody serves who is not ending.
    pub(crate) fn is_served(&self) -> bool {
        self.known.values().any(Known::serves)
    }

    /// Whether somebody serves, or drains.
    pub(crate) fn is_anybody_there(&self) -> bool {
        self.known.values().any(|known| known.missing.is_none())
    }

    /// Who is in the mesh.
    pub(crate) fn view(&self) -> View {
        let members = self.known.values().filter(|known| known.member.draining || !known.trust.is_suspect());
        // Each id is there once, so this is no error.
        View::new(members.map(|known| known.member.clone())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use ServerStatus::{Draining, Ending, Serving, Unready};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn whoever_serves_is_a_member_at_once_and_whoever_is_not_ready_yet_is_none() {
        let mut mesh = Mesh::new();
        mesh.sees(&[("a", Serving), ("b", Unready), ("c", Draining), ("d", Ending)]);
        assert_eq!(mesh.members(), "a c! d!");
        mesh.sees(&[("a", Serving), ("b", Serving), ("c", Draining)]);
        assert_eq!(mesh.members(), "a b c!");
    }

    #[test]
    fn one_that_is_unready_for_a_moment_stays() {
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..20 {
            mesh.sees(&[("a", Serving), ("b", Unready)]);
            mesh.passes(HOLD - SECOND);
            assert_eq!(mesh.members(), "a b");
            mesh.sees(&[("a", Serving), ("b", Serving)]);
            mesh.passes(SECOND);
            assert_eq!(mesh.members(), "a b");
        }
    }

    #[test]
    fn one_that_stays_unready_is_put_out_and_comes_back_after_serving_for_a_while() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving), ("b", Unready)]);
        mesh.passes(HOLD);
        assert_eq!(mesh.members(), "a");
        mesh.sees(&[("a", Serving), ("b", Serving)]);
        mesh.passes(4 * SECOND);
        assert_eq!(mesh.members(), "a");
        mesh.passes(SECOND);
        assert_eq!(mesh.members(), "a b");
    }

    #[test]
    fn one_that_flaps_slowly_changes_the_view_ever_less_often() {
        let mut mesh = Mesh::of(&["a", "b"]);
        let mut changes = 0;
        let mut last = mesh.members();
        for second in 0..600 {
            let status = if second / 10 % 2 == 0 { Unready } else { Serving };
            mesh.sees(&[("a", Serving), ("b", status)]);
            mesh.passes(SECOND);
            let members = mesh.members();
            changes += u32::from(members != last);
            last = members;
        }
        assert!(changes <= 6, "60 flaps, and the view changed {changes} times");
    }

    #[test]
    fn one_that_is_not_named_for_a_moment_stays_and_is_gone_after_a_while() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving)]);
        mesh.passes(HOLD - SECOND);
        assert_eq!(mesh.members(), "a b");
        mesh.passes(SECOND);
        assert_eq!(mesh.members(), "a");
    }

    #[test]
    fn one_that_an_answer_lacks_stays_until_another_lacks_it_when_the_first_holds_no_more() {
        let answer = 30 * SECOND;
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.reads(&["a"], answer);
        mesh.passes(answer - SECOND);
        mesh.reads(&["a"], SECOND);
        assert_eq!(mesh.members(), "a b", "it may be the same answer, which somebody has kept");
        mesh.passes(SECOND);
        assert_eq!(mesh.members(), "a b", "nothing new was said");
        mesh.reads(&["a"], answer);
        assert_eq!(mesh.members(), "a");
    }

    #[test]
    fn one_that_some_answers_lack_in_turn_with_others_that_have_it_stays() {
        let answer = 30 * SECOND;
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..10 {
            mesh.reads(&["a"], answer);
            mesh.passes(answer);
            mesh.reads(&["b", "a"], answer);
            mesh.passes(answer);
            mesh.reads(&["b"], answer);
            mesh.passes(answer);
            assert_eq!(mesh.members(), "a b");
        }
    }

    #[test]
    fn one_that_answers_in_quick_succession_lack_has_its_time_all_the_same() {
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..HOLD.as_secs() {
            mesh.reads(&["a"], Duration::ZERO);
            assert_eq!(mesh.members(), "a b");
            mesh.passes(SECOND);
        }
        assert_eq!(mesh.members(), "a");
    }

    #[test]
    fn answers_from_while_nobody_served_confirm_nothing() {
        let mut mesh = Mesh::of(&["a", "b"]);
        for _ in 0..3 {
            mesh.reads(&[], SECOND);
            mesh.passes(SECOND);
        }
        mesh.reads(&["a"], 30 * SECOND);
        mesh.passes(29 * SECOND);
        assert_eq!(mesh.members(), "a b");
    }

    #[test]
    fn one_that_ends_drains_at_once_and_is_gone_when_it_is_named_no_more() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving), ("b", Draining)]);
        assert_eq!(mesh.members(), "a b!");
        mesh.sees(&[("a", Serving), ("b", Ending)]);
        mesh.passes(100 * SECOND);
        assert_eq!(mesh.members(), "a b!", "it hands over though its readiness says no");
        mesh.sees(&[("a", Serving)]);
        assert_eq!(mesh.members(), "a");
    }

    #[test]
    fn one_that_ends_drains_for_servers_that_have_begun_to_look_at_any_time() {
        let ends = [("a", Serving), ("b", Ending)];
        let saw_it_serve = Mesh::of(&["a", "b"]);
        let mut saw_it_put_out = Mesh::of(&["a", "b"]);
        saw_it_put_out.sees(&[("a", Serving), ("b", Unready)]);
        saw_it_put_out.passes(HOLD);
        let mut saw_it_start = Mesh::of(&["a"]);
        saw_it_start.sees(&[("a", Serving), ("b", Unready)]);
        for mut mesh in [saw_it_serve, saw_it_put_out, saw_it_start, Mesh::new()] {
            mesh.sees(&ends);
            mesh.passes(100 * SECOND);
            assert_eq!(mesh.members(), "a b!");
            mesh.sees(&[("a", Serving)]);
            assert_eq!(mesh.members(), "a");
            mesh.sees(&ends);
            assert_eq!(mesh.members(), "a b!", "it was left out by mistake");
        }
    }

    #[test]
    fn another_server_under_a_known_id_takes_its_place_at_once() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving), ("b", Draining)]);
        mesh.damper.see(&[observation("a", 1, Serving), observation("b", 2, Unready)], None, mesh.now);
        assert_eq!(mesh.members(), "a", "the old one has ended, the new one is not there yet");
        mesh.damper.see(&[observation("a", 1, Serving), observation("b", 2, Serving)], None, mesh.now);
        assert_eq!(mesh.members(), "a b");
        assert_eq!(mesh.damper.view().get("b").unwrap().address.as_str(), "h:2");
    }

    #[test]
    fn nobody_is_put_out_while_nobody_serves() {
        for nobody in [&[][..], &[("a", Unready), ("b", Unready), ("c", Unready)]] {
            let mut mesh = Mesh::of(&["a", "b", "c"]);
            mesh.sees(nobody);
            assert!(!mesh.damper.is_anybody_there());
            mesh.passes(1000 * SECOND);
            assert_eq!(mesh.members(), "a b c");
            // The others get their time when the first is back.
            mesh.sees(&[("b", Serving)]);
            mesh.passes(HOLD - SECOND);
            assert_eq!(mesh.members(), "a b c");
            mesh.passes(SECOND);
            assert_eq!(mesh.members(), "b");
        }
    }

    #[test]
    fn whoever_was_put_out_and_never_came_back_is_forgotten() {
        let mut mesh = Mesh::of(&["a", "b"]);
        mesh.sees(&[("a", Serving)]);
        mesh.passes(HOLD);
        mesh.passes(FORGET);
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

        fn sees(&mut self, all: &[(&str, ServerStatus)]) {
            let observations: Vec<_> = all.iter().map(|(id, status)| observation(id, 1, *status)).collect();
            self.damper.see(&observations, None, self.now);
            self.damper.settle(self.now);
        }

        /// An answer that holds for a while has these, who all serve.
        fn reads(&mut self, ids: &[&str], holds: Duration) {
            let observations: Vec<_> = ids.iter().map(|id| observation(id, 1, Serving)).collect();
            self.damper.see(&observations, Some(self.now + holds), self.now);
            self.damper.settle(self.now);
        }

        fn passes(&mut self, time: Duration) {
            self.now += time;
            self.damper.settle(self.now);
        }

        /// The members' ids; a draining one has a mark.
        fn members(&self) -> String {
            let view = self.damper.view();
            let ids = view.members().iter().map(|m| format!("{}{}", m.id, if m.draining { "!" } else { "" }));
            ids.collect::<Vec<_>>().join(" ")
        }
    }

    fn observation(id: &str, port: u16, status: ServerStatus) -> Observation {
        Observation { id: id.parse().unwrap(), address: format!("h:{port}").parse().unwrap(), status }
    }
}
