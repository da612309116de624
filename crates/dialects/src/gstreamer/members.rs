//! Members of the client's room, as far as their number and size allow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use signaling_protocol::rooms::Member;

use super::names;
use super::status::{Role, Status};
use uuid::Uuid;

/// Maximum size of all members, in bytes: a list of them must fit in a client's output.
const MAX_BYTES: usize = 256 * 1024;
/// Maximum size with a member that is neither producer nor consumer. The rest is for these.
const MAX_OTHER_BYTES: usize = MAX_BYTES / 2;
/// Size of a member beside its `meta`, in a list and in memory.
const MEMBER_BYTES: usize = 128;
/// Time after which a page is requested again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum requests for a page, so that the last fails 30 s after the first.
const MAX_PAGE_REQUESTS: u8 = 6;

#[derive(Debug)]
struct Known {
    status: Status,
    /// `true` if a page of the present snapshot has listed the member, or it has joined since.
    is_listed: bool,
}

/// A snapshot of the room with more than one page.
#[derive(Debug)]
struct Snapshot {
    /// First client of the first page.
    first: Box<str>,
    /// Last client of the last page.
    after: Box<str>,
    /// Number of members on its pages.
    listed: u64,
    /// Number of requests for the next page.
    requests: u8,
    /// Time of the next one.
    retry_at: Instant,
}

/// Effect of a member's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Update {
    Unchanged,
    Changed,
    /// There is no room for the member.
    Dropped,
}

/// A page has not come within 30 s.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overdue;

/// Progress of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The page behind this client is needed.
    Next(Box<str>),
    /// The snapshot is complete. These clients are no members any more.
    Complete(Vec<(Uuid, Status)>),
    /// No page follows, but pages are missing.
    Unclear,
}

/// Known members. The client itself is none of them.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: BTreeMap<Uuid, Known>,
    bytes: usize,
    /// `None`: no page is missing.
    snapshot: Option<Snapshot>,
}

fn size(status: &Status) -> usize {
    MEMBER_BYTES + status.meta.len()
}

