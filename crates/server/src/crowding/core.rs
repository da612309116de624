//! Whether this server has so many more connections than its peers that new ones had better go to them. Pure.
//!
//! Everybody decides alone, and yet at most half of the servers are unready at any time. There are as many *places* among the
//! unready as that. Who wants one first *leans*, which its peers are told, and takes it only when every peer has been asked
//! since: of two that lean at once, at least one then sees the other. Who is not heard, or takes no clients for another
//! reason, counts as one that has a place. Who is ready again keeps its place until proxies must have seen that.
//!
//! An episode begins with somebody far above the mean (`above`). While it lasts, whoever is a little above it (`below`) takes
//! its turn, so that it ends with all near the mean, and chance alone begins none.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A count differs from the mean by chance: mostly by less than the root of the mean, hardly ever by more than four times that.
const BEYOND_CHANCE: f64 = 4.0;
const BARELY_CHANCE: f64 = 1.5;
/// An answer holds for so many rounds, and for the time that one may take.
const ROUNDS_FRESH: u32 = 5;
/// How long a peer may take to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Whoever has had its place for so many times `settle` gives it to one that has more by now.
const TURN_IN_SETTLES: u32 = 2;

/// How a server stands to new clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Takes them.
    Ready,
    /// Takes them, and wants a place among the unready.
    Leaning,
    /// Says unready, since it has more clients than its peers.
    Crowded,
    /// Takes them again; proxies may not know yet.
    Returning,
    /// Sends its clients to its peers.
    Draining,
    /// Takes none for another reason.
    #[serde(other)]
    Closed,
}

/// When to do what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// An episode begins with a server that is above the mean by this share of it.
    pub above: f64,
    /// In an episode whoever is above the mean by this share of it takes its turn.
    pub below: f64,
    /// With a lower mean nothing is done.
    pub floor: u64,
    /// Longest time unready without a break; the break is as long.
    pub longest: Duration,
    /// How long proxies take to see that a server is ready again.
    pub settle: Duration,
    /// How often peers are asked.
    pub period: Duration,
}

/// This server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Clients that it has.
    pub connections: u64,
    /// `Ready`, or what keeps it from taking clients besides their number: `Closed` or `Draining`.
    pub standing: Standing,
}

/// Another server behind the same front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer<'a> {
    /// Its name.
    pub id: &'a str,
    /// What it was last heard to say.
    pub heard: Option<Heard>,
}

/// What a peer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// When it was asked: what it said was true then or later.
    pub asked_at: Instant,
    /// Clients that it had.
    pub connections: u64,
    /// How it stood.
    pub standing: Standing,
}

/// What follows from a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// How this server stands from now on.
    pub standing: Standing,
    /// The connections to tell peers. While it leans they stand still: who comes first must not depend on when one looks.
    pub connections: u64,
    /// The mean of those that take clients, or would if they were not crowded.
    pub mean: f64,
    /// How many those are, with this one.
    pub servers: usize,
    /// Peers that were heard lately.
    pub heard: usize,
}

/// Decides for one server.
#[derive(Debug)]
pub struct Crowding {
    id: String,
    settings: Settings,
    state: State,
    /// It was unready for long enough.
    rests_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Leaning { since: Instant, connections: u64 },
    Crowded { since: Instant },
    Returning { since: Instant },
}

/// What is known of all servers.
#[derive(Default)]
struct Picture {
    places: usize,
    mean: f64,
    servers: usize,
    heard: usize,
    /// Peers that have a place, or count so.
    out: usize,
    /// Peers that lean, and those of them that come before this server.
    leaning: usize,
    first: usize,
    /// Peers that have not been asked since this server leans.
    unasked: usize,
    /// The most that a peer has which takes clients now.
    most: u64,
    is_draining: bool,
    is_episode: bool,
}

impl Crowding {
    /// Ready.
    #[must_use]
    pub fn new(id: &str, settings: Settings) -> Self {
        Self { id: id.to_owned(), settings, state: State::Ready, rests_until: None }
    }

