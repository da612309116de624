//! Room requests of one client: sent in order within a room, and repeated while no node can carry
//! them out. Lists of members are read page by page. All translators except that of PeerJS use it.
//!
//! Requests behind an unanswered `join` of the same room wait for its answer. Otherwise a `join`
//! that is repeated could take effect after a `broadcast` that the client sent later, and two
//! subscribers that announce themselves could miss each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::Event;
use crate::native;
use crate::translator::{Close, Out};

/// Requests without an outcome at which the edge stops reading. Equal to the edge's own limit.
const FULL: usize = 256;
/// Bytes of requests without an outcome at which the edge stops reading. As the edge's default.
const FULL_BYTES: usize = 256 * 1024;
/// Maximum requests without an outcome: one message of a client adds at most 256.
const MAX_PENDING: usize = 2 * FULL;
/// Bytes of them at which no further one is added. The largest message can follow the last one
/// below [`FULL_BYTES`].
const MAX_PENDING_BYTES: usize = 2 * FULL_BYTES;
/// Age without an outcome at which the client must reconnect: of a `join`, a `leave`, a page, and a
/// refused `broadcast`. Shorter than the 45 s (default) in which the seat of an unanswered `join`
/// expires: its repetition never gets a second seat, which some clients could not show.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Bounds of the wait before a repetition, whatever `retry_after_ms` a refusal has.
const MIN_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind<'a> {
    /// Enters the room with this JSON, which the other members see. `None`: none.
    Join(Option<&'a str>),
    Leave,
    /// Sends this JSON to the other members. The mesh holds it for its full hold time: no client
    /// announces itself again, so it must reach a member whose node has just crashed.
    Broadcast(&'a str),
}

/// The final outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) room: Arc<str>,
    /// `false` for a `leave` and a `broadcast`.
    pub(crate) is_join: bool,
    /// `true` if another `join` or `leave` of the room has no outcome.
    pub(crate) changes_seat: bool,
}

#[derive(Debug)]
struct Pending {
    room: Arc<str>,
    request: String,
    is_join: bool,
    /// `true` for a `join` and a `leave`.
    changes_seat: bool,
    /// `true` if it has a maximum age.
    ages: bool,
    /// Time of the client's message.
    since: Instant,
}

/// State of a room with requests without an outcome.
#[derive(Debug, Default)]
struct Room {
    /// Requests without an outcome.
    pending: usize,
    /// Number of `join` and `leave` requests among them.
    seat_changes: usize,
    /// Requests to send, by id.
    waiting: BTreeSet<u64>,
    /// A sent `join` without an answer.
    joining: Option<u64>,
    /// Time before which no request is sent. `None`: none was refused.
    retry_at: Option<Instant>,
}

/// A request for one page of a room's members.
#[derive(Debug)]
struct Page {
    /// Last member of the page before. `None`: it is the first page.
    after: Option<Box<str>>,
    since: Instant,
    /// Time of the next repetition. `None`: an answer is to come.
    retry_at: Option<Instant>,
}

/// Room requests without an outcome.
#[derive(Debug, Default)]
pub(crate) struct RoomRequests {
    last_id: u64,
    pending: BTreeMap<u64, Pending>,
    rooms: BTreeMap<Arc<str>, Room>,
    /// Pages to come, by room.
    pages: BTreeMap<Box<str>, Page>,
    bytes: usize,
}

impl RoomRequests {
    /// Returns a new id for a request that is no room request. Room requests use the same numbers.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends a request, or lets it wait for earlier ones. Returns `false` and drops it if 512
    /// requests or 512 KiB have no outcome.
    pub(crate) fn push(&mut self, now: Instant, room: &str, kind: RequestKind<'_>, out: &mut Out) -> bool {
        if self.pending.len() >= MAX_PENDING || self.bytes >= MAX_PENDING_BYTES {
            return false;
        }
        let id = self.next_id();
        let request = match kind {
            RequestKind::Join(data) => native::room_request("join", id, room, data),
            RequestKind::Leave => native::room_request("leave", id, room, None),
            RequestKind::Broadcast(data) => native::room_request("broadcast", id, room, Some(data)),
        };
        self.bytes += request.len();
        let changes_seat = !matches!(kind, RequestKind::Broadcast(_));
        let room = self.rooms.get_key_value(room).map_or_else(|| room.into(), |(room, _)| Arc::clone(room));
        let state = self.rooms.entry(Arc::clone(&room)).or_default();
        state.pending += 1;
        state.seat_changes += usize::from(changes_seat);
        state.waiting.insert(id);
        let is_join = matches!(kind, RequestKind::Join(_));
        let pending =
            Pending { room: Arc::clone(&room), request, is_join, changes_seat, ages: changes_seat, since: now };
        self.pending.insert(id, pending);
        self.flush(now, &room, out);
        true
    }

