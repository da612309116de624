//! Outcomes of messages on their way back from the recipients' edges to the senders' edges.

use std::time::Instant;

use signaling_protocol::NodeId;
use signaling_protocol::server::write_ack;
use signaling_wire::forward::{EnvelopeOutcome, Item, QueueId};
use signaling_wire::trunk::{DeliveryOutcome, Slot, ToEdge, Unwritten};
use signaling_wire::{DownSeq, MessageNumber, Seq};

use super::hold::{InboundMessage, ReturnPath};
use super::lane::QueuedOutcome;
use super::outbound::OutboundMessage;
use super::session::OutcomeRun;
use super::{NodeCore, QueueKey, SessionKey, TrunkKey};

impl NodeCore {
    /// Handles a confirm of a recipient's edge, up to a number. `exceptions` were not written.
    pub(super) fn confirm(
        &mut self,
        now: Instant,
        at: (TrunkKey, Slot),
        up_to: DownSeq,
        exceptions: &[(DownSeq, Unwritten)],
    ) {
        let Some(key) = self.trunks.session_at(at) else { return };
        while let Some((down_seq, message)) = self.directory.get_mut(key).and_then(|session| session.confirmed(up_to)) {
            let outcome = match exceptions.iter().find(|(exception, _)| *exception == down_seq) {
                None => EnvelopeOutcome::Written,
                Some((_, Unwritten::Skipped)) => EnvelopeOutcome::Skipped,
                Some((_, Unwritten::Gap)) => EnvelopeOutcome::Retransmit,
                // Without an outcome the message is retransmitted later: the edge gets some time.
                Some((_, Unwritten::NoRoom)) => continue,
            };
            self.return_outcome(now, &message, outcome);
        }
        if self.directory.is_superseded(key)
            && self.directory.get(key).is_some_and(|session| !session.has_unconfirmed())
        {
            self.finish_superseded(now, key);
        }
        self.refill(now, key);
    }

    /// Sends a message's outcome along its return path.
    pub(super) fn return_outcome(&mut self, now: Instant, message: &InboundMessage, outcome: EnvelopeOutcome) {
        match &message.back {
            ReturnPath::Here => self.outcome(now, message.queue_id, message.sent.origin.number, outcome),
            ReturnPath::Through { node, via } => {
                let (origin, queue_id, via) = (message.sent.origin, message.queue_id, via.clone());
                let (number, message) = (origin.number, Some((origin, message.to)));
                self.peers.return_outcome(node, QueuedOutcome { message, queue_id, number, outcome, via });
            }
        }
    }

    /// Reports to the sender's node that a message is held here, or that there is no room for it.
    pub(super) fn report_held(&mut self, now: Instant, message: &InboundMessage) {
        match &message.back {
            ReturnPath::Here => self.custody.mark_held(now, message.queue_id),
            ReturnPath::Through { node, via } => {
                let via = via.iter().map(NodeId::as_str).collect();
                self.send_held(node.as_str(), message.queue_id, via);
            }
        }
    }

    /// Applies or relays an outcome from another node. Relays no `Expired`.
    pub(super) fn returned(
        &mut self,
        now: Instant,
        (queue_id, number): (QueueId, MessageNumber),
        outcome: EnvelopeOutcome,
        via: &[&str],
    ) {
        let Some((next, rest)) = via.split_last() else { return self.outcome(now, queue_id, number, outcome) };
        if outcome == EnvelopeOutcome::Expired {
            // The sender's node may have sent copies elsewhere: its clock decides.
            return;
        }
        if self.peers.has_suspects() && outcome.is_final() {
            self.custody.holds.forget_copied(queue_id, number);
        }
        let names = (NodeId::new(next), rest.iter().map(|node| NodeId::new(node)).collect());
        let (Ok(next), Ok(via)) = names else {
            self.counts.dropped += 1;
            return;
        };
        self.peers.return_outcome(&next, QueuedOutcome { message: None, queue_id, number, outcome, via });
    }

