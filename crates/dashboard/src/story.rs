//! What many servers saw of one thing, told once. Pure.

use std::collections::HashMap;

use serde::Serialize;
use signaling_protocol::NodeId;

use crate::status::{Happening, What};

/// Servers notice one thing within so many milliseconds: a silent node is given up after two seconds, and clocks differ.
const ONE_THING_MS: u64 = 3_000;
/// Most stories that are told.
const MOST: usize = 80;

/// Something that happened in the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Story {
    /// When it was first seen, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
    /// Who saw it, in the order of seeing.
    pub by: Vec<NodeId>,
}

/// Puts what servers tell in the order of time, what is alike and at the same time together, and leaves out all but the
/// latest.
#[must_use]
pub fn tell<'a>(told: impl IntoIterator<Item = (&'a NodeId, &'a Happening)>) -> Vec<Story> {
    let mut told: Vec<_> = told.into_iter().filter(|(_, happening)| happening.what != What::Unknown).collect();
    told.sort_by_key(|(by, happening)| (happening.at_ms, *by));
    let mut stories: Vec<Story> = Vec::new();
    let mut latest_by_kind: HashMap<What, usize> = HashMap::new();
    for (by, happening) in told {
        let kind = kind(&happening.what);
        let like = latest_by_kind.get(&kind).and_then(|at| stories.get_mut(*at));
        match like.filter(|story| happening.at_ms - story.at_ms <= ONE_THING_MS) {
            Some(story) => {
                if let (What::Moved { clients, .. }, What::Moved { clients: more, .. }) =
                    (&mut story.what, &happening.what)
                {
                    *clients += more;
                }
                if !story.by.contains(by) {
                    story.by.push(by.clone());
                }
            }
            None => {
                latest_by_kind.insert(kind, stories.len());
                stories.push(Story { at_ms: happening.at_ms, what: happening.what.clone(), by: vec![by.clone()] });
            }
        }
    }
    stories.split_off(stories.len().saturating_sub(MOST))
}

/// What it has in common with others that are told together with it.
fn kind(what: &What) -> What {
    match what {
        What::Moved { from, to, .. } => What::Moved { from: from.clone(), to: to.clone(), clients: 0 },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn id(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn left(at_ms: u64, node: &str) -> Happening {
        Happening { at_ms, what: What::Left { node: id(node) } }
    }

    fn moved(at_ms: u64, from: &str, to: &str, clients: u64) -> Happening {
        Happening { at_ms, what: What::Moved { from: from.into(), to: to.into(), clients } }
    }

    #[test]
    fn what_several_saw_is_told_once_with_their_names() {
        let (a, b, c) = (id("a"), id("b"), id("c"));
        let told = [(&c, left(1_500, "x")), (&a, left(1_000, "x")), (&b, left(1_200, "y")), (&b, left(900, "x"))];
        let stories = tell(told.iter().map(|(by, happening)| (*by, happening)));
        let x = Story { at_ms: 900, what: What::Left { node: id("x") }, by: vec![b.clone(), a, c] };
        assert_eq!(stories, [x, Story { at_ms: 1_200, what: What::Left { node: id("y") }, by: vec![b] }]);
    }

    #[test]
    fn the_same_again_later_is_another_story() {
        let a = id("a");
        let told = [left(1_000, "x"), left(1_000 + ONE_THING_MS + 1, "x")];
        assert_eq!(tell(told.iter().map(|happening| (&a, happening))).len(), 2);
    }

    #[test]
    fn clients_that_several_balancers_moved_are_added_up() {
        let (a, b) = (id("a"), id("b"));
        let told = [
            (&a, moved(1_000, "x", "y", 5)),
            (&b, moved(1_100, "x", "y", 6)),
            (&a, moved(1_500, "x", "y", 1)),
            (&a, moved(1_500, "x", "z", 2)),
        ];
        let stories = tell(told.iter().map(|(by, happening)| (*by, happening)));
        assert_eq!(stories[0].what, moved(0, "x", "y", 12).what);
        assert_eq!(stories[0].by, [a, b]);
        assert_eq!(stories[1].what, moved(0, "x", "z", 2).what);
    }

    #[test]
    fn of_many_only_the_latest_are_told_and_nothing_that_has_no_word() {
        let a = id("a");
        let mut told: Vec<_> = (0..2 * MOST as u64).map(|at| left(at, &format!("n{at}"))).collect();
        told.push(Happening { at_ms: 9_999, what: What::Unknown });
        let stories = tell(told.iter().map(|happening| (&a, happening)));
        assert_eq!((stories.len(), stories[0].at_ms), (MOST, MOST as u64));
    }
}
