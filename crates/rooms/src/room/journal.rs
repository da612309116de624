//! A room and its journal: what changed, and what an owner without a copy reads back.

use std::collections::BTreeSet;

use signaling_protocol::ClientId;

use super::closure::Closure;
use super::records::Record;
use super::{ChangedClients, Room, signed, unsigned};
use crate::journal::{JournalBans, JournalRoom, JournalSummary};
use crate::rules::SETTLE_MS;
use crate::{Seat, SeatStatus};

/// Maximum time in ms in which a room without members waits for its journal.
const READ_MS: i64 = 1_000;

impl Room {
    /// Creates a room that may have clients in its journal. With a capacity it admits no client for
    /// 1 s, or until [`Self::end_wait_for_journal`].
    pub(crate) fn awaiting_journal(now: u64, epoch: u64) -> Self {
        Self { settled_at: signed(now) + READ_MS, touched: signed(now), ..Self::new(epoch) }
    }

    /// Returns `true` before the end of the wait, if there was no change.
    pub(crate) fn awaits_journal(&self) -> bool {
        self.version.is_none() && self.settled_at > self.touched
    }

    /// Ends the wait for the journal. The next operation admits clients. No effect in a room that
    /// settles for another reason.
    pub(crate) fn end_wait_for_journal(&mut self, now: u64) {
        if self.awaits_journal() {
            self.settled_at = self.settled_at.min(signed(now).max(self.touched));
        }
    }

    /// Takes clients of the journal as unclaimed, and settles for 5 s if there are any. A present
    /// client takes its former place, in any session. Returns `false` in a settled room, which
    /// takes blocks and a closure alone: other clients may have these seats.
    pub(crate) fn take_journal(&mut self, now: u64, found: &JournalRoom) -> bool {
        let now = signed(now).max(self.touched);
        self.touched = now;
        self.take_bans(now, &found.bans);
        if now >= self.settled_at {
            return false;
        }
        let is_awaited = self.version.is_none();
        let newcomers = if is_awaited { self.waiting_clients() } else { Vec::new() };
        for seat in &found.seats {
            self.take_seat(now, seat);
        }
        // The counter of the former owner may have been ahead: newcomers stay behind its queue.
        let listed: BTreeSet<_> = found.seats.iter().map(|seat| &seat.requester.client).collect();
        for client in newcomers.iter().filter(|client| !listed.contains(client)) {
            self.move_behind(client);
        }
        let JournalSummary { incarnation, version, capacity, keeps_capacity } = found.summary;
        if self.capacity.is_none() {
            (self.capacity, self.keeps_capacity) = (capacity, keeps_capacity);
        }
        // Members may have received changes up to 1 s after the journal's last write. Another
        // incarnation has them request the list, and their nodes restore seats.
        self.incarnation = self.incarnation.max(self.epoch).max(incarnation.saturating_add(1));
        self.version = Some(self.version.unwrap_or(self.epoch).max(version).saturating_add(1));
        if !found.seats.is_empty() {
            self.settled_at = now + SETTLE_MS;
        } else if is_awaited {
            self.settled_at = now;
        }
        true
    }

    /// Takes blocks and a closure, in place of none. The next operation ends the seats of a closed
    /// room, and [`Self::blocked_clients`] has the other seats to end.
    fn take_bans(&mut self, now: i64, bans: &JournalBans) {
        for (client, time) in &bans.blocks {
            if self.blocks.end(client).is_none() {
                self.blocks.insert(client, now + signed(*time));
            }
        }
        let closed = bans.closed_for.map(|time| Closure::new(now, (time < u64::MAX).then(|| signed(time))));
        self.closure = self.closure.or(closed);
    }

    /// Returns the present clients that are blocked.
    pub(crate) fn blocked_clients(&self) -> Vec<ClientId> {
        let present = self.blocks.iter().filter(|(client, _)| self.records.get(client).is_some());
        present.map(|(client, _)| client.clone()).collect()
    }

    /// Returns the clients that an operator keeps out, if they changed since the last call, or if
    /// `always`.
    pub(crate) fn new_bans(&mut self, now: u64, always: bool) -> Option<JournalBans> {
        let is_new = std::mem::take(&mut self.has_new_bans) || always;
        let time_until = |end: i64| unsigned(end - signed(now));
        is_new.then(|| JournalBans {
            blocks: self.blocks.iter().map(|(client, end)| (client.clone(), time_until(end))).collect(),
            closed_for: self.closure.map(|closure| closure.end().map_or(u64::MAX, time_until)),
        })
    }

    /// Returns the clients of the queue, the first one first.
    fn waiting_clients(&self) -> Vec<ClientId> {
        let mut places: Vec<_> = self
            .seats_after(None)
            .filter_map(|seat| match seat.status {
                SeatStatus::Waiting { place, .. } => Some((place, seat.requester.client.clone())),
                _ => None,
            })
            .collect();
        places.sort_unstable();
        places.into_iter().map(|(_, client)| client).collect()
    }

    /// Gives a waiting client a place behind all others, unless it has one.
    fn move_behind(&mut self, client: &ClientId) {
        let Some(mut record) = self.records.get(client).cloned() else { return };
        let SeatStatus::Waiting { place, ahead } = record.seat.status else { return };
        let place = place.max(self.last_place.saturating_add(1));
        self.last_place = place;
        record.seat.status = SeatStatus::Waiting { place, ahead };
        self.records.put(record);
    }

    fn take_seat(&mut self, now: i64, seat: &Seat) {
        let (SeatStatus::Member { place } | SeatStatus::Waiting { place, .. }) = seat.status else { return };
        self.last_place = self.last_place.max(place);
        let client = &seat.requester.client;
        let known = self.records.get(client).cloned();
        let has_left = known.is_none() && self.records.last(client).is_some();
        if has_left || self.ban(client).is_some() {
            // It left, or an operator keeps it out, since the room was lost.
            return;
        }
        let mut record =
            known.unwrap_or_else(|| Record { seat: seat.clone(), left: 0, has_ended: false, unclaimed_at: now });
        if seat.status.is_member() || !record.is_member() {
            record.seat.status = seat.status;
        }
        record.seat.data = record.seat.data.or_else(|| seat.data.clone());
        self.records.put(record);
    }

    /// Marks changes of clients from now on. The whole room counts as changed.
    pub(crate) fn watch_clients(&mut self) {
        self.records.changed = ChangedClients::All;
    }

    /// Marks no changes of clients any more.
    pub(crate) fn unwatch_clients(&mut self) {
        self.records.changed = ChangedClients::Unwatched;
    }

    /// Returns `true` if the journal lacks a change of clients, blocks or the closure.
    pub(crate) fn has_changes(&self) -> bool {
        self.records.changed.is_marked() || self.has_new_bans
    }

    /// Takes the marks, and begins anew without any.
    pub(crate) fn take_changed_clients(&mut self) -> ChangedClients {
        std::mem::replace(&mut self.records.changed, ChangedClients::Some(Default::default()))
    }

    pub(crate) fn seat(&self, client: &ClientId) -> Option<&Seat> {
        self.records.get(client).map(|record| &record.seat)
    }

    /// Returns the seats of present clients after `after` by id. `None`: all.
    pub(crate) fn seats_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = &Seat> {
        self.records.present_after(after).map(|record| &record.seat)
    }

    pub(crate) fn journal_summary(&self) -> JournalSummary {
        let Self { incarnation, capacity, keeps_capacity, .. } = *self;
        JournalSummary { incarnation, version: self.version.unwrap_or_default(), capacity, keeps_capacity }
    }
}
