//! What has happened at one server, made of how things stood before and after. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use signaling_discovery::View;
use signaling_protocol::NodeId;

use crate::status::{Happening, What};

/// Most happenings that are remembered: a rolling release of ten nodes comes to some sixty.
pub const MOST: usize = 128;

/// How things stand at a server, as far as a change of it is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// The view that it goes by.
    pub view: Arc<View>,
    /// Why it takes no work, if so.
    pub obstacle: Option<&'static str>,
    /// Whether the source of its views cannot be read.
    pub is_stale: bool,
    /// Nodes that it does not rely on, sorted.
    pub suspects: Vec<NodeId>,
    /// Clients that it has sent from node to node so far.
    pub flows: Vec<Flow>,
}

/// Clients that were sent from one node to another, since the process started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Where they were.
    pub from: Box<str>,
    /// Whose they became.
    pub to: Box<str>,
    /// How many.
    pub clients: u64,
}

/// The latest happenings of a server.
#[derive(Debug, Default)]
pub struct Chronicle {
    standing: Option<Standing>,
    happenings: VecDeque<Happening>,
}

impl Chronicle {
    /// Takes note of how things stand at a time, in milliseconds since 1970. Says whether that is any news.
    pub fn observe(&mut self, at_ms: u64, standing: Standing) -> bool {
        let news = match &self.standing {
            Some(before) if *before == standing => return false,
            Some(before) => changes(before, &standing),
            None => vec![What::Started],
        };
        self.standing = Some(standing);
        let is_news = !news.is_empty();
        for what in news {
            if self.happenings.len() == MOST {
                self.happenings.pop_front();
            }
            self.happenings.push_back(Happening { at_ms, what });
        }
        is_news
    }

    /// What is remembered, oldest first.
    #[must_use]
    pub fn happenings(&self) -> Vec<Happening> {
        self.happenings.iter().cloned().collect()
    }
}

fn changes(before: &Standing, after: &Standing) -> Vec<What> {
    let mut news = Vec::new();
    if before.obstacle != after.obstacle {
        news.push(after.obstacle.map_or(What::Ready, |why| What::Unready { why: why.to_owned() }));
    }
    if before.is_stale != after.is_stale {
        news.push(if after.is_stale { What::Stale } else { What::Fresh });
    }
    let added = |to: &[NodeId], from: &[NodeId]| -> Vec<NodeId> {
        to.iter().filter(|node| !from.contains(node)).cloned().collect()
    };
    news.extend(added(&after.suspects, &before.suspects).into_iter().map(|node| What::Suspects { node }));
    // Of one that has left, nobody thinks anything.
    let is_there = |node: &NodeId| after.view.get(node.as_str()).is_some();
    let trusted = added(&before.suspects, &after.suspects).into_iter().filter(is_there);
    news.extend(trusted.map(|node| What::Trusts { node }));
    views(&before.view, &after.view, &mut news);
    news.extend(after.flows.iter().filter_map(|flow| {
        let counted = before.flows.iter().find(|older| older.from == flow.from && older.to == flow.to);
        // A pair that was forgotten meanwhile counts anew.
        let base = counted.map(|older| older.clients).filter(|older| *older <= flow.clients).unwrap_or(0);
        let clients = flow.clients - base;
        (clients > 0).then(|| What::Moved { from: flow.from.to_string(), to: flow.to.to_string(), clients })
    }));
    news
}

