//! One picture of the mesh from what all servers answer. Pure: answers and the time go in, a snapshot comes out.

mod known;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use signaling_protocol::NodeId;

use self::known::Known;
use crate::delays::{Counts, quantile};
use crate::keeper::millis;
use crate::snapshot::{Server, Snapshot, State, Sum};
use crate::status::{Happening, Role, Status};
use crate::story;

/// How long a server that nobody names any more is still shown, once it is silent.
pub const REMEMBERED: Duration = Duration::from_secs(30);
/// Most servers that are asked and shown.
pub const MOST: usize = 1_000;
/// Most happenings that the collector itself remembers.
const OWN_HAPPENINGS: usize = 128;
/// In thousandths.
const P99: u64 = 990;

/// A server to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub id: NodeId,
    /// Where its internal listener is.
    pub address: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing takes connections there.
    #[error("cannot be connected to")]
    Unreachable,
    /// Nothing came in time.
    #[error("no answer in time")]
    Late,
    /// What came was no status, or another server's.
    #[error("{0}")]
    Nonsense(String),
}

/// What one round of questions came to.
pub struct Round {
    /// When the answers were in.
    pub at: Instant,
    /// The same in milliseconds since 1970.
    pub at_ms: u64,
    /// What the collecting server itself says.
    pub own: Status,
    /// The others.
    pub answers: Vec<(NodeId, Result<Status, Failure>)>,
}

/// What is known of the mesh.
#[derive(Debug, Default)]
pub struct Mesh {
    server_by_id: BTreeMap<NodeId, Known>,
    /// What only somebody who asks can see.
    happenings: VecDeque<Happening>,
}

impl Mesh {
    /// Whom to ask, given what the collecting server knows now: nodes by its view, balancers by what nodes told last time, and
    /// whoever was named before and is not silent for long. Each gets a place in the picture.
    pub fn targets(&mut self, now: Instant, own: &Status) -> Vec<Target> {
        for node in &own.view.nodes {
            let known = self.server_by_id.entry(node.id.clone()).or_insert_with(|| Known::new(Role::Node, now));
            known.address = Some(node.address.clone());
        }
        let nodes = self.server_by_id.values().filter_map(Known::answer).chain([own]);
        let edges: Vec<_> = nodes.flat_map(|status| &status.figures.edges).cloned().collect();
        for edge in edges {
            let known = self.server_by_id.entry(edge.id).or_insert_with(|| Known::new(Role::Balancer, now));
            known.address = edge.address.or(known.address.take());
        }
        let named: BTreeSet<_> = self.named(own).cloned().collect();
        self.server_by_id.retain(|id, known| named.contains(id) || known.silence(now) < REMEMBERED);
        let others = self.server_by_id.iter().filter(|(id, _)| **id != own.id);
        let target = |(id, known): (&NodeId, &Known)| Some(Target { id: id.clone(), address: known.address.clone()? });
        others.filter_map(target).take(MOST).collect()
    }

    /// Takes in what a round came to, and paints the picture.
    pub fn take(&mut self, round: Round) -> Snapshot {
        let Round { at, at_ms, own, answers } = round;
        self.server_by_id.entry(own.id.clone()).or_insert_with(|| Known::new(own.role, at));
        self.take_answer(at, at_ms, own.id.clone(), Ok(own.clone()));
        for (id, answer) in answers {
            self.take_answer(at, at_ms, id, answer);
        }
        self.paint(at, at_ms, &own)
    }

    fn take_answer(&mut self, at: Instant, at_ms: u64, id: NodeId, answer: Result<Status, Failure>) {
        let Some(known) = self.server_by_id.get_mut(&id) else { return };
        if let Some(what) = known.take(at, answer, id) {
            if self.happenings.len() == OWN_HAPPENINGS {
                self.happenings.pop_front();
            }
            self.happenings.push_back(Happening { at_ms, what });
        }
    }

    /// Who is in the view of the collecting server, or connected to a node that answers.
    fn named<'a>(&'a self, own: &'a Status) -> impl Iterator<Item = &'a NodeId> {
        let viewed = own.view.nodes.iter().map(|node| &node.id);
        let edges = self.answers().flat_map(|status| &status.figures.edges).map(|edge| &edge.id);
        viewed.chain(edges).chain([&own.id])
    }

