//! Players of a streamer. Its translator decides which of them it gets.
//!
//! A player's `data` in the streamer's room is `{"s":N}` with the number of its subscription. Only
//! players behind the streamer's own position are its own: those before it lose their streamer.

use std::collections::BTreeMap;

use super::envelope::{Envelope, number};
use super::mesh::Context;
use super::peer::{Kind, Peer, player_number};
use super::{HOLD_MS, Present};
use crate::event::IgnoredReason;
use crate::json::Object;

/// Maximum players and SFUs of a streamer, including refused ones. A further one is refused.
const MAX_PRESENT: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Player {
    subscription: u64,
    /// `false`: the streamer has the maximum number of players, and this one will leave.
    is_accepted: bool,
}

/// A list of the room's members that has not arrived whole.
#[derive(Debug, Default)]
struct Snapshot {
    /// `true` once the streamer itself was in it.
    has_own: bool,
    /// Subscriptions of the members behind it.
    found: BTreeMap<Peer, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Players {
    /// Maximum accepted players, without SFUs. `None`: no limit.
    max: Option<u32>,
    present: BTreeMap<Peer, Player>,
    /// Number of accepted players without SFUs, each of which stands for many players.
    counted: u64,
    snapshot: Option<Snapshot>,
    /// `true` if the mesh has listed the streamer itself.
    pub(super) is_listed: bool,
}

impl Players {
    /// Creates the players of a streamer with this maximum. `None`: no limit.
    pub(super) fn new(max: Option<u32>) -> Self {
        Self { max, ..Self::default() }
    }

    /// Returns `true` if there is no player or SFU, and no refused one either.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Returns the accepted player or SFU with a `playerId`, and its subscription, or `None`.
    pub(super) fn get(&self, player_id: &str) -> Option<(Peer, u64)> {
        let number = player_number(player_id)?;
        let of_kind = |kind| Peer { number, kind };
        [of_kind(Kind::Player), of_kind(Kind::Streamer)]
            .into_iter()
            .find_map(|peer| Some((peer, self.subscription(peer)?)))
    }

    /// Returns the subscription of an accepted player or SFU. `None`: the peer is none.
    pub(super) fn subscription(&self, peer: Peer) -> Option<u64> {
        self.present.get(&peer).filter(|player| player.is_accepted).map(|player| player.subscription)
    }

    /// Handles a page of the room's members, which can be the first. `more`: the page behind it is
    /// requested. Accepts or refuses new players. After the last page, players of no page are gone.
    pub(super) fn page(&mut self, context: &mut Context<'_>, members: &[Present<'_>], (is_first, more): (bool, bool)) {
        let mut snapshot = self.snapshot.take().filter(|_| !is_first).unwrap_or_default();
        for member in members {
            if member.peer == context.own {
                snapshot.has_own = true;
            } else if snapshot.has_own
                && snapshot.found.len() < MAX_PRESENT
                && let Some(subscription) = subscription_of(member)
            {
                snapshot.found.insert(member.peer, subscription);
                self.add(context, member.peer, subscription);
            }
        }
        self.is_listed |= snapshot.has_own;
        if more {
            self.snapshot = Some(snapshot);
            return;
        }
        let missing: Vec<Peer> =
            self.present.keys().copied().filter(|peer| !snapshot.found.contains_key(peer)).collect();
        missing.into_iter().for_each(|peer| self.remove(context, peer));
    }

    pub(super) fn change(&mut self, context: &mut Context<'_>, joined: &[Present<'_>], left: &[Peer]) {
        for peer in left {
            self.remove(context, *peer);
            if let Some(snapshot) = &mut self.snapshot {
                snapshot.found.remove(peer);
            }
        }
        for member in joined {
            let Some(subscription) = subscription_of(member) else { continue };
            if let Some(snapshot) = self.snapshot.as_mut().filter(|snapshot| snapshot.found.len() < MAX_PRESENT) {
                snapshot.found.insert(member.peer, subscription);
            }
            self.add(context, member.peer, subscription);
        }
    }

    /// Removes all players, and reports each accepted one to the streamer as disconnected.
    pub(super) fn clear(&mut self, context: &mut Context<'_>) {
        self.snapshot = None;
        self.is_listed = false;
        let all: Vec<Peer> = self.present.keys().copied().collect();
        all.into_iter().for_each(|peer| self.remove(context, peer));
    }

    pub(super) fn bytes(&self) -> usize {
        let found = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.found.len());
        (self.present.len() + found) * (size_of::<(Peer, Player)>() + 32)
    }

    fn add(&mut self, context: &mut Context<'_>, peer: Peer, subscription: u64) {
        match self.present.get(&peer) {
            Some(player) if player.subscription == subscription => return,
            // It has left in between.
            Some(_) => self.remove(context, peer),
            None => {}
        }
        if self.present.len() >= MAX_PRESENT {
            context.out.ignore(IgnoredReason::Limit);
            let full = Envelope::Full { subscription, max: MAX_PRESENT as u64 };
            return context.send(peer, &full, HOLD_MS);
        }
        let is_counted = peer.kind == Kind::Player;
        let verdict = match self.max.map(u64::from).filter(|max| is_counted && self.counted >= *max) {
            Some(max) => Envelope::Full { subscription, max },
            None => Envelope::In { subscription },
        };
        let is_accepted = matches!(verdict, Envelope::In { .. });
        self.present.insert(peer, Player { subscription, is_accepted });
        context.send(peer, &verdict, HOLD_MS);
        if is_accepted {
            self.counted += u64::from(is_counted);
            let (sfu, id) = (!is_counted, peer.player_id());
            let frame = format!(r#"{{"type":"playerConnected","dataChannel":true,"sfu":{sfu},"playerId":"{id}"}}"#);
            context.out.frames.push(frame);
        }
    }

    fn remove(&mut self, context: &mut Context<'_>, peer: Peer) {
        if self.present.remove(&peer).is_some_and(|player| player.is_accepted) {
            self.counted -= u64::from(peer.kind == Kind::Player);
            let frame = format!(r#"{{"type":"playerDisconnected","playerId":"{}"}}"#, peer.player_id());
            context.out.frames.push(frame);
        }
    }
}

/// Returns the subscription of a member. `None`: it is a streamer.
fn subscription_of(member: &Present<'_>) -> Option<u64> {
    number(&Object::parse(member.data?.get().as_bytes())?, "s")
}
