//! Clients that make rooms as fast as they can, for `crowd`. Each sends a burst, waits for its end,
//! and connects again, since a new connection may send a whole burst at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::bursts::Attack;
use crate::client::Client;
use crate::fleet::{FIRST_OPEN_TIMEOUT, connect_url};
use crate::message::{Format, Received, Wire};
use crate::record::count;
use crate::token::TokenKey;

/// Sockets that share one token.
const SHARED: u32 = 12;
/// Requests after which all makers stop, so that a mesh without limits fills no machine.
const MAX_REQUESTS: u64 = 2_000_000;
/// Maximum time until the last request of a burst has an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the effect of a burst of y-webrtc, whose requests have no answer.
const DIALECT_TIME: Duration = Duration::from_millis(350);
const RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Makers {
    /// URLs of the servers, at least one.
    pub(super) bases: Vec<String>,
    pub(super) clients: u32,
    /// First part of their client ids and rooms.
    pub(super) prefix: String,
    /// `None` if the mesh requires no tokens.
    pub(super) tokens: Option<TokenKey>,
    pub(super) tally: Arc<Mutex<Tally>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Tally {
    #[serde(skip)]
    next_name: u64,
    #[serde(flatten)]
    by_identity: BTreeMap<Identity, Counts>,
}

/// Source of the client ids of a maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Identity {
    /// One token for all sockets, by y-webrtc: a native client's `sub` is its id.
    OneToken,
    /// One token for each maker.
    Subjects,
    /// A new id for each connection.
    Anonymous,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Counts {
    connections: u64,
    failed_connections: u64,
    requests: u64,
    /// Acks, errors and pongs.
    answers: u64,
    /// Errors by code, ended sockets by close code or reason, and bursts without an answer.
    refused: BTreeMap<String, u64>,
}

impl Makers {
    pub(super) fn counts(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs the maker of this number, from 0, until all makers have sent 2,000,000 requests.
    pub(super) async fn attack(&self, number: u32) {
        let identity = match &self.tokens {
            None => Identity::Anonymous,
            Some(_) if number < SHARED => Identity::OneToken,
            Some(_) => Identity::Subjects,
        };
        let wire = if identity == Identity::OneToken { Wire::YWebrtc } else { Wire::Native };
        let format = Format::new(0, wire);
        let base = &self.bases[number as usize % self.bases.len()];
        for turn in 0.. {
            let attack = Attack::of_turn(u64::from(number) + turn);
            let Some(first) = self.next_names(attack.names()) else { return };
            let id = match identity {
                Identity::OneToken => format!("{}-one", self.prefix),
                Identity::Subjects => format!("{}-{number}", self.prefix),
                Identity::Anonymous => format!("{}-{number}-{turn}", self.prefix),
            };
            let mut counts = Counts::default();
            match Client::connect(&connect_url(base, &id, wire, self.tokens.as_ref()), wire.hello(), FIRST_OPEN_TIMEOUT)
                .await
            {
                Ok(client) => {
                    counts.connections = 1;
                    send(&client, attack.burst(wire, &self.prefix, first), &format, wire, &mut counts).await;
                    // Without a close frame the session lingers, and so do its rooms.
                    if attack != Attack::Rooms {
                        client.close();
                    }
                }
                Err(_) => {
                    counts.failed_connections = 1;
                    sleep(RETRY_DELAY).await;
                }
            }
            self.add(identity, counts);
        }
    }

    /// Reserves numbers of new names, and returns the first. Returns `None` once all requests are
    /// used up.
    fn next_names(&self, names: u64) -> Option<u64> {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let requests: u64 = tally.by_identity.values().map(|counts| counts.requests).sum();
        let first = tally.next_name;
        tally.next_name += names;
        (requests < MAX_REQUESTS).then_some(first)
    }

    fn add(&self, identity: Identity, more: Counts) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.by_identity.entry(identity).or_default().add(more);
    }
}

impl Tally {
    /// Returns a message for each kind of makers that got no answer, so that they attacked nothing.
    /// Returns one too if none of all `makers` has ended a burst: their priority may be too low.
    pub(super) fn failures(&self, makers: u32) -> impl Iterator<Item = String> {
        let is_idle = |(_, counts): &(&Identity, &Counts)| counts.answers == 0;
        let text = |(identity, counts): (&Identity, &Counts)| {
            format!("room makers ({identity:?}) got no answer: {} connections failed", counts.failed_connections)
        };
        let nothing = (makers > 0 && self.by_identity.is_empty()).then(|| "room makers did nothing".to_owned());
        self.by_identity.iter().filter(is_idle).map(text).chain(nothing)
    }
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.connections += more.connections;
        self.failed_connections += more.failed_connections;
        self.requests += more.requests;
        self.answers += more.answers;
        for (reason, times) in more.refused {
            *self.refused.entry(reason).or_default() += times;
        }
    }

    /// Counts a text of the server. Returns the id of the request that it answers, if any.
    fn received(&mut self, format: &Format, text: &str) -> Option<u64> {
        // Room states can be large.
        let is_answer = [r#"{"type":"ack""#, r#"{"type":"error""#, r#"{"type":"pong""#];
        if !is_answer.iter().any(|head| text.starts_with(head)) {
            return None;
        }
        self.answers += 1;
        match format.read(text) {
            Received::Ack(id) => Some(id),
            Received::Error { code, id } => {
                count(&mut self.refused, &code);
                id
            }
            Received::Message(_) | Received::Other(_) => None,
        }
    }
}

/// Sends a burst, and reads until its last request has an answer, at most 5 s. The requests of
/// y-webrtc have 350 ms.
async fn send(client: &Client, burst: Vec<String>, format: &Format, wire: Wire, counts: &mut Counts) {
    let (last, done) = (burst.len() as u64, Notify::new());
    counts.requests += burst.into_iter().take_while(|text| client.send(text.clone(), None)).count() as u64;
    let has_answers = wire == Wire::Native;
    let on_text = |text: &str| {
        if counts.received(format, text) == Some(last) {
            done.notify_one();
        }
    };
    let unusual = tokio::select! {
        reason = client.read(on_text) => Some(reason),
        () = done.notified() => None,
        () = sleep(if has_answers { ANSWER_TIMEOUT } else { DIALECT_TIME }) => {
            has_answers.then(|| "no answer".to_owned())
        }
    };
    if let Some(unusual) = unusual {
        count(&mut counts.refused, &unusual);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_code_and_room_states_are_not() {
        let (mut counts, format) = (Counts::default(), Format::new(0, Wire::Native));
        let error = r#"{"type":"error","code":"overloaded","message":"full","id":4,"room":"r"}"#;
        let state = r#"{"type":"joined","room":"r","version":1,"id":4}"#;

        let ids = [r#"{"type":"ack","id":3}"#, error, state].map(|text| counts.received(&format, text));

        assert_eq!(ids, [Some(3), Some(4), None]);
        assert_eq!((counts.answers, counts.refused["overloaded"]), (2, 1));
    }

    #[test]
    fn names_end_when_the_requests_are_used_up() {
        let makers =
            Makers { bases: Vec::new(), clients: 1, prefix: String::new(), tokens: None, tally: Arc::default() };
        assert_eq!([255, 10].map(|names| makers.next_names(names)), [Some(0), Some(255)]);

        makers.add(Identity::Anonymous, Counts { requests: MAX_REQUESTS, ..Counts::default() });

        assert_eq!(makers.next_names(1), None);
        let failures: Vec<_> = makers.counts().failures(1).collect();
        assert!(failures.len() == 1 && failures[0].contains("no answer"), "{failures:?}");
    }

    #[test]
    fn makers_that_do_nothing_are_a_failure() {
        let failures = |makers| Tally::default().failures(makers).collect::<Vec<_>>();

        assert!(failures(0).is_empty());
        assert_eq!(failures(1), ["room makers did nothing"]);
    }
}