impl Members {
    /// Begins or continues a snapshot. Returns `true` if it begins one. The page's members follow
    /// by [`Members::update`], and then [`Members::end_page`].
    pub(super) fn begin_page(&mut self, now: Instant, page: &[Member<'_>]) -> bool {
        let first = page.first().map_or("", |member| member.client_id);
        let is_next = self.snapshot.as_ref().is_some_and(|snapshot| *snapshot.first != *first);
        if !is_next {
            self.known.values_mut().for_each(|known| known.is_listed = false);
            self.snapshot =
                Some(Snapshot { first: first.into(), after: first.into(), listed: 0, requests: 0, retry_at: now });
        }
        !is_next
    }

    /// Ends a page of a room with `count` members.
    pub(super) fn end_page(&mut self, now: Instant, page: &[Member<'_>], count: u64, more: bool) -> Page {
        let Some(snapshot) = &mut self.snapshot else { return Page::Unclear };
        snapshot.listed = snapshot.listed.saturating_add(page.len() as u64);
        // Clients of the dialect are its only members.
        let last = page.last().filter(|member| more && names::peer(member.client_id).is_some());
        if let Some(last) = last {
            snapshot.after = last.client_id.into();
            (snapshot.requests, snapshot.retry_at) = (1, now + PAGE_TIMEOUT);
            return Page::Next(snapshot.after.clone());
        }
        // A page that was requested twice can come late: it is no whole room.
        let is_whole = snapshot.listed >= count;
        self.snapshot = None;
        if is_whole { Page::Complete(self.remove_if(|known| !known.is_listed)) } else { Page::Unclear }
    }

    /// Returns the client behind which a page is overdue. Fails after the last request.
    pub(super) fn overdue_page(&mut self, now: Instant) -> Result<Option<Box<str>>, Overdue> {
        let Some(snapshot) = self.snapshot.as_mut().filter(|snapshot| snapshot.retry_at <= now) else {
            return Ok(None);
        };
        if snapshot.requests >= MAX_PAGE_REQUESTS {
            self.snapshot = None;
            return Err(Overdue);
        }
        (snapshot.requests, snapshot.retry_at) = (snapshot.requests + 1, now + PAGE_TIMEOUT);
        Ok(Some(snapshot.after.clone()))
    }

    /// Returns the time of the next [`Members::overdue_page`]. `None`: no page is missing.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.snapshot.as_ref().map(|snapshot| snapshot.retry_at)
    }

    /// Returns `true` if no page is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.snapshot.is_none()
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

    /// Removes all members, and returns them.
    pub(super) fn clear(&mut self) -> Vec<(Uuid, Status)> {
        self.snapshot = None;
        self.remove_if(|_| true)
    }

    /// Returns a member's status.
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

    /// Returns the approximate size of all members, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
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
    use super::*;

    const PRODUCER: &str = r#"{"roles":["producer"],"meta":null,"n":1}"#;

    fn peer(number: u64) -> Uuid {
        names::session([0; 16], number)
    }

    fn update(members: &mut Members, number: u64, data: &str) -> Update {
        members.update(peer(number), serde_json::from_str(data).unwrap())
    }

    fn page(members: &mut Members, now: Instant, numbers: &[u64], count: u64, more: bool) -> Page {
        let names: Vec<String> = numbers.iter().map(|number| names::of_peer(peer(*number))).collect();
        let page: Vec<Member<'_>> = names.iter().map(|name| Member { client_id: name, data: None }).collect();
        members.begin_page(now, &page);
        for number in numbers {
            members.update(peer(*number), None);
        }
        members.end_page(now, &page, count, more)
    }

    fn gone(page: Page) -> Vec<Uuid> {
        let Page::Complete(gone) = page else { panic!("{page:?}") };
        gone.into_iter().map(|(peer, _)| peer).collect()
    }

    #[test]
    fn producers_have_room_beside_many_other_members() {
        let mut members = Members::default();
        let others = (0..5000).filter(|number| update(&mut members, *number, "{}") == Update::Changed).count();
        assert_eq!(others, MAX_OTHER_BYTES / (MEMBER_BYTES + 4));
        let producers = (5000..9000).filter(|number| update(&mut members, *number, PRODUCER) == Update::Changed);
        assert_eq!(producers.count() + others, MAX_BYTES / (MEMBER_BYTES + 4));
        assert!(members.bytes() <= MAX_BYTES);
        members.clear();
        assert_eq!((members.bytes(), update(&mut members, 1, PRODUCER)), (0, Update::Changed));
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
        assert_eq!(members.bytes(), MEMBER_BYTES + 4);
        assert!(members.remove(peer(1)).is_some() && members.remove(peer(1)).is_none());
        assert_eq!(members.bytes(), 0);
    }

    #[test]
    fn snapshot_of_several_pages_finds_former_members() {
        let (mut members, now) = (Members::default(), Instant::now());
        assert!(gone(page(&mut members, now, &[1, 2, 3, 4], 4, false)).is_empty());
        assert_eq!(page(&mut members, now, &[1, 2], 3, true), Page::Next(names::of_peer(peer(2)).into()));
        assert!(!members.is_complete());
        update(&mut members, 5, "{}");
        assert_eq!(gone(page(&mut members, now, &[4], 3, false)), [peer(3)]);
        assert!(members.is_complete() && members.get(peer(5)).is_some());
    }

    #[test]
    fn late_page_of_a_finished_snapshot_removes_no_member() {
        let (mut members, now) = (Members::default(), Instant::now());
        page(&mut members, now, &[1, 2], 4, true);
        page(&mut members, now, &[3, 4], 4, false);
        assert_eq!(page(&mut members, now, &[3, 4], 4, false), Page::Unclear);
        assert!(members.get(peer(1)).is_some());
    }

    #[test]
    fn snapshot_begins_anew_by_its_first_page() {
        let (mut members, now) = (Members::default(), Instant::now());
        page(&mut members, now, &[1, 2, 3], 4, true);
        page(&mut members, now, &[1, 2], 3, true);
        assert_eq!(gone(page(&mut members, now, &[4], 3, false)), [peer(3)]);
    }

    #[test]
    fn overdue_page_is_requested_for_30_seconds() {
        let (mut members, mut now) = (Members::default(), Instant::now());
        page(&mut members, now, &[1], 2, true);
        for _ in 1..MAX_PAGE_REQUESTS {
            assert_eq!(members.overdue_page(now), Ok(None));
            now = members.deadline().unwrap();
            assert_eq!(members.overdue_page(now), Ok(Some(names::of_peer(peer(1)).into())));
        }
        assert_eq!(members.overdue_page(now + PAGE_TIMEOUT), Err(Overdue));
        assert_eq!(members.deadline(), None);
    }
}
