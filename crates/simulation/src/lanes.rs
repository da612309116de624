//! Lanes between nodes. A lane is one exchange after another, each a connection from the sending
//! node to the receiving one: batches go one way, acknowledgements the other, both in order.
//! `nodes`, `world` and `faults` call this module.

use std::collections::BTreeMap;
use std::time::Duration;

use signaling_core::edge::FlushUrgency;
use signaling_core::node::{BatchError, InboundExchange, PeerKey};
use signaling_wire::forward::{self, Item};
use signaling_wire::lane::{Acknowledgement, HEAD_BYTES, Opening};
use signaling_wire::{BatchNumber, Elapsed, ExchangeNumber, Incarnation, RemainingTtl};

use crate::agenda::{MS, Micros, SECOND};
use crate::event::{ExchangeId, Host, Kind, Process};
use crate::mutant::Mutant;
use crate::trace;
use crate::trunks::next_flush;
use crate::world::World;

/// One end of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

/// Reason why an exchange does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneFailure {
    /// The receiver's process is gone: the sender suspects the node.
    Gone,
    /// The receiver runs and refuses: it has no view, or knows this or a later exchange.
    Refused,
}

/// State of one end, and of the bytes that it sends.
#[derive(Debug, Clone, Copy)]
struct Side {
    process: Process,
    open: bool,
    /// `true` once nothing that it sends arrives.
    severed: bool,
    /// Arrival time of the last byte sent from here.
    arrives: Micros,
}

/// One exchange of a lane, of which an [`ExchangeId`] is the index in [`World`].
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Index of the sending node.
    from: usize,
    /// Index of the receiving node.
    to: usize,
    /// The sender's key of the receiver.
    peer: PeerKey,
    number: ExchangeNumber,
    /// The exchange of the opposite direction in whose response it is. `None`: it is a request.
    carrier: Option<ExchangeId>,
    /// Time at which the sender began it.
    began: Micros,
    /// `None` before the receiver has accepted it.
    inbound: Option<InboundExchange>,
    /// `true` once the sender has the receiver's acceptance.
    is_opened: bool,
    /// A timer flushes output that may wait.
    is_waiting: bool,
    /// Time of the sender's last batch.
    sent_at: Micros,
    sides: [Side; 2],
}

impl Exchange {
    /// Creates an exchange in a request that the sender begins.
    fn new((from, to): (usize, usize), peer: PeerKey, number: ExchangeNumber, began: Micros, sides: [Side; 2]) -> Self {
        Self {
            from,
            to,
            peer,
            number,
            carrier: None,
            began,
            inbound: None,
            is_opened: false,
            is_waiting: false,
            sent_at: 0,
            sides,
        }
    }

    fn side(&mut self, end: End) -> &mut Side {
        &mut self.sides[end as usize]
    }
}

const OPEN_TIMEOUT: Micros = 2 * SECOND;
const MAX_BACKOFF: Micros = SECOND;

impl World {
    /// Opens a lane to each new peer of a node, and ends lanes to peers that it no longer knows. A
    /// lane to a peer outside the view is in the response to the peer's own exchange.
    pub(crate) fn update_lanes(&mut self, index: usize) {
        let place = |address: &str| address.trim_start_matches('n').split(':').next()?.parse().ok();
        let (node, exchanges) = (&mut self.nodes[index], &self.exchanges);
        node.peers = node.core.peers().addressed().filter_map(|(key, address)| Some((key, place(address?)?))).collect();
        let (peers, inbound) = (&node.peers, &node.inbound_lanes);
        let outside = node.core.peers().addressed().filter(|(_, address)| address.is_none());
        let carriers: BTreeMap<_, _> = outside.filter_map(|(key, _)| Some((key, *inbound.get(&key)?))).collect();
        let is_over = |peer: &PeerKey, id: &mut ExchangeId| match exchanges[*id].carrier {
            Some(carrier) => carriers.get(peer) != Some(&carrier),
            None => !peers.contains_key(peer),
        };
        let ended: Vec<_> = node.lanes.extract_if(.., is_over).map(|(_, id)| id).collect();
        let new: Vec<_> = peers.keys().filter(|peer| !node.lanes.contains_key(peer)).copied().collect();
        let returns: Vec<_> = carriers.into_iter().filter(|(peer, _)| !node.lanes.contains_key(peer)).collect();
        for id in ended {
            self.sender_ends(id);
        }
        new.into_iter().for_each(|peer| self.open_lane(index, peer));
        returns.into_iter().for_each(|(_, carrier)| self.open_return(carrier));
    }