    /// Handles success or final failure of a request. `None`: no room request, or had its outcome.
    pub(crate) fn finish(&mut self, now: Instant, id: u64, out: &mut Out) -> Option<Outcome> {
        let Pending { room, request, is_join, changes_seat, .. } = self.pending.remove(&id)?;
        self.bytes -= request.len();
        let state = self.rooms.get_mut(&room)?;
        state.pending -= 1;
        state.seat_changes -= usize::from(changes_seat);
        state.waiting.remove(&id);
        state.joining.take_if(|joining| *joining == id);
        let changes_seat = state.seat_changes > 0;
        if state.pending > 0 {
            self.flush(now, &room, out);
        } else {
            self.rooms.remove(&room);
        }
        Some(Outcome { room, is_join, changes_seat })
    }

    /// Handles a failure. The request is repeated after `retry_after`, within
    /// [`MIN_RETRY`] and [`MAX_RETRY`]. No effect for an id without a pending room request.
    pub(crate) fn refuse(&mut self, now: Instant, id: u64, retry_after: Duration, out: &mut Out) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        let Some(state) = self.rooms.get_mut(&pending.room) else { return };
        out.count(Event::RoomWait);
        pending.ages = true;
        state.waiting.insert(id);
        state.joining.take_if(|joining| *joining == id);
        state.retry_at = Some(now + retry_after.clamp(MIN_RETRY, MAX_RETRY));
    }

    /// Repeats requests and pages that are due. Returns `false` if one is too old: then reconnect.
    pub(crate) fn tick(&mut self, now: Instant, out: &mut Out) -> bool {
        // The earliest first.
        let due: BTreeSet<_> =
            self.retries().filter(|(at, _)| *at <= now).map(|(at, room)| (at, Arc::clone(room))).collect();
        due.iter().for_each(|(_, room)| self.flush(now, room, out));
        for (room, page) in &mut self.pages {
            if page.retry_at.is_some_and(|at| at <= now) {
                page.retry_at = None;
                out.requests.push(native::members(room, page.after.as_deref()));
            }
        }
        let pages = self.pages.values().map(|page| page.since);
        pages.chain(self.oldest()).all(|since| now < since + MAX_AGE)
    }

    /// Returns the time of the next [`RoomRequests::tick`]. `None`: none is needed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let retries = self.retries().map(|(at, _)| at);
        let too_old = self.oldest().map(|since| since + MAX_AGE);
        let pages = self.pages.values().map(|page| page.retry_at.unwrap_or(page.since + MAX_AGE));
        pages.chain(retries).chain(too_old).min()
    }

    /// Requests a page of a room's members, behind this one. `None`: the first page. Replaces an
    /// earlier request for a page of the room.
    pub(crate) fn list(&mut self, now: Instant, room: &str, after: Option<&str>, out: &mut Out) {
        let page = Page { after: after.map(Box::from), since: now, retry_at: None };
        self.pages.insert(room.into(), page);
        out.requests.push(native::members(room, after));
    }

    /// Handles the arrival of the page behind `after`. Returns `false` if it was not requested. The
    /// first page can come unasked, and then replaces a requested one.
    pub(crate) fn page_came(&mut self, room: &str, after: Option<&str>) -> bool {
        let is_due = after.is_none() || self.pages.get(room).is_some_and(|page| page.after.as_deref() == after);
        if is_due {
            self.pages.remove(room);
        }
        is_due
    }

    pub(crate) fn forget_page(&mut self, room: &str) {
        self.pages.remove(room);
    }

    /// Handles the failure of a page, and requests it again after `retry_after`. Returns `true` if
    /// that is `None` and the page was expected: the failure is final.
    pub(crate) fn page_failed(
        &mut self,
        now: Instant,
        room: &str,
        retry_after: Option<Duration>,
        out: &mut Out,
    ) -> bool {
        let Some(wait) = retry_after else { return self.pages.remove(room).is_some() };
        if let Some(page) = self.pages.get_mut(room) {
            out.count(Event::RoomWait);
            page.retry_at = Some(now + wait.clamp(MIN_RETRY, MAX_RETRY));
        }
        false
    }

    /// Returns `true` if this is a room request without an outcome.
    pub(crate) fn is_pending(&self, id: u64) -> bool {
        self.pending.contains_key(&id)
    }

    /// Returns `true` if a `join` or `leave` of the room has no outcome.
    pub(crate) fn changes_seat(&self, room: &str) -> bool {
        self.rooms.get(room).is_some_and(|room| room.seat_changes > 0)
    }

    /// Handles a lost seat. Closes the client, unless a pending `join` or `leave` decides about it.
    pub(crate) fn seat_lost(&self, room: &str, close: Close, out: &mut Out) {
        if !self.changes_seat(room) {
            out.close = Some(close);
        }
    }

    /// Returns `true` if the request is a `join` of this room without an outcome.
    pub(crate) fn is_join_of(&self, id: u64, room: &str) -> bool {
        self.pending.get(&id).is_some_and(|pending| pending.is_join && &*pending.room == room)
    }

    /// Returns `true` if the edge must not read on: 256 requests or 256 KiB have no outcome.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= FULL || self.bytes >= FULL_BYTES
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        let pages = self.pages.len() * (size_of::<Page>() + 256);
        let rooms = self.rooms.len() * (size_of::<Room>() + 128);
        self.bytes + self.pending.len() * size_of::<Pending>() + rooms + pages
    }

    fn oldest(&self) -> Option<Instant> {
        self.pending.values().find(|pending| pending.ages).map(|pending| pending.since)
    }

    /// Returns the times of repetitions, by room.
    fn retries(&self) -> impl Iterator<Item = (Instant, &Arc<str>)> {
        self.rooms.iter().filter_map(|(room, state)| Some((state.retry_at?, room)))
    }

    /// Sends the waiting requests of a room up to its first unanswered `join`.
    fn flush(&mut self, now: Instant, room: &Arc<str>, out: &mut Out) {
        let Some(state) = self.rooms.get_mut(room) else { return };
        if state.retry_at.is_some_and(|retry_at| now < retry_at) {
            return;
        }
        state.retry_at = None;
        while state.joining.is_none()
            && let Some(id) = state.waiting.pop_first()
        {
            let Some(pending) = self.pending.get(&id) else { continue };
            out.requests.push(pending.request.clone());
            if pending.is_join {
                state.joining = Some(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [u64; 0] = [];
    const JOIN: RequestKind<'_> = RequestKind::Join(None);

    struct Test {
        requests: RoomRequests,
        now: Instant,
    }

    impl Test {
        fn new() -> Self {
            Self { requests: RoomRequests::default(), now: Instant::now() }
        }

        /// Returns the ids of the requests that this sends.
        fn sent(&mut self, act: impl FnOnce(&mut RoomRequests, Instant, &mut Out)) -> Vec<u64> {
            let mut out = Out::default();
            act(&mut self.requests, self.now, &mut out);
            let id = |text: &str| text.split_once("\"id\":").unwrap().1.trim_end_matches('}').to_owned();
            out.requests.iter().map(|request| id(request.split(",\"ttl").next().unwrap()).parse().unwrap()).collect()
        }

        fn push(&mut self, room: &str, kind: RequestKind<'_>) -> Vec<u64> {
            self.sent(|requests, now, out| assert!(requests.push(now, room, kind, out)))
        }

        fn finish(&mut self, id: u64) -> Vec<u64> {
            self.sent(|requests, now, out| drop(requests.finish(now, id, out)))
        }

        fn refuse(&mut self, id: u64, ms: u64) -> Vec<u64> {
            self.sent(|requests, now, out| {
                requests.refuse(now, id, Duration::from_millis(ms), out);
            })
        }

        fn tick_after(&mut self, ms: u64) -> Vec<u64> {
            self.now += Duration::from_millis(ms);
            self.sent(|requests, now, out| assert!(requests.tick(now, out)))
        }
    }

    #[test]
    fn requests_wait_for_the_join_of_their_room() {
        let mut test = Test::new();
        assert_eq!(test.push("a", JOIN), [1]);
        assert_eq!(test.push("a", RequestKind::Broadcast("1")), NOTHING);
        assert_eq!(test.push("b", RequestKind::Broadcast("1")), [3]);
        assert_eq!(test.push("a", RequestKind::Leave), NOTHING);
        assert_eq!(test.finish(1), [2, 4]);
        assert!(test.requests.changes_seat("a") && !test.requests.changes_seat("b"));
        assert!(test.finish(4).is_empty() && !test.requests.changes_seat("a"));
        assert!(test.finish(2).is_empty() && !test.requests.rooms.contains_key("a"));
    }

    #[test]
    fn refused_requests_are_repeated_in_order() {
        let mut test = Test::new();
        for id in 1..=3 {
            assert_eq!(test.push("a", RequestKind::Broadcast("1")), [id]);
        }
        assert_eq!(test.refuse(1, 1000), NOTHING);
        assert_eq!(test.push("a", RequestKind::Broadcast("2")), NOTHING);
        assert_eq!(test.refuse(2, 1000), NOTHING);
        assert_eq!(test.finish(3), NOTHING);
        assert_eq!(test.requests.deadline(), Some(test.now + Duration::from_secs(1)));
        assert_eq!(test.tick_after(999), NOTHING);
        assert_eq!(test.tick_after(1), [1, 2, 4]);
    }

    #[test]
    fn request_is_too_old_after_30_seconds() {
        let mut test = Test::new();
        test.push("a", RequestKind::Broadcast("1"));
        test.push("b", JOIN);
        assert_eq!(test.requests.deadline(), Some(test.now + MAX_AGE));
        test.tick_after(29_999);
        test.now += Duration::from_millis(1);
        assert!(!test.requests.tick(test.now, &mut Out::default()));
        test.finish(2);
        assert!(test.requests.tick(test.now, &mut Out::default()), "a sent broadcast may take longer");
        assert_eq!(test.requests.deadline(), None);
    }

    #[test]
    fn retry_after_has_bounds() {
        let mut test = Test::new();
        test.push("a", JOIN);
        test.refuse(1, 0);
        assert_eq!(test.requests.deadline(), Some(test.now + MIN_RETRY));
        test.refuse(1, 1_000_000);
        assert_eq!(test.requests.deadline(), Some(test.now + MAX_RETRY));
        test.finish(1);
        assert_eq!((test.requests.deadline(), test.requests.rooms.len()), (None, 0));
    }
}
