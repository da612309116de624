//! Clients of y-webrtc, whose translators run at the edges: any two subscribers of a topic meet.
//!
//! A subscriber announces itself once, when its socket opens. Of two subscribers, at least one must
//! receive the announce of the other, during all faults.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;
use signaling_core::edge::{ConnectRequest, DialectClient, Newcomer};
use signaling_dialects::dialect::Settings;
use signaling_dialects::{Answer, Dialect, Head};
use signaling_wire::{Credential, SessionId};

use crate::agenda::{MS, SECOND};
use crate::clients::wire_id;
use crate::event::{ClientFrame, ClientIx, Exit, SocketId};
use crate::players::{self, PLAYERS};
use crate::rng::Rng;
use crate::world::World;

/// Subscribers in a world with some.
const SUBSCRIBERS: usize = 6;
const TOPICS: usize = 2;

/// Clients of dialects in a run: subscribers, the announces that they received, and then players.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    /// Index of the first one among the clients, which is the number of native clients.
    first: ClientIx,
    /// Number of subscribers and players.
    pub(crate) count: usize,
    /// Pairs of a socket and a socket whose announce it received.
    heard: BTreeSet<(SocketId, SocketId)>,
    /// `true` if all copies of a dialect's room were lost, no node had the majority, or a lane kept
    /// its bytes for as long as messages live. Announces are then refused or missed.
    pub(crate) announces_were_lost: bool,
}

impl Subscribers {
    /// Adds subscribers and players behind the `first` native clients, if `has_some`.
    pub(crate) fn new(first: ClientIx, has_some: bool) -> Self {
        Self { first, count: if has_some { SUBSCRIBERS + PLAYERS } else { 0 }, ..Self::default() }
    }

    /// Returns `true` for a subscriber or player.
    pub(crate) fn contains(&self, client: ClientIx) -> bool {
        client >= self.first
    }

    fn subscribers(&self) -> Range<ClientIx> {
        self.first..self.first + self.count.min(SUBSCRIBERS)
    }

    /// Returns the clients of matchbox.
    pub(crate) fn players(&self) -> Range<ClientIx> {
        self.subscribers().end..self.first + self.count
    }
}

fn topic(client: ClientIx) -> usize {
    client % TOPICS
}

impl World {
    /// Plans the connections of subscribers and players.
    pub(crate) fn plan_subscribers(&mut self, rng: &mut Rng) {
        for client in self.subscribers.first..self.subscribers.first + self.subscribers.count {
            let mut at = rng.within(100 * MS, 20 * SECOND);
            self.agenda.schedule(at, move |world: &mut Self| world.client_connects(client));
            for _ in 0..rng.within(0, 3) {
                at += rng.within(SECOND, 8 * SECOND);
                let noticed_after = rng.within(MS, 3 * SECOND);
                let leave = move |world: &mut Self| world.client_disconnects(client, Exit::Break, noticed_after);
                self.agenda.schedule(at, leave);
                at += rng.within(100 * MS, 3 * SECOND);
                self.agenda.schedule(at, move |world: &mut Self| world.client_connects(client));
            }
        }
    }

    /// Returns the admission request of a subscriber or player on a socket.
    pub(crate) fn new_subscriber(&mut self, id: SocketId, client: ClientIx) -> Option<(Newcomer, DialectClient)> {
        let (dialect, head) = match self.subscribers.players().contains(&client) {
            true => players::head(client),
            false => (Dialect::YWebrtc, Head { method: "GET", upgrade: true, ..Head::default() }),
        };
        let answer = dialect.request(&Settings::default(), &head, &self.rng.bytes());
        let Answer::Upgrade(opening) = answer else { return None };
        let (session, socket) = (SessionId::new(self.rng.bytes(), false), wire_id(id));
        let (client_id, since_ms, request) = (opening.client_id, self.agenda.now() / MS, ConnectRequest::default());
        let newcomer = Newcomer { client_id, session, socket, since_ms, reliable: false, request };
        let (credential, lifetime) = (opening.credential.map(Credential), opening.lifetime);
        Some((newcomer, DialectClient { dialect, translator: opening.translator, credential, lifetime }))
    }

    /// Has a subscriber send its frames, once its socket is open. Players send none.
    pub(crate) fn subscriber_opens(&mut self, id: SocketId) {
        let client = self.sockets[id].client;
        if self.subscribers.players().contains(&client) {
            return;
        }
        let topic = topic(client);
        let subscribe = format!(r#"{{"type":"subscribe","topics":["t{topic}"]}}"#);
        let announce = format!(r#"{{"type":"publish","topic":"t{topic}","data":{{"from":{id}}}}}"#);
        [subscribe, announce].into_iter().for_each(|text| self.send_frame(id, ClientFrame::Dialect(text)));
    }

    /// Records an announce that a subscriber received, or a player's message. Any other message is
    /// a violation.
    pub(crate) fn subscriber_gets(&mut self, id: SocketId, text: &[u8]) {
        let index = self.sockets[id].client;
        if self.subscribers.players().contains(&index) {
            return self.player_gets(id, text);
        }
        let message = serde_json::from_slice::<Value>(text).unwrap_or_default();
        let from = message["data"]["from"].as_u64().and_then(|from| usize::try_from(from).ok());
        match (message["type"].as_str(), from) {
            (Some("publish"), Some(from)) if message["topic"] == format!("t{}", topic(index)) => {
                // A broadcast whose node crashed may be refused though some members have it.
                self.subscribers.heard.insert((id, from));
            }
            (Some("pong"), _) => {}
            _ => self.ledger.broken("unexpected", String::from_utf8_lossy(text).into_owned()),
        }
    }

    /// Checks that any two connected subscribers of a topic have met, unless announces were lost or
    /// edges have small limits.
    pub(crate) fn check_subscribers(&mut self) {
        // Edges that remember few senders refuse messages until they expire.
        if self.subscribers.announces_were_lost || self.has_tight_edges() {
            return;
        }
        let clients = self.subscribers.subscribers();
        let sockets: Vec<_> = clients.filter_map(|client| Some((client, self.open_socket(client)?))).collect();
        for (number, &(one, socket)) in sockets.iter().enumerate() {
            for &(other, other_socket) in sockets.iter().skip(number + 1) {
                let heard = |pair| self.subscribers.heard.contains(&pair);
                let have_met = heard((socket, other_socket)) || heard((other_socket, socket));
                if topic(one) == topic(other) && !have_met {
                    let what = format!("c{one} on socket {socket} and c{other} on socket {other_socket}");
                    self.ledger.broken("subscribers never met", what);
                }
            }
        }
    }
}
