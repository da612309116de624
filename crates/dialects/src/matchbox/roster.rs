//! Members of a room in order of joining, which a client reads page by page and then follows.
//! `members` updates them, and `election` reads those of the queue room.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use signaling_protocol::rooms;

use crate::{Dialect, name};
use uuid::Uuid;

/// Maximum members that a client follows. Further ones are unknown to it.
const MAX_MEMBERS: usize = 4096;

/// Relation of a member of a queue room to a group. Groups have the id of their founder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Claim {
    /// It is in no group.
    #[default]
    None,
    /// It enters the group if that still exists, or founds it.
    Tentative(Uuid),
    /// It is in the group.
    Firm(Uuid),
}

/// `data` of a member.
#[derive(Deserialize, Default)]
struct Data<'a> {
    /// Group of a tentative [`Claim`].
    t: Option<&'a str>,
    /// Group of a firm [`Claim`].
    g: Option<&'a str>,
    /// [`Member::entry`].
    n: Option<u64>,
}

impl<'a> Data<'a> {
    /// Parses `data`. It is empty if it is invalid.
    fn parse(data: &'a RawValue) -> Self {
        serde_json::from_str(data.get()).unwrap_or_default()
    }

    fn claim(&self) -> Claim {
        let (group, claim): (_, fn(Uuid) -> Claim) = match (self.g, self.t) {
            (Some(group), _) => (group, Claim::Firm),
            (None, Some(group)) => (group, Claim::Tentative),
            (None, None) => return Claim::None,
        };
        Uuid::parse_str(group).map(claim).unwrap_or_default()
    }
}

