//! A balancer without sockets: its real placement, moves and edge, and nodes that say yes to everything at once.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use signaling_balancer::moves::Moves;
use signaling_balancer::placement::Placement;
use signaling_balancer::trunks::PER_TURN;
use signaling_discovery::View;
use signaling_edge::core::{ClientKey, ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer, Settings};
use signaling_protocol::trunk::{ToEdge, ToNode};
use signaling_protocol::{ClientId, Left, SessionId};

/// One of them.
pub(crate) struct Balancer {
    core: EdgeCore,
    placement: Placement,
    moves: Moves,
    link_by_node: BTreeMap<String, LinkKey>,
    weight_by_client: HashMap<ClientKey, f64>,
}

/// What a node has of one balancer's clients.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    /// How many.
    pub(crate) clients: u64,
    /// The sum of their weights.
    pub(crate) weight: f64,
}

impl Balancer {
    /// Without clients, and without nodes.
    pub(crate) fn new() -> Self {
        Self {
            core: EdgeCore::new(Settings::default()),
            placement: Placement::new(0),
            moves: Moves::new(PER_TURN),
            link_by_node: BTreeMap::new(),
            weight_by_client: HashMap::new(),
        }
    }

    /// A client comes, and sends so many times what others send.
    pub(crate) fn connect(&mut self, now: Instant, number: u32, weight: f64) -> Result<(), Box<dyn Error>> {
        let mut session = [0; 16];
        session[..4].copy_from_slice(&number.to_be_bytes());
        let client = self.core.connect(
            now,
            Newcomer {
                client_id: ClientId::new(&format!("client-{number}"))?,
                session: SessionId(session),
                born: 1,
                reliable: false,
                request: ConnectRequest::default(),
            },
        );
        self.weight_by_client.insert(client, weight);
        self.settle(now)
    }

    /// Discovery has told: a trunk to each node, and clients that another node owns begin to move.
    pub(crate) fn sees(&mut self, now: Instant, view: &Arc<View>) -> Result<(), Box<dyn Error>> {
        for (node, link) in &self.link_by_node {
            if view.get(node).is_none() {
                self.core.link_down(*link);
            }
        }
        self.link_by_node.retain(|node, _| view.get(node).is_some());
        self.placement.set_view(now, Arc::clone(view));
        for member in view.members() {
            if !self.link_by_node.contains_key(member.id.as_str()) {
                let link = self.core.link_up();
                self.link_by_node.insert(member.id.to_string(), link);
                self.placement.link_up(now, member.id.clone(), link);
            }
        }
        self.moves.plan(now, &self.placement, &self.core);
        self.settle(now)
    }

    /// Lets the next few move. Says how many were asked to.
    pub(crate) fn turn(&mut self, now: Instant) -> Result<u64, Box<dyn Error>> {
        let before = self.core.counts().handoffs;
        self.moves.turn(now, &self.placement, &mut self.core);
        self.settle(now)?;
        Ok(self.core.counts().handoffs - before)
    }

    /// Whether nobody moves.
    pub(crate) fn is_settled(&self) -> bool {
        self.moves.is_over()
    }

    /// What the nodes have of this balancer's clients.
    pub(crate) fn shares(&self) -> BTreeMap<&str, Share> {
        let node_by_link: HashMap<LinkKey, &str> =
            self.link_by_node.iter().map(|(node, link)| (*link, node.as_str())).collect();
        let mut shares: BTreeMap<&str, Share> =
            self.link_by_node.keys().map(|node| (node.as_str(), Share::default())).collect();
        for (client, _, link) in self.core.placed() {
            if let Some(share) = node_by_link.get(&link).and_then(|node| shares.get_mut(node)) {
                share.clients += 1;
                share.weight += self.weight_by_client.get(&client).copied().unwrap_or_default();
            }
        }
        shares
    }

    /// Carries what there is to the nodes and back until all is said.
    fn settle(&mut self, now: Instant) -> Result<(), Box<dyn Error>> {
        loop {
            while let Some(effect) = self.core.next_effect() {
                match effect {
                    Effect::Place(client) => {
                        let link = self.core.key_hash(client).and_then(|key| self.placement.choose(key));
                        self.core.attach(now, client, link.ok_or("no node takes clients")?);
                    }
                    Effect::Accept(client) => self.core.socket_opened(now, client),
                    other => return Err(format!("nobody should see {other:?}").into()),
                }
            }
            let mut is_quiet = true;
            for link in self.link_by_node.values() {
                let batch = self.core.take_batch(*link);
                if !batch.is_empty() {
                    is_quiet = false;
                    self.core.link_frames(now, *link, &answers(&batch)?)?;
                }
            }
            if is_quiet {
                return Ok(());
            }
        }
    }
}

fn answers(mut batch: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = Vec::new();
    while !batch.is_empty() {
        match ToNode::take(&mut batch)? {
            ToNode::Attach(attach) => ToEdge::Attached {
                slot: attach.slot,
                session: attach.session,
                resumed: false,
                seq: 0,
                hold: Left::NONE,
                greeting: &[],
                state: b"admitted",
            }
            .append(&mut out),
            ToNode::Release { slot, .. } => ToEdge::Released { slot, state: b"admitted" }.append(&mut out),
            _ => {}
        }
    }
    Ok(out)
}