fn views(before: &View, after: &View, news: &mut Vec<What>) {
    let diff = before.diff(after);
    let drains = |node: NodeId| What::Drains { node };
    for member in diff.joined {
        news.push(What::Joined { node: member.id.clone() });
        if member.draining {
            news.push(drains(member.id));
        }
    }
    for member in diff.changed {
        let drained = before.get(member.id.as_str()).is_some_and(|older| older.draining);
        match (drained, member.draining) {
            (false, true) => news.push(drains(member.id)),
            (true, false) => news.push(What::Serves { node: member.id }),
            // Its address alone has changed.
            _ => {}
        }
    }
    news.extend(diff.left.into_iter().map(|member| What::Left { node: member.id }));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use signaling_discovery::Member;

    use super::*;

    fn id(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn view(nodes: &[(&str, bool)]) -> Arc<View> {
        let member = |(name, draining): &(&str, bool)| Member {
            id: id(name),
            address: "h:1".parse().unwrap(),
            draining: *draining,
        };
        Arc::new(View::new(nodes.iter().map(member)).unwrap())
    }

    fn flow(from: &str, to: &str, clients: u64) -> Flow {
        Flow { from: from.into(), to: to.into(), clients }
    }

    /// What a chronicle that knows `before` makes of `after`.
    fn news(before: Standing, after: Standing) -> Vec<What> {
        let mut chronicle = Chronicle::default();
        chronicle.observe(1, before);
        chronicle.observe(2, after);
        chronicle.happenings().into_iter().skip(1).map(|happening| happening.what).collect()
    }

    #[test]
    fn the_first_look_tells_that_the_server_is_up_and_the_same_again_tells_nothing() {
        let mut chronicle = Chronicle::default();
        let standing = Standing { view: view(&[("a", false)]), ..Standing::default() };
        assert!(chronicle.observe(5, standing.clone()));
        assert!(!chronicle.observe(6, standing));
        assert_eq!(chronicle.happenings(), [Happening { at_ms: 5, what: What::Started }]);
    }

    #[test]
    fn a_view_that_changes_is_told_node_by_node() {
        let before = Standing { view: view(&[("a", false), ("b", false), ("c", true)]), ..Standing::default() };
        let after =
            Standing { view: view(&[("b", true), ("c", false), ("d", false), ("e", true)]), ..Standing::default() };
        let told = [
            What::Joined { node: id("d") },
            What::Joined { node: id("e") },
            What::Drains { node: id("e") },
            What::Drains { node: id("b") },
            What::Serves { node: id("c") },
            What::Left { node: id("a") },
        ];
        assert_eq!(news(before, after), told);
    }

    #[test]
    fn readiness_trust_and_discovery_are_told_as_they_come_and_go() {
        let here = Standing { view: view(&[("a", false), ("b", false)]), ..Standing::default() };
        let good = Standing { suspects: vec![id("a")], ..here.clone() };
        let bad = Standing { obstacle: Some("draining"), is_stale: true, suspects: vec![id("b")], ..here };
        let (suspects, trusts) = (|n| What::Suspects { node: id(n) }, |n| What::Trusts { node: id(n) });
        let unready = What::Unready { why: "draining".into() };
        assert_eq!(news(good.clone(), bad.clone()), [unready, What::Stale, suspects("b"), trusts("a")]);
        assert_eq!(news(bad, good), [What::Ready, What::Fresh, suspects("a"), trusts("b")]);
    }

    #[test]
    fn who_was_suspect_when_it_left_is_not_said_to_be_trusted() {
        let before = Standing { view: view(&[("a", false)]), suspects: vec![id("a")], ..Standing::default() };
        assert_eq!(news(before, Standing::default()), [What::Left { node: id("a") }]);
    }

    #[test]
    fn clients_that_moved_are_counted_since_the_last_look_also_for_a_pair_that_was_forgotten_meanwhile() {
        let at = |flows: &[Flow]| Standing { flows: flows.to_vec(), ..Standing::default() };
        let moved = |from: &str, to: &str, clients| What::Moved { from: from.into(), to: to.into(), clients };
        let before = at(&[flow("a", "b", 10), flow("b", "c", 4), flow("c", "a", 9)]);
        let after = at(&[flow("a", "b", 15), flow("b", "c", 4), flow("c", "a", 2), flow("c", "b", 3)]);
        assert_eq!(news(before, after), [moved("a", "b", 5), moved("c", "a", 2), moved("c", "b", 3)]);
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let mut chronicle = Chronicle::default();
        for at_ms in 0..2 * MOST as u64 {
            chronicle.observe(at_ms, Standing { is_stale: at_ms % 2 == 1, ..Standing::default() });
        }
        let happenings = chronicle.happenings();
        assert_eq!(happenings.len(), MOST);
        assert_eq!(happenings.last().unwrap().at_ms, 2 * MOST as u64 - 1);
    }
}
