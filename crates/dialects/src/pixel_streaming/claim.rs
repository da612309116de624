//! A streamer's id. It is the seat in a room of capacity 1.
//!
//! A client whose claim fails sends `probe` to the holder of the seat. The holder closes its socket
//! if its client does not answer, which frees the seat. Otherwise the client claims the next id.
//! `client` passes requests, `inbound` events of the mesh.

use std::time::{Duration, Instant};

use super::envelope::Envelope;
use super::mesh::{Context, LIST, players_room, seat_room};
use super::peer::{Kind, Peer};
use super::players::Players;
use crate::json::quote;
use crate::room_requests::Outcome;
use crate::translator::Close;

/// Id of a streamer that gives none.
const UNKNOWN: &str = "UnknownStreamer";
/// Maximum bytes of a requested id. The rest is not used.
const MAX_ID_BYTES: usize = 256;
/// Maximum bytes of an id with the number that the mesh adds.
pub(super) const MAX_USED_ID_BYTES: usize = MAX_ID_BYTES + 16;
/// Number of ids that a client claims before one with its own random number.
const MAX_TRIES: u32 = 100;
/// Maximum wait for the holder's answer. Behind it the client tries the seat once more.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Data of a streamer among its players.
const STREAMER: &str = r#"{"streamer":true}"#;

/// The id of one client, and its claim of another one.
#[derive(Debug, Default)]
pub(super) struct StreamerId {
    /// The requested id and the one that the client has.
    named: Option<(String, String)>,
    claim: Option<Claim>,
    /// Id that the client requested during the claim.
    next: Option<String>,
}

#[derive(Debug)]
struct Claim {
    requested: String,
    /// Number of ids that other clients have.
    taken: u32,
    step: Step,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Enters the seat. `again`: after a probe. `is_member`: the mesh has listed the client there.
    Enter { again: bool, is_member: bool },
    /// Lists the holder.
    FindHolder,
    /// Waits until this time for the holder's answer.
    Probe { holder: Option<Peer>, until: Instant },
    /// Enters the rooms where players find the client.
    Publish,
}

impl Claim {
    fn id(&self, own: Peer) -> String {
        match self.taken {
            0 => self.requested.clone(),
            taken if taken < MAX_TRIES => format!("{}{taken}", self.requested),
            _ => format!("{}{}", self.requested, own.number),
        }
    }
}

impl StreamerId {
    /// Returns the id that the client has or publishes.
    fn published(&self, own: Peer) -> Option<String> {
        let publishes = self.claim.as_ref().filter(|claim| claim.step == Step::Publish).map(|claim| claim.id(own));
        publishes.or_else(|| self.named.as_ref().map(|(_, id)| id.clone()))
    }

    /// Returns `true` if this is a room of the client's id: the seat, that of its players, or the
    /// list. During a claim only the claimed id counts.
    pub(super) fn is_in(&self, own: Peer, room: &str) -> bool {
        let claimed = self.claim.as_ref().map(|claim| claim.id(own));
        let id = claimed.or_else(|| self.published(own));
        id.is_some_and(|id| room == LIST || room == seat_room(&id) || room == players_room(&id))
    }

    /// Handles an `endpointId`. During a claim the last one waits. A client with players, or with
    /// this id already, keeps its id, which is confirmed again.
    pub(super) fn request(&mut self, context: &mut Context<'_>, players: &mut Players, id: &str) {
        let id = if id.is_empty() { UNKNOWN } else { &id[..id.floor_char_boundary(MAX_ID_BYTES)] };
        if let Some(claim) = &self.claim {
            self.next = (claim.requested != id).then(|| id.to_owned());
            return;
        }
        if let Some((requested, present)) = &self.named {
            if !players.is_empty() || id == requested || id == present {
                return confirm(context, present);
            }
            [&seat_room(present), &players_room(present), LIST].into_iter().for_each(|room| context.leave(room));
            players.clear(context);
            self.named = None;
        }
        let step = Step::Enter { again: false, is_member: false };
        self.claim = Some(Claim { requested: id.to_owned(), taken: 0, step });
        self.enter(context, false);
    }

    fn enter(&mut self, context: &mut Context<'_>, again: bool) {
        let Some(claim) = &mut self.claim else { return };
        claim.step = Step::Enter { again, is_member: false };
        context.join(&seat_room(&claim.id(context.own)), None);
    }

    /// Claims the next id.
    fn enter_next(&mut self, context: &mut Context<'_>) {
        let Some(claim) = &mut self.claim else { return };
        claim.taken += 1;
        if claim.taken > MAX_TRIES {
            context.out.close = Some(Close::RESTART);
            return;
        }
        self.enter(context, false);
    }

