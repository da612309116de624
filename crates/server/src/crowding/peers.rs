//! Asks the peers how many clients they have, again and again, and says ready or not by what is decided.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::StatusCode;
use ::http::header::AUTHORIZATION;
use futures_util::{StreamExt as _, stream};
use signaling_discovery::{Member, View};
use signaling_protocol::NodeId;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use super::core::{ANSWER_WITHIN, Crowding, Decision, Heard, Own, Peer, Settings, Standing};
use super::metrics::CrowdingMetrics;
use super::report::{Desk, PATH, Report};
use crate::{Health, Secrets};

/// How often the report is renewed where nobody is asked.
const RENEW: Duration = Duration::from_secs(1);
/// Peers that are asked at the same time.
const AT_ONCE: usize = 16;
/// Far longer than any report.
const MAX_REPORT_BYTES: u64 = 4_096;

/// What a server keeps even with its peers by.
pub struct Peers<C> {
    /// Its name.
    pub id: NodeId,
    /// When to say unready; nothing for never. The report for others is kept in any case.
    pub settings: Option<Settings>,
    /// All servers behind the same front. Whether it is among them itself does not matter.
    pub views: watch::Receiver<Arc<View>>,
    /// What is shown to peers.
    pub secrets: Secrets,
    /// Where it is said.
    pub health: Health,
    /// Where this server's own report is.
    pub desk: Desk,
    /// How many clients there are; nothing if none are taken.
    pub clients: C,
}

/// What a peer last said, and under which name.
struct Said {
    id: String,
    heard: Heard,
}

impl<C: Fn() -> Option<usize>> Peers<C> {
    /// Keeps even. Ends when dropped.
    ///
    /// # Errors
    /// If the system refuses what asking needs.
    pub fn keep_even(self) -> Result<impl Future<Output = ()>, reqwest::Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .http1_only()
            .connect_timeout(ANSWER_WITHIN)
            .timeout(ANSWER_WITHIN)
            .pool_max_idle_per_host(1)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(async move {
            match self.settings {
                Some(settings) => self.decide(&http, settings).await,
                None => self.report().await,
            }
        })
    }

    async fn report(&self) {
        let mut ticks = interval(RENEW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let own = self.own();
            self.desk.say(own.connections, own.standing);
        }
    }

    async fn decide(&self, http: &reqwest::Client, settings: Settings) {
        let mut crowding = Crowding::new(self.id.as_str(), settings);
        let mut said_by_member = HashMap::new();
        let mut told = Told { metrics: CrowdingMetrics::new(), is_crowded: false, is_lost: false };
        let mut ticks = interval(settings.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let view = self.views.borrow().clone();
            self.ask_all(http, &view, &mut said_by_member).await;
            let own = self.own();
            let now = Instant::now();
            let peers = peers(self.id.as_str(), &view, &said_by_member, now);
            let decision = crowding.look(now, own, &peers);
            self.desk.say(decision.connections, decision.standing);
            let is_crowded = decision.standing == Standing::Crowded;
            self.health.send_elsewhere(is_crowded.then(|| reason(own.connections, &decision)));
            told.tell(own.connections, peers.len(), &decision);
        }
    }

    fn own(&self) -> Own {
        let clients = (self.clients)();
        let connections = clients.unwrap_or_default() as u64;
        let standing = match self.health.obstacle() {
            Some(Health::DRAINING) if connections > 0 => Standing::Draining,
            None if clients.is_some() => Standing::Ready,
            _ => Standing::Closed,
        };
        Own { connections, standing }
    }

    async fn ask_all(&self, http: &reqwest::Client, view: &View, said: &mut HashMap<NodeId, Said>) {
        said.retain(|id, _| view.get(id.as_str()).is_some());
        let others = view.members().iter().filter(|member| member.id != self.id);
        let mut answers = stream::iter(others).map(|member| self.ask(http, member)).buffer_unordered(AT_ONCE);
        while let Some((member, answer)) = answers.next().await {
            match answer {
                Ok(answer) => {
                    said.insert(member.id.clone(), answer);
                }
                Err(why) => debug!(peer = %member.id, why, "a peer does not say how many clients it has"),
            }
        }
    }

    async fn ask<'m>(&self, http: &reqwest::Client, member: &'m Member) -> (&'m Member, Result<Said, String>) {
        (member, self.answer(http, member).await)
    }

    async fn answer(&self, http: &reqwest::Client, member: &Member) -> Result<Said, String> {
        let asked_at = Instant::now();
        let url = format!("http://{}{PATH}", member.address);
        let request = http.get(url).header(AUTHORIZATION, self.secrets.shown().bearer());
        let in_words = |error: reqwest::Error| error.without_url().to_string();
        let response = request.send().await.map_err(in_words)?;
        if response.status() != StatusCode::OK {
            return Err(response.status().to_string());
        }
        if response.content_length().is_none_or(|length| length > MAX_REPORT_BYTES) {
            return Err("its answer has no length, or is too long".to_owned());
        }
        let Report { id, connections, standing } = response.json().await.map_err(in_words)?;
        Ok(Said { id, heard: Heard { asked_at, connections, standing } })
    }
}