    /// Of those who answered last.
    fn answers(&self) -> impl Iterator<Item = &Status> {
        self.server_by_id.values().filter_map(Known::answer)
    }

    fn paint(&mut self, at: Instant, at_ms: u64, own: &Status) -> Snapshot {
        let suspicions: Vec<_> = self
            .answers()
            .flat_map(|status| status.suspects.iter().map(|suspect| (suspect.clone(), status.id.clone())))
            .collect();
        let named: BTreeSet<_> = self.named(own).cloned().collect();
        for known in self.server_by_id.values_mut() {
            known.compare_view(at, &own.view.hash);
        }
        let draining = |id: &NodeId| own.view.nodes.iter().any(|node| node.id == *id && node.draining);
        let mut servers: Vec<_> = self
            .server_by_id
            .iter()
            .map(|(id, known)| Server {
                suspected_by: suspicions
                    .iter()
                    .filter(|(suspect, _)| suspect == id)
                    .map(|(_, by)| by.clone())
                    .collect(),
                ..self.server(at, at_ms, (id, known), named.contains(id), draining(id))
            })
            .collect();
        servers.sort_by(|one, other| (one.role, &one.id).cmp(&(other.role, &other.id)));
        let mine = self.happenings.iter().map(|happening| (&own.id, happening));
        let theirs = self.server_by_id.iter().filter_map(|(id, known)| Some((id, known.latest()?)));
        let theirs = theirs.flat_map(|(id, status)| status.happenings.iter().map(move |happening| (id, happening)));
        Snapshot {
            at_ms,
            by: own.id.clone(),
            mesh: self.sum(&servers),
            stories: story::tell(mine.chain(theirs)),
            servers,
        }
    }

    fn server(&self, at: Instant, at_ms: u64, (id, known): (&NodeId, &Known), is_named: bool, drains: bool) -> Server {
        let state = known.state(at, is_named, drains);
        let mut server = known.server(id, at_ms, state);
        server.other_view_ms = known.other_view_ms(at);
        if matches!(server.state, State::Silent { .. } | State::Indirect { .. }) && server.role == Role::Balancer {
            // The nodes know how many clients come by it.
            let through = self.through(id);
            if through.is_connected {
                let silent_ms = millis(known.silence(at));
                server.state = State::Indirect { silent_ms };
                (server.clients, server.messages_per_s) = (through.clients, through.messages_per_s);
            }
        }
        server
    }

    /// What the nodes that answer tell of a balancer.
    fn through(&self, balancer: &NodeId) -> Through {
        let mut through = Through::default();
        for known in self.server_by_id.values().filter(|known| known.answer().is_some()) {
            let Some((edge, messages_per_s)) = known.edge(balancer) else { continue };
            through.is_connected = true;
            through.clients += edge.clients;
            if let Some(messages) = messages_per_s {
                *through.messages_per_s.get_or_insert(0.0) += messages;
            }
        }
        through
    }

    fn sum(&self, servers: &[Server]) -> Sum {
        let mut sum = Sum::default();
        for known in self.server_by_id.values() {
            let Some(status) = known.answer().filter(|status| status.role == Role::Node) else { continue };
            sum.clients += status.figures.clients;
            sum.lingering += status.figures.lingering;
            sum.seats += status.figures.seats;
            sum.waiting += status.figures.waiting;
        }
        let rate = |of: fn(&Known) -> Option<f64>| {
            let nodes = self.server_by_id.values();
            let rates =
                nodes.filter(|known| known.answer().is_some_and(|status| status.role == Role::Node)).filter_map(of);
            rates.fold(None, |sum, rate| Some(sum.unwrap_or(0.0) + rate))
        };
        sum.messages_per_s = rate(|known| known.rate(|totals| totals.messages));
        sum.delivered_per_s = rate(|known| known.rate(|totals| totals.delivered));
        sum.unavailable_per_s = rate(|known| known.rate(|totals| totals.unavailable));
        let mut delays = Counts::new();
        let shown = servers.iter().filter_map(|server| self.server_by_id.get(&server.id));
        shown.filter(|known| known.answer().is_some()).for_each(|known| known.delays.add_to(&mut delays));
        sum.p99_us = quantile(&delays, P99);
        sum
    }
}

#[derive(Default)]
struct Through {
    is_connected: bool,
    clients: u64,
    messages_per_s: Option<f64>,
}

#[cfg(test)]
mod tests;