    /// Looks at how things are, and decides. Peers are those that the front may know as well; each is there once.
    pub fn look(&mut self, now: Instant, own: Own, peers: &[Peer<'_>]) -> Decision {
        let picture = self.survey(now, own, peers);
        self.state = match (own.standing, self.state) {
            (Standing::Ready, _) => self.next(now, own.connections, &picture),
            (_, State::Crowded { .. } | State::Returning { .. }) => State::Returning { since: now },
            (_, State::Ready | State::Leaning { .. }) => State::Ready,
        };
        let (standing, connections) = match self.state {
            _ if own.standing != Standing::Ready => (own.standing, own.connections),
            State::Ready => (Standing::Ready, own.connections),
            State::Leaning { connections, .. } => (Standing::Leaning, connections),
            State::Crowded { .. } => (Standing::Crowded, own.connections),
            State::Returning { .. } => (Standing::Returning, own.connections),
        };
        let Picture { mean, servers, heard, .. } = picture;
        Decision { standing, connections, mean, servers, heard }
    }

    fn next(&mut self, now: Instant, connections: u64, picture: &Picture) -> State {
        let &Picture { places, out, leaning, first, unasked, .. } = picture;
        match self.state {
            State::Ready if self.wants(now, connections, picture) && out + leaning < places => {
                State::Leaning { since: now, connections }
            }
            State::Leaning { since, .. } => {
                let is_late = now.saturating_duration_since(since) > self.fresh();
                if is_late || !self.wants(now, connections, picture) || out + first >= places {
                    State::Ready
                } else if out + leaning + unasked < places {
                    State::Crowded { since: now }
                } else {
                    self.state
                }
            }
            State::Crowded { since } if self.is_over(now, since, connections, picture) => {
                if now.saturating_duration_since(since) >= self.settings.longest {
                    self.rests_until = now.checked_add(self.settings.longest);
                }
                State::Returning { since: now }
            }
            State::Returning { since } if now.saturating_duration_since(since) >= self.settings.settle => State::Ready,
            state => state,
        }
    }

    fn wants(&self, now: Instant, connections: u64, picture: &Picture) -> bool {
        let Settings { above, below, floor, .. } = self.settings;
        let (share, chance) = if picture.is_episode { (below, BARELY_CHANCE) } else { (above, BEYOND_CHANCE) };
        let margin = (share * picture.mean).max(chance * picture.mean.sqrt());
        let is_crowded = picture.mean >= floor as f64 && connections as f64 > picture.mean + margin;
        is_crowded && !picture.is_draining && self.rests_until.is_none_or(|until| now >= until)
    }

    fn is_over(&self, now: Instant, since: Instant, connections: u64, picture: &Picture) -> bool {
        let Settings { above, floor, longest, settle, .. } = self.settings;
        let lasts = now.saturating_duration_since(since);
        let is_another_s_turn = picture.most as f64 > connections as f64 + above * picture.mean;
        connections as f64 <= picture.mean
            || picture.mean < floor as f64
            || picture.is_draining
            || picture.out >= picture.places
            || lasts >= longest
            || (is_another_s_turn && lasts >= settle * TURN_IN_SETTLES)
    }

    fn survey(&self, now: Instant, own: Own, peers: &[Peer<'_>]) -> Picture {
        let servers = peers.len() + 1;
        let mut picture = Picture { places: servers / 2, ..Picture::default() };
        let mut counts = Vec::with_capacity(peers.len() + 1);
        if own.standing == Standing::Ready {
            counts.push(own.connections);
        }
        for peer in peers {
            let heard = peer.heard.filter(|heard| now.saturating_duration_since(heard.asked_at) <= self.fresh());
            let Some(Heard { asked_at, connections, standing }) = heard else {
                picture.out += 1;
                continue;
            };
            picture.heard += 1;
            let takes = match standing {
                Standing::Ready | Standing::Leaning => true,
                Standing::Crowded | Standing::Returning | Standing::Draining | Standing::Closed => false,
            };
            picture.is_draining |= standing == Standing::Draining;
            picture.is_episode |= matches!(standing, Standing::Leaning | Standing::Crowded | Standing::Returning);
            if takes || matches!(standing, Standing::Crowded | Standing::Returning) {
                counts.push(connections);
            }
            if !takes {
                picture.out += 1;
                continue;
            }
            picture.most = picture.most.max(connections);
            let State::Leaning { since, connections: own_connections } = self.state else {
                picture.leaning += usize::from(standing == Standing::Leaning);
                continue;
            };
            if asked_at <= since {
                picture.unasked += 1;
            } else if standing == Standing::Leaning {
                picture.leaning += 1;
                picture.first += usize::from((connections, peer.id) > (own_connections, &*self.id));
            }
        }
        picture.servers = counts.len();
        picture.mean = counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
        picture
    }

    /// How old an answer may be.
    fn fresh(&self) -> Duration {
        self.settings.period * ROUNDS_FRESH + ANSWER_WITHIN
    }
}