    /// Opens the lane to the sender of an exchange in its response.
    fn open_return(&mut self, carrier: ExchangeId) {
        let Exchange { from: to, to: from, inbound: Some(at), sides: [receiver, sender], .. } = self.exchanges[carrier]
        else {
            return;
        };
        let Some(number) = self.nodes[from].core.open_return(self.agenda.instant(), at) else { return };
        let id = self.exchanges.len();
        self.nodes[from].lanes.insert(at.peer, id);
        // Bytes of the response follow those before them.
        let sides = [Side { open: true, ..sender }, Side { open: false, ..receiver }];
        let exchange = Exchange::new((from, to), at.peer, number, self.agenda.now(), sides);
        self.exchanges.push(Exchange { carrier: Some(carrier), is_opened: true, ..exchange });
        self.carry(id, End::Sender, move |world| world.return_arrives(id, carrier));
    }

    fn return_arrives(&mut self, id: ExchangeId, carrier: ExchangeId) {
        let Exchange { from: to, peer, number: own, .. } = self.exchanges[carrier];
        if !self.exchanges[carrier].side(End::Sender).open {
            return;
        }
        let (now, number) = (self.agenda.instant(), self.exchanges[id].number);
        if let Some(inbound) = self.nodes[to].core.accept_return(now, (peer, own), number) {
            self.inbound_opens(id, inbound);
        }
    }

    fn open_lane(&mut self, from: usize, peer: PeerKey) {
        let node = &mut self.nodes[from];
        let Some(&to) = node.peers.get(&peer) else { return };
        let Some(mut opening) = node.core.peers_mut().open_lane(self.agenda.instant(), peer) else { return };
        let (id, number) = (self.exchanges.len(), opening.exchange);
        if self.mutant == Some(Mutant::Incarnation) {
            opening.incarnation = Incarnation([0; 8]);
        }
        node.lanes.insert(peer, id);
        let (here, there) = (Host::Node(from), Host::Node(to));
        let process = |host: Host| (host, self.server(host).generation);
        let side = |host| Side { process: process(host), open: host == here, severed: false, arrives: 0 };
        let began = self.agenda.now();
        self.exchanges.push(Exchange::new((from, to), peer, number, began, [side(here), side(there)]));
        let delay = self.rng.delay();
        let is_frozen = self.frozen_lanes.get(&(from, to)).is_some_and(|until| *until > began);
        if self.reaches(here, there) && self.reaches(there, here) && !is_frozen {
            self.later_as(Kind::Lane(id), there, delay, move |world| world.lane_arrives(id, &opening));
        }
        self.later_as(Kind::Timer, here, OPEN_TIMEOUT, move |world| {
            if !world.exchanges[id].is_opened {
                world.lane_ends(id, End::Sender);
            }
        });
    }

    fn lane_arrives(&mut self, id: ExchangeId, opening: &Opening) {
        let to = self.exchanges[id].to;
        if self.lacks_view(to) {
            self.counters.add("silence: lanes refused", u64::from(self.silences > 0));
            return self.lane_fails(id, LaneFailure::Refused);
        }
        let node = &mut self.nodes[to];
        let inbound = match node.core.accept_lane(self.agenda.instant(), opening) {
            Ok(Some(inbound)) => inbound,
            Ok(None) => return self.lane_fails(id, LaneFailure::Refused),
            Err(error) => return self.ledger.broken("damaged", error.to_string()),
        };
        let incarnation = match self.mutant {
            Some(Mutant::Incarnation) => Incarnation([0; 8]),
            _ => node.core.settings().incarnation,
        };
        self.trouble.opening(self.exchanges[id].began, self.agenda.now());
        self.carry(id, End::Receiver, move |world| world.lane_opened(id, incarnation));
        self.exchanges[id].side(End::Sender).arrives = self.agenda.now();
        self.inbound_opens(id, inbound);
    }

    fn inbound_opens(&mut self, id: ExchangeId, inbound: InboundExchange) {
        let to = self.exchanges[id].to;
        self.exchanges[id].inbound = Some(inbound);
        self.exchanges[id].side(End::Receiver).open = true;
        if let Some(earlier) = self.nodes[to].inbound_lanes.insert(inbound.peer, id) {
            self.close_receiver(earlier);
        }
        self.acknowledge(to, inbound.peer);
        self.update_lanes(to);
    }

