//! Clients of matchbox, whose translators run at the edges: each pair of peers meets once.
//!
//! Half of the players are in one room, the others in groups of two. Of two peers, exactly one
//! receives `NewPeer`, and neither receives `PeerLeft` while both are connected.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use signaling_dialects::{Dialect, Head};
use signaling_rooms::{Room, Rules};

use crate::event::{ClientIx, SocketId};
use crate::world::World;

/// Number of players in a world with rooms.
pub(crate) const PLAYERS: usize = 8;
const GROUP: usize = 2;

/// Players of a run, and their messages about peers.
#[derive(Debug, Default)]
pub(crate) struct Players {
    id_by_socket: BTreeMap<SocketId, String>,
    /// Pairs of a socket and the id of a peer about which it received `NewPeer`.
    met: BTreeSet<(SocketId, String)>,
    /// Pairs of a socket and the id of a peer about which it received `PeerLeft`.
    left: BTreeSet<(SocketId, String)>,
    /// Ids of all that have been in a full group, which stays closed when they lose their peers.
    in_full_groups: BTreeSet<String>,
}

impl Players {
    /// Records the members of a group that has all its members.
    pub(crate) fn group_is_full(&mut self, group: &Room) {
        let rules = Rules::default();
        let names = group.seats(&rules).map(|(seat, _)| seat.requester.client.to_string());
        self.in_full_groups.extend(names.filter_map(|name| Some(name.strip_prefix("~mb:")?.to_owned())));
    }

    fn is_in(&self, pairs: &BTreeSet<(SocketId, String)>, socket: SocketId, peer: SocketId) -> bool {
        self.id_by_socket.get(&peer).is_some_and(|peer| pairs.contains(&(socket, peer.clone())))
    }

    /// Returns the number of `NewPeer` that two sockets received about each other.
    fn meetings(&self, one: SocketId, other: SocketId) -> usize {
        [(one, other), (other, one)].iter().filter(|(socket, peer)| self.is_in(&self.met, *socket, *peer)).count()
    }

    /// Returns the number of peers that a socket has met.
    fn peers(&self, socket: SocketId) -> usize {
        self.id_by_socket.keys().filter(|other| self.meetings(socket, **other) > 0).count()
    }
}

fn is_in_group(client: ClientIx) -> bool {
    client.is_multiple_of(2)
}

/// Returns the upgrade request of a player.
pub(crate) fn head(client: ClientIx) -> (Dialect, Head<'static>) {
    let (path, query) = if is_in_group(client) { ("/match", "next=2") } else { ("/lobby", "") };
    (Dialect::Matchbox, Head { method: "GET", path, query, upgrade: true, ..Head::default() })
}

impl World {
    /// Records a message that a player received. An unexpected or repeated one is a violation.
    pub(crate) fn player_gets(&mut self, id: SocketId, text: &[u8]) {
        let message = serde_json::from_slice::<Value>(text).unwrap_or_default();
        let named = |kind: &str| message[kind].as_str().map(str::to_owned);
        let players = &mut self.players;
        let wrong = if let Some(own) = named("IdAssigned") {
            players.id_by_socket.insert(id, own).map(|_| "IdAssigned came twice")
        } else if let Some(peer) = named("NewPeer") {
            let has_left = players.left.contains(&(id, peer.clone()));
            let is_again = !players.met.insert((id, peer));
            is_again.then_some("NewPeer came twice").or(has_left.then_some("a peer came back"))
        } else if let Some(peer) = named("PeerLeft") {
            (!players.left.insert((id, peer))).then_some("PeerLeft came twice")
        } else {
            Some("unexpected message of matchbox")
        };
        if let Some(wrong) = wrong {
            self.ledger.broken(wrong, format!("socket {id}: {}", String::from_utf8_lossy(text)));
        }
    }

    /// Checks that connected players have met once, and no group is too large or lacks a waiting
    /// player. If announces were lost or edges have small limits, checks double meetings only.
    pub(crate) fn check_players(&mut self) {
        let all: Vec<_> = self.players.id_by_socket.keys().copied().collect();
        for (number, one) in all.iter().enumerate() {
            if let Some(other) = all.iter().skip(number + 1).find(|other| self.players.meetings(*one, **other) > 1) {
                self.ledger.broken("NewPeer on both sides", format!("sockets {one} and {other}"));
            }
        }
        if self.subscribers.announces_were_lost || self.has_tight_edges() {
            return;
        }
        let clients = self.subscribers.players();
        let sockets: Vec<_> = clients.filter_map(|client| Some((client, self.open_socket(client)?))).collect();
        let mut alone = 0;
        for (number, &(client, socket)) in sockets.iter().enumerate() {
            if is_in_group(client) {
                let peers = self.players.peers(socket);
                let open = sockets.iter().filter(|(_, other)| self.players.meetings(socket, *other) > 0).count();
                let id = self.players.id_by_socket.get(&socket);
                let had_group = id.is_some_and(|id| self.players.in_full_groups.contains(id));
                alone += usize::from(peers == 0 && !had_group);
                if open >= GROUP {
                    self.ledger.broken("group too large", format!("socket {socket} has {open} peers"));
                }
                continue;
            }
            for &(_, other) in sockets.iter().skip(number + 1).filter(|(client, _)| !is_in_group(*client)) {
                let players = &self.players;
                let pairs = [(socket, other), (other, socket)];
                let has_left = pairs.iter().any(|(socket, peer)| players.is_in(&players.left, *socket, *peer));
                if players.meetings(socket, other) == 0 || has_left {
                    self.ledger.broken("players never met", format!("sockets {socket} and {other}"));
                }
            }
        }
        if alone >= GROUP {
            self.ledger.broken("players without a group", format!("{alone} sockets have no peer"));
        }
    }
}