/// Those of the view that are other servers, each once: it may know a server by another name than its own.
fn peers<'a>(own: &str, view: &'a View, said: &'a HashMap<NodeId, Said>, now: Instant) -> Vec<Peer<'a>> {
    let mut peers: Vec<Peer<'a>> = Vec::with_capacity(view.len());
    for member in view.members().iter().filter(|member| member.id.as_str() != own) {
        let said = said.get(&member.id);
        let id = said.map_or(member.id.as_str(), |said| said.id.as_str());
        if id == own || peers.iter().any(|peer| peer.id == id) {
            continue;
        }
        let heard = said.map(|said| said.heard);
        // It may not know yet that it is about to end.
        let standing =
            if heard.is_some_and(|heard| heard.connections == 0) { Standing::Closed } else { Standing::Draining };
        let ends = Heard { asked_at: now, connections: 0, standing };
        peers.push(Peer { id, heard: if member.draining { Some(ends) } else { heard } });
    }
    peers
}

/// What has been told, so that only a change is.
struct Told {
    metrics: CrowdingMetrics,
    is_crowded: bool,
    is_lost: bool,
}

impl Told {
    fn tell(&mut self, connections: u64, peers: usize, decision: &Decision) {
        self.metrics.publish(decision);
        let is_crowded = decision.standing == Standing::Crowded;
        if is_crowded != self.is_crowded {
            let (mean, servers) = (decision.mean.round(), decision.servers);
            if is_crowded {
                self.metrics.begins();
                info!(connections, mean, servers, "says unready: it has more clients than its peers");
            } else {
                info!(connections, mean, servers, "leaves no more clients to its peers, and is ready again");
            }
        }
        let (heard, is_lost) = (decision.heard, decision.heard * 2 < peers);
        if is_lost && !self.is_lost {
            warn!(heard, peers, "most peers do not say how many clients they have: it stays ready");
        } else if self.is_lost && !is_lost {
            info!(heard, peers, "peers say how many clients they have");
        }
        (self.is_crowded, self.is_lost) = (is_crowded, is_lost);
    }
}

fn reason(connections: u64, decision: &Decision) -> String {
    let above = (connections as f64 / decision.mean - 1.0) * 100.0;
    let connections = grouped(connections);
    format!("unready: {connections} connections are {above:.0}% above the mean of {} servers", decision.servers)
}

/// 1240 as 1,240.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_peer_is_whoever_answers_however_discovery_calls_it() {
        let now = Instant::now();
        let view = view(&[("a", false), ("10.0.0.1", false), ("10.0.0.2", false), ("10.0.0.3", false)]);
        let said = HashMap::from([
            said("10.0.0.1", "a", 5, now),
            said("10.0.0.2", "b", 7, now),
            said("10.0.0.3", "b", 7, now),
        ]);
        let peers = peers("a", &view, &said, now);
        assert_eq!(peers.len(), 1, "itself and one other, each by two names: {peers:?}");
        assert_eq!((peers[0].id, peers[0].heard.unwrap().connections), ("b", 7));
    }

    #[test]
    fn one_that_discovery_says_ends_drains_unless_it_has_no_clients_and_one_that_is_silent_is_a_peer() {
        let now = Instant::now();
        let view = view(&[("a", false), ("b", true), ("c", true), ("d", false)]);
        let said = HashMap::from([said("b", "b", 7, now), said("c", "c", 0, now)]);
        let standings: Vec<_> = peers("a", &view, &said, now)
            .iter()
            .map(|peer| (peer.id, peer.heard.map(|heard| heard.standing)))
            .collect();
        let expected = [("b", Some(Standing::Draining)), ("c", Some(Standing::Closed)), ("d", None)];
        assert_eq!(standings, expected);
    }

    #[test]
    fn the_reason_is_for_people() {
        let decision = Decision { standing: Standing::Crowded, connections: 1_240, mean: 946.6, servers: 5, heard: 4 };
        let expected = "unready: 1,240 connections are 31% above the mean of 5 servers";
        assert_eq!(reason(1_240, &decision), expected);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    fn view(members: &[(&str, bool)]) -> View {
        let member = |(id, draining): &(&str, bool)| Member {
            id: id.parse().unwrap(),
            address: "127.0.0.1:1".parse().unwrap(),
            draining: *draining,
        };
        View::new(members.iter().map(member)).unwrap()
    }

    fn said(member: &str, id: &str, connections: u64, asked_at: Instant) -> (NodeId, Said) {
        let heard = Heard { asked_at, connections, standing: Standing::Ready };
        (member.parse().unwrap(), Said { id: id.to_owned(), heard })
    }
}
