//! What operators are told of clients and nodes.

use std::time::{Duration, Instant};

use signaling_admin::Page;
use signaling_admin::clients::{ClientRow, Clients};
use signaling_admin::explain::{Candidate, ClientAt, Explanation, Held, LingeringAt, Queue, SessionAt, scores};
use signaling_admin::preview::{Change, NoChange, Preview, Rankings};
use signaling_admin::servers::{EdgeAt, ViewName};
use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;

use super::session::Session;
use super::{NodeCore, PeerKey, SessionKey};

impl NodeCore {
    /// A page of the clients that this node serves.
    #[must_use]
    pub fn clients_page(&self, page: &Page) -> Clients {
        let (ids, more) = page.pick(self.directory.attached_clients().map(ClientId::as_str));
        let row = |id: &&str| {
            let session = self.directory.holder(id)?.1;
            Some(ClientRow {
                client_id: (*id).to_owned(),
                node: self.settings.id.as_str().to_owned(),
                edge: self.trunks.edge(session.trunk),
                session: session.id.to_string(),
                since_ms: session.accepted_at_us / 1_000,
                generation: session.accepted_at_us,
                reliable: session.id.is_reliable(),
            })
        };
        let next = ids.last().filter(|_| more).map(|id| (*id).to_owned());
        Clients { clients: ids.iter().filter_map(row).collect(), next, missing: Vec::new() }
    }

    /// Why a client is where it is, by what this node alone knows.
    #[must_use]
    pub fn explain(&self, now: Instant, client: &ClientId) -> Explanation {
        let (key, members) = (KeyHash::of(client.as_str()), self.peers.view().members());
        let own = || self.settings.id.as_str().to_owned();
        let name = |peer: Option<PeerKey>| peer.map_or_else(|| Some(own()), |peer| self.name_of(peer));
        let is_owned = !self.peers.is_ranking_empty();
        let owner = name(self.peers.owner_by_view(key)).filter(|_| is_owned);
        let stand_in = name(self.peers.owner(key)).filter(|stand_in| is_owned && Some(stand_in) != owner.as_ref());
        let scores = scores(self.settings.hash_seed, members.iter().map(|member| member.id.as_str()), client.as_str());
        let candidate = |(node, score): (String, String)| {
            let drains = self.peers.is_draining() && node == self.settings.id.as_str();
            let peer = self.peers.key(&node);
            Candidate {
                eligible: self.peers.is_eligible(&node),
                draining: drains || self.peers.view().get(&node).is_some_and(|member| member.draining),
                suspect: peer.is_some_and(|peer| self.peers.is_suspect(peer)),
                node,
                score,
                trunk: None,
            }
        };
        let mut explanation = Explanation {
            client_id: client.as_str().to_owned(),
            asked: own(),
            view: self.view_name(),
            why: String::new(),
            owner,
            stand_in,
            ranking: scores.into_iter().map(candidate).collect(),
            nodes: self.has_of(now, client).into_iter().collect(),
            missing: Vec::new(),
        };
        explanation.why = explanation.sentence();
        explanation
    }

    /// What this node has of a client, if anything.
    fn has_of(&self, now: Instant, client: &ClientId) -> Option<ClientAt> {
        let holder = self.directory.holder(client.as_str());
        let lingering = self.directory.lingering(client);
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let held = self.custody.holds().waiting_for(client.as_str()).map(|(messages, bytes, over_from)| Held {
            messages,
            bytes,
            first_expires_ms: ms(over_from.saturating_duration_since(now)),
        });
        let located = self.directory.location(client.as_str()).and_then(|location| self.name_of(location.peer));
        if holder.is_none() && lingering.is_none() && held.is_none() && located.is_none() {
            return None;
        }
        let session_id = holder.map(|(_, session)| session.id).or(lingering.map(|lingering| lingering.session));
        Some(ClientAt {
            node: self.settings.id.as_str().to_owned(),
            session: holder.map(|(key, session)| self.session_report(key, session)),
            lingering: lingering.map(|it| LingeringAt { session: it.session.to_string(), left_ms: ms(it.left(now)) }),
            held,
            located,
            rooms: session_id.map(|session| self.seats_of(session)).unwrap_or_default(),
        })
    }

    fn session_report(&self, key: SessionKey, session: &Session) -> SessionAt {
        let (messages, bytes) = session.unconfirmed();
        let (recipients, unfated) = self.custody.pending_of(key);
        SessionAt {
            session: session.id.to_string(),
            generation: session.accepted_at_us,
            since_ms: session.accepted_at_us / 1_000,
            reliable: session.id.is_reliable(),
            resumed: session.resumed,
            edge: self.trunks.edge(session.trunk),
            slot: u64::from(session.slot),
            unconfirmed: Queue { messages, bytes },
            backlog: session.has_backlog,
            unfated,
            recipients,
            commands: session.commands,
            broadcasts: session.broadcasts.len(),
            contended: session.contender.is_some(),
        }
    }

    /// What a change of the view would bring for the clients that this node serves. Draining is as
    /// the view has it: what this node alone knows of itself would make its answer another than
    /// those of the others.
    ///
    /// # Errors
    /// If the change makes no sense.
    pub fn preview(&self, change: &Change, page: &Page) -> Result<Preview, NoChange> {
        let members: Vec<_> =
            self.peers.view().members().iter().map(|member| (member.id.as_str(), member.draining)).collect();
        let rankings = Rankings::new(self.settings.hash_seed, &members, change)?;
        let clients = self.directory.attached_clients().map(ClientId::as_str);
        Ok(rankings.preview(self.view_name(), change, self.settings.id.as_str(), clients, page))
    }

    /// The edges that have a trunk here, with how many of their clients this node serves.
    #[must_use]
    pub fn edges(&self) -> Vec<EdgeAt> {
        self.trunks.edges(|key| self.directory.get(key).is_some_and(|session| !session.gone))
    }

    /// What this node sees of the mesh.
    #[must_use]
    pub fn view_name(&self) -> ViewName {
        ViewName::new(self.peers.view().hash(), self.peers.view().len())
    }

    fn name_of(&self, peer: PeerKey) -> Option<String> {
        self.peers.id(peer).map(|id| id.as_str().to_owned())
    }
}