    fn lane_opened(&mut self, id: ExchangeId, incarnation: Incarnation) {
        let exchange = &mut self.exchanges[id];
        if exchange.side(End::Sender).open {
            exchange.is_opened = true;
            let Exchange { from, peer, number, .. } = *exchange;
            let (now, node) = (self.agenda.instant(), &mut self.nodes[from]);
            node.failures.remove(&peer);
            node.core.lane_opened(now, peer, number, incarnation);
            if self.mutant == Some(Mutant::LaneWindow) {
                let of = Acknowledgement { number: BatchNumber(self.sent_batches), names_you: true };
                if let Err(error) = node.core.lane_acknowledged(now, peer, number, (of, 0)) {
                    self.ledger.broken("damaged", error.to_string());
                }
            }
        }
    }

    /// Reports to the sender that the exchange did not open.
    pub(crate) fn lane_fails(&mut self, id: ExchangeId, failure: LaneFailure) {
        let suspects = failure == LaneFailure::Gone && self.mutant != Some(Mutant::Suspects);
        self.carry(id, End::Receiver, move |world| {
            let Exchange { from, peer, .. } = world.exchanges[id];
            if suspects && world.exchanges[id].side(End::Sender).open {
                world.nodes[from].core.refused(world.agenda.instant(), peer);
            }
            world.lane_ends(id, End::Sender);
        });
    }

    /// Carries something from one end to the other, behind all that was sent before.
    fn carry(&mut self, id: ExchangeId, from: End, arrive: impl FnOnce(&mut Self) + 'static) {
        let at = self.agenda.now() + self.rng.delay();
        let exchange = &mut self.exchanges[id];
        let to = exchange.sides[usize::from(from == End::Sender)].process;
        let side = exchange.side(from);
        side.arrives = side.arrives.max(at);
        let (at, severed) = (side.arrives, side.severed);
        if !severed {
            self.deliver(at, to, Kind::Received, arrive);
        }
    }

    /// Sends the batches of a node's changed lanes, at once or at the next flush by their urgency.
    /// Ends exchanges that the core cuts.
    pub(crate) fn lanes_turn(&mut self, index: usize) {
        for (peer, urgency) in self.nodes[index].core.peers_mut().take_woken_lanes() {
            let Some(&id) = self.nodes[index].lanes.get(&peer) else { continue };
            match urgency {
                _ if self.nodes[index].core.peers().is_lane_cut(peer) => self.lane_ends(id, End::Sender),
                FlushUrgency::Idle => {}
                FlushUrgency::Immediate => self.send_batches(id),
                FlushUrgency::Delayed if std::mem::replace(&mut self.exchanges[id].is_waiting, true) => {}
                FlushUrgency::Delayed => {
                    let now = self.agenda.now();
                    let wait = next_flush(now, self.exchanges[id].sent_at) - now;
                    self.later_as(Kind::Timer, Host::Node(index), wait, move |world| {
                        world.exchanges[id].is_waiting = false;
                        world.send_batches(id);
                    });
                }
            }
        }
    }

    fn send_batches(&mut self, id: ExchangeId) {
        let Exchange { from, peer, number, to, .. } = self.exchanges[id];
        while let Some(frame) = self.nodes[from].core.peers_mut().take_lane_frame(self.agenda.instant(), peer, number) {
            let mut batch = &frame[HEAD_BYTES..];
            if let Ok((number, _)) = forward::open(&mut batch) {
                self.counters.add("nodes: batches sent again", u64::from(number.0 <= self.nodes[from].last_batch));
                self.nodes[from].last_batch = self.nodes[from].last_batch.max(number.0);
                self.sent_batches = self.sent_batches.max(number.0);
                if self.mutant == Some(Mutant::EarlyAcknowledgement) {
                    self.send_acknowledgement(id, Acknowledgement { number, names_you: true });
                }
            }
            let mut batch = frame[HEAD_BYTES..].to_vec();
            if let Some(mutant) = self.mutant {
                let view = self.nodes[to].core.peers().view().hash();
                batch = self.once.without_repeats(mutant, (from, to), &batch);
                batch = mutant.between_nodes(&batch, RemainingTtl::from_duration(self.hold), view);
            }
            self.exchanges[id].sent_at = self.agenda.now();
            let lost = if self.exchanges[id].side(End::Sender).severed { " (lost)" } else { "" };
            self.trace.sent(&batch, || format!("lane {id} n{from}>n{to}{lost} {}", describe(&batch)));
            self.carry(id, End::Sender, move |world| world.batch_arrives(id, &batch));
        }
    }