    /// Returns the room of the claimed seat. `None`: the client claims none.
    pub(super) fn claimed_seat(&self, own: Peer) -> Option<String> {
        self.claim.as_ref().map(|claim| seat_room(&claim.id(own)))
    }

    /// Returns the room of the client and its players. `None`: the client has no id.
    pub(super) fn players_room(&self, own: Peer) -> Option<String> {
        self.published(own).map(|id| players_room(&id))
    }

    /// Handles a list of the members of the claimed seat.
    pub(super) fn members(&mut self, context: &mut Context<'_>, members: &[Peer]) {
        let Some(claim) = &mut self.claim else { return };
        match &mut claim.step {
            Step::Enter { is_member, .. } => *is_member = members.contains(&context.own),
            Step::FindHolder => {
                let holder = members.iter().copied().find(|member| member.kind == Kind::Streamer);
                claim.step = Step::Probe { holder, until: context.now + PROBE_TIMEOUT };
                match holder {
                    Some(holder) if holder != context.own => context.send(holder, &Envelope::Probe, 0),
                    // The seat is free by now.
                    _ => self.enter(context, true),
                }
            }
            Step::Probe { .. } | Step::Publish => {}
        }
    }

    /// Handles the final failure of the list of the claimed seat.
    pub(super) fn list_failed(&mut self, context: &mut Context<'_>) {
        if self.claim.as_ref().is_some_and(|claim| claim.step == Step::FindHolder) {
            self.enter_next(context);
        }
    }

    /// Handles the claimed seat being another client's: finds the holder, or after a probe claims
    /// the next id. Without a free one among 101, the client must reconnect.
    pub(super) fn is_taken(&mut self, context: &mut Context<'_>) {
        let Some(claim) = &mut self.claim else { return };
        match claim.step {
            Step::Enter { again: false, .. } => {
                claim.step = Step::FindHolder;
                context.list(&seat_room(&claim.id(context.own)), None);
            }
            Step::Enter { again: true, .. } => self.enter_next(context),
            _ => {}
        }
    }

    /// Handles the answer of a holder.
    pub(super) fn holder_is_alive(&mut self, context: &mut Context<'_>, from: Peer) {
        let probes = |claim: &Claim| matches!(claim.step, Step::Probe { holder, .. } if holder == Some(from));
        if self.claim.as_ref().is_some_and(probes) {
            self.enter_next(context);
        }
    }

    /// Returns the time of the next [`StreamerId::tick`]. `None`: no holder has to answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.claim.as_ref()?.step {
            Step::Probe { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Enters the seat once again if its holder has not answered in time.
    pub(super) fn tick(&mut self, context: &mut Context<'_>) {
        if self.deadline().is_some_and(|until| until <= context.now) {
            self.enter(context, true);
        }
    }

    /// Handles the success of a `join` or `leave`, and continues the claim. Closes the client if
    /// the mesh has not listed it in the room of its players.
    pub(super) fn done(&mut self, context: &mut Context<'_>, players: &mut Players, outcome: &Outcome) {
        let Some(claim) = &mut self.claim else { return };
        let id = claim.id(context.own);
        match claim.step {
            Step::Enter { is_member: true, .. } if outcome.is_join && *outcome.room == seat_room(&id) => {
                claim.step = Step::Publish;
                context.join(&players_room(&id), Some(STREAMER));
                context.join(LIST, Some(&format!(r#"{{"id":{}}}"#, quote(&id))));
            }
            Step::Enter { .. } if outcome.is_join && *outcome.room == seat_room(&id) => self.is_taken(context),
            Step::Publish if [LIST, &players_room(&id)].iter().all(|room| !context.requests.changes_seat(room)) => {
                if !players.is_listed {
                    context.out.close = Some(Close::RESTART);
                    return;
                }
                confirm(context, &id);
                self.named = self.claim.take().map(|claim| (claim.requested, id));
                if let Some(next) = self.next.take() {
                    self.request(context, players, &next);
                }
            }
            _ => {}
        }
    }

    /// Has all players lose their streamer. New ones can come. The client keeps its id.
    pub(super) fn restart(&self, context: &mut Context<'_>, players: &mut Players) {
        players.clear(context);
        if let Some(id) = self.published(context.own) {
            context.leave(&players_room(&id));
            context.join(&players_room(&id), Some(STREAMER));
        }
    }

    /// Returns the size of the ids, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let named = self.named.as_ref().map_or(0, |(requested, id)| requested.len() + id.len());
        named + self.claim.as_ref().map_or(0, |claim| claim.requested.len()) + self.next.as_ref().map_or(0, String::len)
    }
}

/// Confirms its id to a streamer.
fn confirm(context: &mut Context<'_>, id: &str) {
    context.out.frames.push(format!(r#"{{"type":"endpointIdConfirm","committedId":{}}}"#, quote(id)));
}
