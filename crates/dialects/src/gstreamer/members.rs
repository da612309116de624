//! Members of a client's room, bounded by number and size. `room` updates and `client` lists them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::status::{Role, Status};
use uuid::Uuid;

/// Maximum size of all members, in bytes: a list of them must fit in a client's output.
const MAX_BYTES: usize = 256 * 1024;
/// Size up to which other members are added; the rest is for producers and consumers.
const MAX_OTHER_BYTES: usize = MAX_BYTES / 2;
/// Size of a member beside its `meta`, in a list and in memory.
const MEMBER_BYTES: usize = 128;

#[derive(Debug)]
struct Known {
    status: Status,
    /// `true` if a page of the present snapshot has listed the member, or it has joined since.
    is_listed: bool,
}

/// Effect of a member's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    Unchanged,
    Changed,
    /// There is no room for the member, or for its larger status: a known one keeps the former.
    Dropped,
}

/// Known members. The client itself is none of them.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: BTreeMap<Uuid, Known>,
    /// Approximate size of all members, in bytes.
    pub(super) bytes: usize,
    /// `true` while pages of a snapshot are missing.
    pub(super) is_partial: bool,
}

fn size(status: &Status) -> usize {
    MEMBER_BYTES + status.meta.len()
}

impl Members {
    /// Begins a snapshot. The members of its pages follow by [`Members::update`].
    pub(super) fn begin_snapshot(&mut self) {
        self.known.values_mut().for_each(|known| known.is_listed = false);
        self.is_partial = true;
    }

    /// Ends a snapshot. Removes members that it does not list; returns each with its last status.
    pub(super) fn end_snapshot(&mut self) -> Vec<(Uuid, Status)> {
        self.is_partial = false;
        self.remove_if(|known| !known.is_listed)
    }

    /// Adds a member, or changes its status to that in its `data`.
    pub(super) fn update(&mut self, peer: Uuid, data: Option<&RawValue>) -> Update {
        let status = Status::of_member(data);
        let present = self.known.get_mut(&peer);
        let former = present.as_ref().map_or(0, |known| size(&known.status));
        let limit = if status.is_callable() { MAX_BYTES } else { MAX_OTHER_BYTES };
        if let Some(known) = present {
            known.is_listed = true;
            if known.status == status {
                return Update::Unchanged;
            }
        }
        let bytes = self.bytes - former + size(&status);
        if bytes > limit && size(&status) > former {
            return Update::Dropped;
        }
        self.bytes = bytes;
        self.known.insert(peer, Known { status, is_listed: true });
        Update::Changed
    }

    /// Removes a member and returns its last status. `None`: it was not known.
    pub(super) fn remove(&mut self, peer: Uuid) -> Option<Status> {
        let status = self.known.remove(&peer)?.status;
        self.bytes -= size(&status);
        Some(status)
    }

    /// Returns a member's status. `None`: it is not known.
    pub(super) fn get(&self, peer: Uuid) -> Option<&Status> {
        self.known.get(&peer).map(|known| &known.status)
    }

    /// Returns a JSON array of the members with a role, with the client itself if it has the role.
    pub(super) fn list(&self, role: Role, own: (Uuid, &Status)) -> String {
        let others = self.known.iter().map(|(peer, known)| (*peer, &known.status));
        let with_role = others.chain([own]).filter(|(_, status)| status.has(role));
        let entries: Vec<String> =
            with_role.map(|(peer, status)| format!(r#"{{"id":"{peer}","meta":{}}}"#, status.meta)).collect();
        format!("[{}]", entries.join(","))
    }

    fn remove_if(&mut self, is_gone: impl Fn(&Known) -> bool) -> Vec<(Uuid, Status)> {
        let gone = self.known.extract_if(.., |_, known| is_gone(known));
        let gone: Vec<_> = gone.map(|(peer, known)| (peer, known.status)).collect();
        self.bytes -= gone.iter().map(|(_, status)| size(status)).sum::<usize>();
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::super::sessions::session_id;
    use super::*;

    const PRODUCER: &str = r#"{"roles":["producer"],"meta":null,"n":1}"#;

    fn peer(number: u64) -> Uuid {
        session_id([0; 16], number)
    }

    fn update(members: &mut Members, number: u64, data: &str) -> Update {
        members.update(peer(number), serde_json::from_str(data).unwrap())
    }

    #[test]
    fn producers_have_room_beside_many_other_members() {
        let mut members = Members::default();
        let others = (0..5000).filter(|number| update(&mut members, *number, "{}") == Update::Changed).count();
        assert_eq!(others, MAX_OTHER_BYTES / (MEMBER_BYTES + 4));
        let producers = (5000..9000).filter(|number| update(&mut members, *number, PRODUCER) == Update::Changed);
        assert_eq!(producers.count() + others, MAX_BYTES / (MEMBER_BYTES + 4));
        assert!(members.bytes <= MAX_BYTES);
        members.begin_snapshot();
        members.end_snapshot();
        assert_eq!((members.bytes, update(&mut members, 1, PRODUCER)), (0, Update::Changed));
    }

    #[test]
    fn status_of_a_known_member_changes_within_the_limit() {
        let mut members = Members::default();
        let large = format!(r#"{{"roles":["producer"],"meta":"{}","n":1}}"#, "x".repeat(200_000));
        assert_eq!(update(&mut members, 1, &large), Update::Changed);
        assert_eq!(update(&mut members, 2, &large), Update::Dropped);
        assert_eq!(
            (update(&mut members, 1, &large), update(&mut members, 1, PRODUCER)),
            (Update::Unchanged, Update::Changed)
        );
        assert_eq!(members.bytes, MEMBER_BYTES + 4);
        assert!(members.remove(peer(1)).is_some() && members.remove(peer(1)).is_none());
        assert_eq!(members.bytes, 0);
    }

    #[test]
    fn snapshot_of_several_pages_finds_former_members() {
        let mut members = Members::default();
        let list = |members: &mut Members, numbers: &[u64]| {
            assert!(numbers.iter().all(|number| update(members, *number, "{}") != Update::Dropped));
        };
        list(&mut members, &[1, 2, 3, 4]);
        members.begin_snapshot();
        list(&mut members, &[1, 2, 3]);
        assert!(members.is_partial);
        members.begin_snapshot();
        list(&mut members, &[1, 2]);
        list(&mut members, &[5]);
        list(&mut members, &[4]);
        let gone: Vec<Uuid> = members.end_snapshot().into_iter().map(|(peer, _)| peer).collect();
        assert_eq!(gone, [peer(3)]);
        assert!(!members.is_partial && members.get(peer(5)).is_some());
    }
}