    fn batch_arrives(&mut self, id: ExchangeId, batch: &[u8]) {
        let Exchange { to, inbound: Some(inbound), ref sides, .. } = self.exchanges[id] else { return };
        if !sides[End::Receiver as usize].open {
            return;
        }
        let now = self.agenda.instant();
        let in_time = (self.mutant == Some(Mutant::LateBatches)).then(|| {
            let start = self.agenda.base + Duration::from_micros(self.exchanges[id].began);
            Mutant::in_time(batch, Elapsed::between(start, now))
        });
        match self.nodes[to].core.batch(now, inbound, in_time.as_deref().unwrap_or(batch)) {
            Ok(()) => self.acknowledge(to, inbound.peer),
            Err(BatchError::TooLate(_)) => {
                self.counters.add("lanes ended for a late batch", 1);
                self.close_receiver(id);
            }
            Err(BatchError::Over) => self.close_receiver(id),
            Err(BatchError::Damaged(error)) => self.ledger.broken("damaged", error.to_string()),
        }
    }

    /// Sends the acknowledgement for a peer, if it is due.
    fn acknowledge(&mut self, index: usize, peer: PeerKey) {
        if let Some(of) = self.nodes[index].core.take_acknowledgement(self.agenda.instant(), peer) {
            self.acknowledge_up_to(index, peer, of);
        }
    }

    /// Sends all acknowledgements of a node that are due.
    pub(crate) fn acknowledge_all(&mut self, index: usize) {
        for (peer, of) in self.nodes[index].core.peers_mut().take_acknowledgements(self.agenda.instant()) {
            self.acknowledge_up_to(index, peer, of);
        }
    }

    /// Sends an acknowledgement to a peer with an open exchange. Checks that those of two processes
    /// never fall: batches would be executed again.
    fn acknowledge_up_to(&mut self, index: usize, peer: PeerKey, of: Acknowledgement) {
        let number = of.number;
        let Some(&id) = self.nodes[index].inbound_lanes.get(&peer) else { return };
        let Exchange { from, to, sides: [Side { process: sender, .. }, Side { process: receiver, .. }], .. } =
            self.exchanges[id];
        let last = self.executed.entry((sender, receiver)).or_default();
        if number < *last {
            let what = format!("n{to} forgot batches {} to {} of n{from}", number.0 + 1, last.0);
            self.ledger.broken("batches executed once", what);
        }
        *last = number;
        self.send_acknowledgement(id, of);
    }

    fn send_acknowledgement(&mut self, id: ExchangeId, acknowledged: Acknowledgement) {
        let counter = self.nodes[self.exchanges[id].to].core.number(self.agenda.instant());
        self.carry(id, End::Receiver, move |world| {
            let Exchange { from, peer, number, .. } = world.exchanges[id];
            let (now, core) = (world.agenda.instant(), &mut world.nodes[from].core);
            if world.exchanges[id].side(End::Sender).open
                && let Err(error) = core.lane_acknowledged(now, peer, number, (acknowledged, counter))
            {
                world.ledger.broken("damaged", error.to_string());
            }
        });
    }

    /// Closes one end. The other end learns of it, unless the exchange is severed.
    fn lane_ends(&mut self, id: ExchangeId, end: End) {
        if end == End::Receiver {
            return self.close_receiver(id);
        }
        let Exchange { from, peer, carrier, .. } = self.exchanges[id];
        if !self.sender_ends(id) {
            return;
        }
        if let Some(carrier) = carrier {
            return self.close_receiver(carrier);
        }
        if self.nodes[from].lanes.get(&peer) == Some(&id) {
            let failures = self.nodes[from].failures.entry(peer).or_insert(0);
            let limit = ((20 * MS) << (*failures).min(6)).min(MAX_BACKOFF);
            *failures += 1;
            let backoff = limit * self.rng.within(50, 100) / 100;
            self.later_as(Kind::Timer, Host::Node(from), backoff, move |world| {
                if world.nodes[from].lanes.get(&peer) == Some(&id) {
                    world.open_lane(from, peer);
                }
            });
        }
    }

    /// Closes the sending end, and what returns on the exchange. Returns `false` if it was closed.
    fn sender_ends(&mut self, id: ExchangeId) -> bool {
        let exchange = &mut self.exchanges[id];
        let Exchange { from, peer, number, .. } = *exchange;
        let was_open = std::mem::replace(&mut exchange.side(End::Sender).open, false);
        if was_open {
            self.nodes[from].core.peers_mut().lane_ended(self.agenda.instant(), peer, number);
            self.carry(id, End::Sender, move |world| world.lane_ends(id, End::Receiver));
            if let Some(&returned) = self.nodes[from].inbound_lanes.get(&peer)
                && self.exchanges[returned].carrier == Some(id)
            {
                self.close_receiver(returned);
            }
        }
        was_open
    }

