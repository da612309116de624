//! Unreal Pixel Streaming, protocol 1.3: upgrades, and the translator of a streamer, SFU or player.
//!
//! | room | members | data |
//! |---|---|---|
//! | `~ps.1on:s:ID` | the streamer with this id | |
//! | `~ps:sub:ID` | the streamer, and behind it its players | `{"streamer":true}`, `{"s":N}` |
//! | `~ps.q:list` | streamers with an id | `{"id":ID}` |

mod claim;
mod client;
mod envelope;
mod inbound;
mod listing;
mod liveness;
mod mesh;
mod peer;
mod players;
mod subscription;

use std::time::Instant;

use serde_json::value::RawValue;

use self::claim::StreamerId;
use self::listing::Listing;
use self::liveness::Liveness;
use self::mesh::Context;
use self::peer::{Kind, Peer};
use self::players::Players;
use self::subscription::{Progress, Subscription};
use crate::Settings;
use crate::request::{Answer, Head, Opening};
use crate::room_requests::RoomRequests;
use crate::translator::{Close, Input, Out, Translate};

/// Hold time of relayed messages for an absent recipient, in milliseconds.
const HOLD_MS: u64 = 10_000;

/// A member of a room.
#[derive(Debug, Clone, Copy)]
struct Present<'a> {
    peer: Peer,
    /// JSON of its `join`. `None`: it has none.
    data: Option<&'a RawValue>,
}

/// Kind of a client, by the path of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Streamer,
    Player,
    /// A streamer for its players, and a player of another streamer.
    Sfu,
}

/// Returns the answer to a request. The path begins with the role. 404 without it, or if plain.
pub(crate) fn request(settings: &Settings, head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let role = match head.path.strip_prefix('/').and_then(|path| path.split('/').next()) {
        Some("streamer") => Role::Streamer,
        Some("player") => Role::Player,
        Some("sfu") => Role::Sfu,
        _ => return Answer::NotFound,
    };
    let own = Peer::random(if role == Role::Player { Kind::Player } else { Kind::Streamer }, random);
    // Only the maximum of all streamers holds for an SFU.
    let max_players = settings.pixelstreaming_max_players.filter(|_| role == Role::Streamer);
    let state = State { players: Players::new(max_players), ..State::default() };
    let translator = PixelStreaming { own, role, requests: RoomRequests::default(), state };
    Opening::anonymous(head, &own.to_name(), translator)
}

/// The translator of a streamer, an SFU or a player.
#[derive(Debug)]
pub(crate) struct PixelStreaming {
    own: Peer,
    role: Role,
    requests: RoomRequests,
    state: State,
}

impl Translate for PixelStreaming {
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        let Self { own, role, requests, state } = self;
        let context = &mut Context { now, own: *own, role: *role, requests, out };
        match input {
            Input::Mesh(text) => state.mesh(context, text),
            Input::Text(text) | Input::Binary(text) => {
                state.liveness.heard(context);
                state.client(context, text);
            }
            Input::Pong => state.liveness.heard(context),
            Input::Tick => state.tick(context),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let State { id, liveness, subscription, .. } = &self.state;
        let deadlines = [self.requests.deadline(), id.deadline(), liveness.dead_at, subscription.deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn is_full(&self) -> bool {
        self.requests.is_full() || self.state.subscription.is_full()
    }

    fn retained_bytes(&self) -> usize {
        let State { listing, id, players, liveness, subscription, .. } = &self.state;
        let of_streamer = id.bytes() + players.bytes() + liveness.bytes();
        size_of::<Self>()
            + self.requests.retained_bytes()
            + listing.bytes()
            + of_streamer
            + subscription.retained_bytes()
    }
}

/// State of a client beside its requests.
#[derive(Debug, Default)]
struct State {
    /// `true` once the client has its `config`.
    is_welcome: bool,
    listing: Listing,
    /// Of a streamer and an SFU.
    id: StreamerId,
    players: Players,
    liveness: Liveness,
    /// Of a player and an SFU.
    subscription: Subscription,
}

impl State {
    fn tick(&mut self, context: &mut Context<'_>) {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= context.now);
        if is_due(self.liveness.dead_at) {
            // The socket is dead, and another client claims the id.
            context.out.close = Some(Close::EMPTY);
        } else if is_due(self.subscription.deadline()) || !context.requests.tick(context.now, context.out) {
            context.out.close = Some(Close::RESTART);
        }
        self.id.tick(context);
    }

    /// Continues after a change of the client's subscription.
    fn proceed(&mut self, context: &mut Context<'_>, progress: Progress) {
        match progress {
            Progress::Unchanged => {}
            Progress::Decided => {
                while let Some(text) = self.subscription.next_waiting() {
                    self.client(context, text.as_bytes());
                }
            }
            Progress::StreamerGone if context.role == Role::Player => context.out.close = Some(Close::EMPTY),
            Progress::StreamerGone => {
                context.out.frames.push(r#"{"type":"streamerDisconnected"}"#.to_owned());
                self.subscription.unsubscribe(context);
                self.id.restart(context, &mut self.players);
            }
        }
    }
}
