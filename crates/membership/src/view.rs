//! Members, views, and the difference between two views. Discovery builds views from its
//! observations. Nodes, balancers and the operators' API rank their members.

use serde::{Deserialize, Serialize};
use signaling_protocol::NodeId;
use twox_hash::XxHash3_64;

use crate::{Address, Zone};

/// A node of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeEntry {
    /// The node's stable name.
    pub id: NodeId,
    /// Address of its internal listener.
    pub address: Address,
    /// `true` if the node drains: it is reachable, but owns no clients unless all members drain.
    #[serde(default)]
    pub draining: bool,
    /// The zone that it fails with. `None`: discovery names none.
    #[serde(default)]
    pub zone: Option<Zone>,
}

/// An immutable set of members. Views of equal members have equal hashes, in whatever order the
/// members were given, and whatever their zones. The default view is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Sorted bytewise by id, without duplicates.
    members: Box<[NodeEntry]>,
    hash: u64,
}

/// The error of a view with two members of one id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node id {0} appears twice")]
pub struct ViewError(NodeId);

/// The difference between two views, each list sorted by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Members that only the newer view has.
    pub joined: Vec<NodeEntry>,
    /// Members that only the older view has.
    pub left: Vec<NodeEntry>,
    /// Members with another address, draining state or zone, as in the newer view.
    pub changed: Vec<NodeEntry>,
}

impl View {
    /// Returns a view of these members.
    ///
    /// # Errors
    /// If two members have one id.
    pub fn new(members: impl IntoIterator<Item = NodeEntry>) -> Result<Self, ViewError> {
        let mut members: Box<[NodeEntry]> = members.into_iter().collect();
        members.sort_unstable();
        match members.windows(2).find(|pair| pair[0].id == pair[1].id) {
            Some(pair) => Err(ViewError(pair[0].id.clone())),
            None => Ok(Self { hash: content_hash(&members), members }),
        }
    }

    /// Returns the hash of the members' ids, addresses and draining states, equal in all releases.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns all members, sorted bytewise by id.
    pub fn members(&self) -> &[NodeEntry] {
        &self.members
    }

    /// Returns the member with this id. `None`: the view does not have it.
    pub fn get(&self, id: &str) -> Option<&NodeEntry> {
        let at = self.members.binary_search_by(|member| member.id.as_str().cmp(id)).ok()?;
        self.members.get(at)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns `true` if the view has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the difference to a newer view.
    pub fn diff(&self, newer: &Self) -> Diff {
        let mut diff = Diff::default();
        for member in newer.members() {
            match self.get(member.id.as_str()) {
                None => diff.joined.push(member.clone()),
                Some(older) if older != member => diff.changed.push(member.clone()),
                Some(_) => {}
            }
        }
        let gone = self.members.iter().filter(|member| newer.get(member.id.as_str()).is_none());
        diff.left.extend(gone.cloned());
        diff
    }
}

impl Default for View {
    fn default() -> Self {
        Self { members: Box::default(), hash: content_hash(&[]) }
    }
}

impl Diff {
    /// Returns `true` if the two views are equal.
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.left.is_empty() && self.changed.is_empty()
    }
}

/// Hashes ids and addresses with their lengths, and draining states, by XXH3. Servers of different
/// releases compare the hashes, so the encoding is fixed.
fn content_hash(members: &[NodeEntry]) -> u64 {
    let mut canonical = Vec::with_capacity(members.len() * 64);
    for member in members {
        for text in [member.id.as_str(), member.address.as_str()] {
            canonical.extend_from_slice(&(text.len() as u64).to_le_bytes());
            canonical.extend_from_slice(text.as_bytes());
        }
        canonical.push(u8::from(member.draining));
        // Without the zone: releases and sources may differ in it, and no owner depends on it.
    }
    XxHash3_64::oneshot(&canonical)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_are_sorted_bytewise_and_found_by_id() {
        let view = View::new([member("b", 2, false), member("B", 3, true), member("a", 1, false)]).unwrap();
        let ids: Vec<_> = view.members().iter().map(|member| member.id.as_str()).collect();
        assert_eq!(ids, ["B", "a", "b"]);
        assert_eq!(view.get("a"), Some(&member("a", 1, false)));
        assert_eq!(view.get("c"), None);
    }

    #[test]
    fn duplicate_id_is_refused_even_with_another_address() {
        let refused = View::new([member("a", 1, false), member("b", 1, false), member("a", 2, false)]);
        assert_eq!(refused, Err(ViewError(NodeId::new("a").unwrap())));
    }

    #[test]
    fn hash_is_the_same_in_every_release() {
        // XXH3's published hash of no input, and a hash that fixes the encoding.
        assert_eq!(View::default().hash(), 0x2d06_8005_38d3_94c2);
        let view = View::new([member("node-0", 7900, false), member("node-1", 7901, true)]).unwrap();
        assert_eq!(view.hash(), GOLDEN);
    }

    #[test]
    fn zone_changes_a_view_and_not_its_hash() {
        let without = View::new([member("a", 1, false)]).unwrap();
        let zone = Some(Zone::new("west").unwrap());
        let with = View::new([NodeEntry { zone, ..member("a", 1, false) }]).unwrap();
        assert_ne!(without, with);
        assert_eq!(without.diff(&with).changed, with.members());
        assert_eq!(without.hash(), with.hash());
    }

    proptest! {
        #[test]
        fn order_of_members_does_not_matter(members in members(), seed in any::<prop::sample::Index>()) {
            let mut rotated = members.clone();
            if !rotated.is_empty() {
                let middle = seed.index(rotated.len());
                rotated.rotate_left(middle);
                rotated.reverse();
            }
            let (one, other) = (View::new(members).unwrap(), View::new(rotated).unwrap());
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(one.hash(), other.hash());
        }

        #[test]
        fn diff_applied_to_the_older_view_gives_the_newer(older in members(), newer in members()) {
            let (older, newer) = (View::new(older).unwrap(), View::new(newer).unwrap());
            let diff = older.diff(&newer);
            prop_assert_eq!(apply(&older, &diff), newer.clone());
            prop_assert_eq!(diff.is_empty(), older == newer);
            prop_assert_eq!(older == newer, older.hash() == newer.hash());
        }
    }

    const GOLDEN: u64 = 0x8b05_1ef0_079f_476c;

    fn member(id: &str, port: u16, draining: bool) -> NodeEntry {
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        NodeEntry { id: NodeId::new(id).unwrap(), address, draining, zone: None }
    }

    fn members() -> impl Strategy<Value = Vec<NodeEntry>> {
        prop::collection::btree_map("[a-e]{1,2}", (1..4_u16, any::<bool>()), 0..8)
            .prop_map(|entries| entries.into_iter().map(|(id, (port, draining))| member(&id, port, draining)).collect())
    }

    fn apply(older: &View, diff: &Diff) -> View {
        let mut by_id: BTreeMap<_, _> =
            older.members().iter().map(|member| (member.id.clone(), member.clone())).collect();
        for member in &diff.left {
            assert!(by_id.remove(&member.id).is_some());
        }
        for member in &diff.joined {
            assert!(by_id.insert(member.id.clone(), member.clone()).is_none());
        }
        for member in &diff.changed {
            assert!(by_id.insert(member.id.clone(), member.clone()).is_some());
        }
        View::new(by_id.into_values()).unwrap()
    }
}