    fn close_receiver(&mut self, id: ExchangeId) {
        let exchange = &mut self.exchanges[id];
        let (to, inbound) = (exchange.to, exchange.inbound);
        if !std::mem::replace(&mut exchange.side(End::Receiver).open, false) {
            return;
        }
        self.carry(id, End::Receiver, move |world| world.lane_ends(id, End::Sender));
        if let Some(inbound) = inbound {
            let node = &mut self.nodes[to];
            if node.inbound_lanes.get(&inbound.peer) == Some(&id) {
                node.inbound_lanes.remove(&inbound.peer);
            }
            node.core.inbound_lane_ended(self.agenda.instant(), inbound);
            self.update_lanes(to);
        }
    }

    /// Closes the receiving ends of all exchanges to a node that was paused.
    pub(crate) fn close_lanes_to(&mut self, index: usize) {
        let inbound: Vec<_> = self.nodes[index].inbound_lanes.values().copied().collect();
        inbound.into_iter().for_each(|id| self.close_receiver(id));
    }

    /// Cuts the direction from one node to another. Their open exchanges lose all acknowledgements,
    /// and the exchanges of `from` also all batches. `from` closes its end of half of them within
    /// 3 s; the other ends get no report of it.
    pub(crate) fn sever_lanes(&mut self, from: usize, to: usize) {
        for id in 0..self.exchanges.len() {
            for (end, other) in [(End::Sender, End::Receiver), (End::Receiver, End::Sender)] {
                let exchange = &mut self.exchanges[id];
                let (here, there) = (exchange.side(end).process.0, exchange.side(other).process.0);
                if (here, there) != (Host::Node(from), Host::Node(to)) || !exchange.side(End::Sender).open {
                    continue;
                }
                exchange.side(end).severed = true;
                // The sender's TCP confirmations are lost too, so the receiver's bytes stop.
                exchange.side(End::Receiver).severed = true;
                let detected = self.rng.percent(50).then(|| self.rng.within(0, 3 * SECOND));
                if let Some(delay) = detected {
                    self.later(here, delay, move |world| world.lane_ends(id, end));
                }
            }
        }
    }

    /// Delays all batches of the open exchange from one node to another until 1 s to 8 s from now.
    /// A later exchange overtakes it. Without one, batches that are more than 5 s late are lost.
    pub(crate) fn stall_lane(&mut self, from: usize, to: usize) {
        let until = self.agenda.now() + self.rng.within(SECOND, 8 * SECOND);
        self.delay_lane(from, to, until, &[End::Sender]);
    }

    /// Keeps all bytes of the lane from one node to another, both ways, until `until`. Then they
    /// arrive before those of a later exchange, as when packets of a connection pass again.
    pub(crate) fn freeze_lane(&mut self, from: usize, to: usize, until: Micros) {
        self.delay_lane(from, to, until, &[End::Sender, End::Receiver]);
        self.frozen_lanes.insert((from, to), until);
    }

    fn delay_lane(&mut self, from: usize, to: usize, until: Micros, ends: &[End]) {
        for exchange in self.exchanges.iter_mut().filter(|exchange| (exchange.from, exchange.to) == (from, to)) {
            for end in ends {
                let side = exchange.side(*end);
                if side.open {
                    side.arrives = side.arrives.max(until);
                }
            }
        }
    }

    /// Closes all ends of a node whose process was killed. Bytes sent earlier still arrive. About
    /// half of the other ends get a report of it.
    pub(crate) fn reset_lanes(&mut self, index: usize) {
        for id in 0..self.exchanges.len() {
            for (end, other) in [(End::Sender, End::Receiver), (End::Receiver, End::Sender)] {
                let exchange = &mut self.exchanges[id];
                let side = exchange.side(end);
                if side.process.0 != Host::Node(index) || !std::mem::replace(&mut side.open, false) {
                    continue;
                }
                exchange.side(end).severed |= self.rng.percent(50);
                self.carry(id, end, move |world| world.lane_ends(id, other));
            }
        }
    }
}

fn describe(mut bytes: &[u8]) -> String {
    let Ok((number, _)) = forward::open(&mut bytes) else { return "DAMAGED".to_owned() };
    format!("[{number}] {}", trace::describe(bytes, Item::take))
}
