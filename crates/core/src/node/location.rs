//! Clients that are not where the ranking says: who has them, and who must be told.

use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::SessionId;
use signaling_wire::forward::Item;

use super::session::Session;
use super::takeover::REPLACED_BY_NEWER;
use super::{NodeCore, PeerKey, SessionKey};

/// So long after it was said where a client is, messages may still be about that were there before it.
const NEWS: Duration = Duration::from_secs(1);

/// Where a client is.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) peer: PeerKey,
    session: SessionId,
    told: Instant,
    until: Instant,
    /// It was handed off to there from here: true until the next view, which says who owns it.
    released: bool,
}

/// What a peer is told of a client that is here, or no longer.
fn located(session: &Session, here: bool) -> Item<'_> {
    Item::Located {
        client_id: session.client_id.as_str(),
        session: session.id,
        accepted_at_us: session.accepted_at_us,
        here,
    }
}

impl NodeCore {
    /// Where the client is, if not where the ranking says. That node may be suspect, if only it answers.
    pub(super) fn location(&self, client: &str) -> Option<PeerKey> {
        let location = self.locations.get(client)?;
        self.peers.is_answering(location.peer).then_some(location.peer)
    }

    /// A message for the client has been where it is said to be. Either it was there before the client came, or the client has
    /// left: what was said just now counts more.
    pub(super) fn doubt_location(&mut self, now: Instant, client: &ClientId) {
        let is_news = |known: &Location| now.saturating_duration_since(known.told) < NEWS;
        if self.locations.get(client).is_some_and(|known| !is_news(known)) {
            self.locations.remove(client);
        }
    }

    /// The client was handed off from here.
    pub(super) fn released_to(&mut self, now: Instant, client: ClientId, session: SessionId, peer: PeerKey) {
        self.locations.insert(
            client,
            Location { peer, session, told: now, until: now + self.settings.rules.located_for, released: true },
        );
    }

    /// A peer has the client, or no longer.
    pub(super) fn located(
        &mut self,
        now: Instant,
        peer: PeerKey,
        client: ClientId,
        (session, accepted_at_us): (SessionId, u64),
        here: bool,
    ) {
        if !here {
            if self.locations.get(&client).is_some_and(|known| known.peer == peer && known.session == session) {
                self.locations.remove(&client);
                self.stirred = true;
            }
            return;
        }
        let known =
            Location { peer, session, told: now, until: now + self.settings.rules.located_for, released: false };
        if let Some((key, holder)) = self.holder(&client) {
            if (holder.id, holder.accepted_at_us) == (session, accepted_at_us) {
                // It counts once its edge is known to be gone from here, if it is not taken back before.
                self.locations.insert(client, known);
                return;
            }
            if (holder.accepted_at_us, holder.id) > (accepted_at_us, session) {
                return self.say_where(key, peer, true);
            }
            self.supersede(now, key, REPLACED_BY_NEWER);
        }
        if self.lingering.get(&client).is_some_and(|known| known.accepted_at_us <= accepted_at_us) {
            self.lingering.remove(&client);
        }
        self.send_seats_along(peer, &client, (session, accepted_at_us));
        if self.locations.insert(client.clone(), known).is_none_or(|before| before.peer != peer) {
            self.stirred = true;
            self.replace_held(now, &client);
        }
    }

    /// Tells the owners of a client that is here, by the ranking with and without suspects, if this
    /// node is not one. If a lane is full, a later sweep does it.
    pub(super) fn tell_owners(&mut self, key: SessionKey) {
        if !self.announce(key) {
            self.unannounced.push_back(key);
        }
    }

    /// Tells the owners of a client that is here. Returns `false` if a lane had no room.
    fn announce(&mut self, key: SessionKey) -> bool {
        let Some(session) = self.sessions.get(key).filter(|session| !session.gone) else { return true };
        let (owner, stand_in) = (self.peers.owner_by_view(session.key), self.peers.owner(session.key));
        let owners = [owner, stand_in.filter(|stand_in| owner != Some(*stand_in))];
        let mut told: Vec<_> = owners.into_iter().flatten().collect();
        let former: Vec<_> = session.told.iter().copied().filter(|peer| !told.contains(peer)).collect();
        let mut had_room = true;
        for &owner in &told {
            if self.peers.is_answering(owner) {
                had_room &= self.announce_to(key, owner, true);
            }
        }
        for peer in former {
            if !self.announce_to(key, peer, false) {
                // It has yet to be told.
                told.push(peer);
                had_room = false;
            }
        }
        if let Some(session) = self.sessions.get_mut(key) {
            session.told = told;
        }
        had_room
    }

    fn announce_to(&mut self, key: SessionKey, peer: PeerKey, here: bool) -> bool {
        let Some(session) = self.sessions.get(key) else { return true };
        self.peers.note_if_roomy(peer, session.key.get(), &located(session, here))
    }

    /// Tells the owners of all clients here. Clients that wait for room in a lane come first:
    /// otherwise a full lane would leave out the same clients each time.
    pub(super) fn tell_all_owners(&mut self, now: Instant) {
        self.tell_again_at = now + self.settings.rules.located_every;
        let waiting: FxHashSet<_> = self.unannounced.iter().copied().collect();
        let here = self.sessions.iter().filter(|(key, session)| !session.gone && !waiting.contains(key));
        self.unannounced.extend(here.map(|(key, _)| key));
        self.announce_waiting(usize::MAX);
    }

    /// Tells the owners of clients that wait for room in a lane. Stops when there is no room for
    /// `most_refused` of them.
    pub(super) fn announce_waiting(&mut self, most_refused: usize) {
        let mut refused = 0;
        for _ in 0..self.unannounced.len() {
            let Some(key) = self.unannounced.pop_front() else { return };
            if !self.announce(key) {
                self.unannounced.push_back(key);
                refused += 1;
                if refused >= most_refused {
                    return;
                }
            }
        }
    }

    /// Takes back what was told of a client that leaves.
    pub(super) fn untell(&mut self, key: SessionKey) {
        let told = self.sessions.get_mut(key).map(|session| std::mem::take(&mut session.told));
        told.into_iter().flatten().for_each(|peer| self.say_where(key, peer, false));
    }

    fn say_where(&mut self, key: SessionKey, peer: PeerKey, here: bool) {
        let Some(session) = self.sessions.get(key) else { return };
        self.peers.note(Some(peer), session.key.get(), &located(session, here));
    }

    /// Looks again at what waits for a client.
    pub(super) fn replace_held(&mut self, now: Instant, client: &ClientId) {
        for parcel in self.holds.take(client.as_str()) {
            self.place(now, client, parcel);
        }
    }

    /// A new view says where the clients are that were handed off before it.
    pub(super) fn forget_released(&mut self) {
        self.locations.retain(|_, known| !known.released);
    }

    pub(super) fn forget_old_locations(&mut self, now: Instant) {
        self.locations.retain(|_, known| known.until > now);
    }

    /// What waits for clients that other nodes serve or own now goes there.
    pub(super) fn rehouse(&mut self, now: Instant) {
        let elsewhere = self.holds.recipients(|to| {
            let key = KeyHash::of(to);
            self.location(to).is_some()
                || self.peers.owner(key).is_some()
                || self.peers.detour(key, |_| false).is_some()
        });
        elsewhere.iter().for_each(|to| self.replace_held(now, to));
    }
}