/// Returns the `data` of a member of a group's room with this [`Member::entry`].
pub(super) fn entry_to_json(entry: u64) -> String {
    format!(r#"{{"n":{entry}}}"#)
}

impl Claim {
    /// Returns the JSON that other members see.
    pub(super) fn to_json(self) -> String {
        match self {
            Self::None => "{}".to_owned(),
            Self::Tentative(group) => format!(r#"{{"t":"{group}"}}"#),
            Self::Firm(group) => format!(r#"{{"g":"{group}"}}"#),
        }
    }

    /// Returns the group. `None`: there is none.
    pub(super) fn group(self) -> Option<Uuid> {
        match self {
            Self::None => None,
            Self::Tentative(group) | Self::Firm(group) => Some(group),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: Uuid,
    /// Its claim, in queue rooms.
    pub(super) claim: Claim,
    /// Number of groups that it had entered with this one. 0: it is in no group.
    pub(super) entry: u64,
}

impl Member {
    /// Reads a member. `None`: it is no matchbox client.
    pub(super) fn read(member: &rooms::Member<'_>) -> Option<Self> {
        let id = name::uuid(Dialect::Matchbox, member.client_id)?;
        let data = member.data.map(Data::parse).unwrap_or_default();
        Some(Self { id, claim: data.claim(), entry: data.n.unwrap_or_default() })
    }
}

/// Members of a room, the client included.
#[derive(Debug)]
pub(super) struct Roster {
    own: Uuid,
    members: Vec<Member>,
    /// Number of members from pages. Members that joined since are behind them.
    read: usize,
    /// `true` once all pages were read, or 4,096 members.
    pub(super) is_complete: bool,
}

impl Roster {
    pub(super) fn new(own: Uuid) -> Self {
        Self { own, members: Vec::new(), read: 0, is_complete: false }
    }

    /// Begins anew with the first page.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.own);
    }

    /// Adds the next page. Returns its last member if one more is needed. `None`: it is the last.
    pub(super) fn page(&mut self, page: &[rooms::Member<'_>], more: bool) -> Option<Uuid> {
        let page: Vec<Member> = page.iter().filter_map(Member::read).collect();
        for member in &page {
            if self.members.iter().take(self.read).any(|read| read.id == member.id) {
                continue;
            }
            if self.read >= MAX_MEMBERS {
                break;
            }
            // A member that changed while the pages were read has its present claim already.
            let member = self.remove(member.id).unwrap_or(*member);
            self.members.insert(self.read, member);
            self.read += 1;
        }
        let last = page.last().filter(|_| more && self.read < MAX_MEMBERS).map(|last| last.id);
        if last.is_none() {
            self.is_complete = true;
            if !self.contains(self.own) {
                self.members.push(Member { id: self.own, claim: Claim::None, entry: 0 });
            }
        }
        last
    }

    /// Adds a member, or replaces its claim. Returns `false` if there is no room for it.
    pub(super) fn add(&mut self, member: Member) -> bool {
        let is_full = self.members.len() >= MAX_MEMBERS;
        match self.members.iter_mut().find(|known| known.id == member.id) {
            Some(known) => *known = member,
            None if is_full => return false,
            None => self.members.push(member),
        }
        true
    }

    /// Removes a member and returns it. `None`: it was none.
    pub(super) fn remove(&mut self, id: Uuid) -> Option<Member> {
        let at = self.members.iter().position(|member| member.id == id)?;
        self.read -= usize::from(at < self.read);
        Some(self.members.remove(at))
    }

    /// Returns `true` if the client is a member since this [`Member::entry`].
    pub(super) fn contains_entry(&self, id: Uuid, entry: u64) -> bool {
        self.members.iter().any(|member| (member.id, member.entry) == (id, entry))
    }

    pub(super) fn contains(&self, id: Uuid) -> bool {
        self.members.iter().any(|member| member.id == id)
    }

    /// Returns the clients that are no members.
    pub(super) fn missing_of(&self, mut clients: Vec<Uuid>) -> Vec<Uuid> {
        let members: BTreeSet<Uuid> = self.members.iter().map(|member| member.id).collect();
        clients.retain(|client| !members.contains(client));
        clients
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the other members.
    pub(super) fn others(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.id != self.own)
    }

    /// Returns the members that joined before the client: all until the list contains it.
    pub(super) fn older(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().take_while(|member| member.id != self.own)
    }

    /// Returns the members that joined after the client: none until the list contains it.
    pub(super) fn younger(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().skip_while(|member| member.id != self.own).skip(1)
    }

    pub(super) fn bytes(&self) -> usize {
        self.members.len() * size_of::<Member>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> Uuid {
        name::random_uuid(&[n; 32])
    }

    fn page(roster: &mut Roster, ids: &[u8], more: bool) -> Option<Uuid> {
        let names: Vec<String> = ids.iter().map(|n| name::of_uuid(Dialect::Matchbox, id(*n))).collect();
        let page: Vec<_> = names.iter().map(|name| rooms::Member { client_id: name, data: None }).collect();
        roster.page(&page, more)
    }

    fn member(n: u8) -> Member {
        Member { id: id(n), claim: Claim::None, entry: 0 }
    }

    fn ids<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<Uuid> {
        members.map(|member| member.id).collect()
    }

    #[test]
    fn pages_are_read_in_order_despite_changes() {
        let mut roster = Roster::new(id(3));
        assert_eq!(page(&mut roster, &[1, 2], true), Some(id(2)));
        assert!(roster.add(Member { claim: Claim::Firm(id(9)), ..member(4) }) && roster.add(member(6)));
        roster.remove(id(1));
        assert!(!roster.is_complete);
        assert_eq!(page(&mut roster, &[3, 4, 5], false), None);
        assert!(roster.is_complete);
        assert_eq!((ids(roster.older()), ids(roster.younger())), (vec![id(2)], vec![id(4), id(5), id(6)]));
        assert_eq!(roster.younger().next().unwrap().claim, Claim::Firm(id(9)));
    }

    #[test]
    fn own_client_is_last_if_no_page_has_it() {
        let mut roster = Roster::new(id(3));
        page(&mut roster, &[1, 2], true);
        roster.clear();
        assert_eq!((page(&mut roster, &[2], true), page(&mut roster, &[], false)), (Some(id(2)), None));
        assert_eq!((roster.is_complete, roster.len(), ids(roster.older())), (true, 2, vec![id(2)]));
    }

    #[test]
    fn claim_is_read_from_data() {
        for claim in [Claim::None, Claim::Tentative(id(1)), Claim::Firm(id(2))] {
            let json = claim.to_json();
            assert_eq!(Data::parse(serde_json::from_str(&json).unwrap()).claim(), claim, "{json}");
        }
        for json in ["1", "null", r#"{"g":1}"#, r#"{"g":"x"}"#] {
            assert_eq!(Data::parse(serde_json::from_str(json).unwrap()).claim(), Claim::None, "{json}");
        }
    }
}