    /// Applies or relays a `Held` from another node.
    pub(super) fn held(&mut self, now: Instant, queue_id: QueueId, via: &[&str]) {
        match via.split_last() {
            None => self.custody.mark_held(now, queue_id),
            Some((next, rest)) => self.send_held(next, queue_id, rest.to_vec()),
        }
    }

    fn send_held(&mut self, node: &str, queue_id: QueueId, via: Vec<&str>) {
        self.peers.note(self.peers.key(node), &Item::Held { queue_id, via });
    }

    /// Applies the outcome of a message in this node's custody.
    fn outcome(&mut self, now: Instant, queue_id: QueueId, number: MessageNumber, outcome: EnvelopeOutcome) {
        if let Some((queue, sent)) = self.custody.apply_outcome(now, queue_id, number, outcome) {
            self.end(queue, &sent, outcome == EnvelopeOutcome::Written);
        }
    }

    /// Ends custody of a message and sends its outcome to the sender's edge: delivered if
    /// `written`, else unavailable. A copy of a broadcast only counts for that broadcast's answer.
    /// The last message closes the queue.
    pub(super) fn end(&mut self, queue_key: QueueKey, sent: &OutboundMessage, written: bool) {
        let Some(queue) = self.custody.queues.get(queue_key) else { return };
        let session = queue.session;
        let to = if queue.is_empty() {
            let Some(queue) = self.custody.queues.remove(queue_key) else { return };
            if let Some(session) = self.directory.get_mut(session) {
                session.recipients.remove(&queue.to);
            }
            queue.to
        } else {
            queue.to.clone()
        };
        if sent.to_many {
            self.broadcast_outcome(session, sent.number, written);
        } else if !written {
            self.unavailable(session, sent.seq, sent.id, to.as_str());
        } else {
            self.counts.delivered += 1;
            self.directory.record_delivered(session, sent.number);
            self.acknowledge(session, sent.seq, sent.id);
        }
        self.remove_if_done(session);
    }

    /// Answers a delivered signal: with an `ack` if the client gave it an `id`.
    pub(super) fn acknowledge(&mut self, session: SessionKey, seq: Seq, id: Option<u64>) {
        let Some(id) = id else { return self.reply(session, seq, DeliveryOutcome::Done, &[]) };
        let mut reply = std::mem::take(&mut self.scratch);
        reply.clear();
        write_ack(&mut reply, id);
        self.reply(session, seq, DeliveryOutcome::Done, &reply);
        self.scratch = reply;
    }

    /// Sends the outcome of an uplink frame to the sender's edge, with a JSON reply, or in a run.
    pub(super) fn reply(&mut self, session_key: SessionKey, seq: Seq, outcome: DeliveryOutcome, reply: &[u8]) {
        let Some(session) = self.directory.get_mut(session_key) else { return };
        let (trunk, slot) = (session.trunk, session.slot);
        if !reply.is_empty() {
            return self.trunks.send_lazily(trunk, &ToEdge::Outcomes { slot, first: seq, count: 1, outcome, reply });
        }
        if !self.trunks.contains(trunk) {
            return;
        }
        match session.outcomes.map(|run| (run, run.and(seq, outcome))) {
            None => {
                session.outcomes = Some(OutcomeRun { first: seq, count: 1, outcome });
                self.trunks.has_outcomes(trunk, session_key);
            }
            Some((_, Some(longer))) => session.outcomes = Some(longer),
            Some((run, None)) => {
                let OutcomeRun { first, count, outcome: earlier } = run;
                self.trunks.send_lazily(trunk, &ToEdge::Outcomes { slot, first, count, outcome: earlier, reply });
                session.outcomes = Some(OutcomeRun { first: seq, count: 1, outcome });
            }
        }
    }

    /// Writes a session's run of equal outcomes.
    pub(super) fn write_outcomes(&mut self, key: SessionKey) {
        let Some(session) = self.directory.get_mut(key) else { return };
        if let Some(OutcomeRun { first, count, outcome }) = session.outcomes.take() {
            let outcomes = ToEdge::Outcomes { slot: session.slot, first, count, outcome, reply: &[] };
            self.trunks.send_lazily(session.trunk, &outcomes);
        }
        self.remove_if_done(key);
    }
}
