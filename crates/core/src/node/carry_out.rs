//! Carries out what rooms decided: messages and answers to clients, items for other nodes.

use std::time::Instant;

use signaling_rooms::Output;
use signaling_wire::trunk::{DeliveryOutcome, ToEdge};
use signaling_wire::{MessageNumber, RemainingTtl, Seq};

use super::outbound::OutboundMessage;
use super::{NodeCore, SessionKey};

impl NodeCore {
    /// Applies the outputs of rooms, in order. What follows from one comes before the next one.
    pub(super) fn carry_out(&mut self, now: Instant) {
        if !self.rooms.has_outputs() {
            return;
        }
        let mut outputs = self.rooms.take_outputs();
        for output in outputs.queue.drain(..) {
            self.apply(now, output, &outputs.items);
        }
        self.rooms.reuse_outputs(outputs);
    }

    /// Applies an output. `items`: those of [`Output::ToNode`].
    fn apply(&mut self, now: Instant, output: Output<OutboundMessage>, items: &[u8]) {
        match output {
            Output::ToClient { to, text } => self.send_text(to, &text),
            Output::Answer { to, seq, outcome, text, is_ordered: true } => {
                self.reply_in_order(to, seq, outcome, &text);
            }
            Output::Answer { to, seq, outcome, text, is_ordered: false } => self.reply(to, seq, outcome, &text),
            Output::Signal { from, to, message } => self.signal(now, from, to.as_str(), message),
            Output::FanOut { from, number, to, mut message } => {
                // The owner's answer took time, and the budget may have delayed it.
                message.deadline = message.deadline.after_wait(now);
                for member in to {
                    if !self.take_custody(now, from, member.as_str(), message.clone()) {
                        self.broadcast_outcome(from, number, false);
                    }
                }
                // The end of the fan-out counts like an outcome, so that the answer follows all
                // messages.
                self.count_outcome(from, number, false);
            }
            Output::ToNode { to, item, is_urgent } => {
                if let Some(item) = items.get(item) {
                    self.peers.note_encoded(&to, item, is_urgent);
                }
            }
            Output::State { of, state } => {
                if let Some(session) = self.directory.get(of) {
                    self.trunks.send(session.trunk, &ToEdge::SessionState { slot: session.slot, state: &state });
                }
            }
            Output::CommandDone { of } => {
                self.rooms.command_answered(of);
                self.remove_if_done(of);
            }
            Output::SendHome { client } => self.send_home(now, &client),
            Output::ReadJournal { room } => self.journal_reads.push(room),
            Output::Outranked { client, socket, above } => self.outranked(now, &client, socket, above),
        }
    }

    /// Counts a member's outcome of a broadcast: delivered if `written`, else unavailable. The last
    /// one answers the sender.
    pub(super) fn broadcast_outcome(&mut self, from: SessionKey, number: MessageNumber, written: bool) {
        self.counts.delivered += u64::from(written);
        self.counts.unavailable += u64::from(!written);
        self.count_outcome(from, number, written);
    }

    fn count_outcome(&mut self, from: SessionKey, number: MessageNumber, written: bool) {
        if let Some((seq, text)) = self.rooms.count_broadcast_outcome(from, number, written) {
            self.reply(from, seq, DeliveryOutcome::Done, &text);
        }
    }

    /// Sends a client a message of the server. No effect without a socket.
    fn send_text(&mut self, key: SessionKey, payload: &[u8]) {
        let Some(session) = self.directory.get_mut(key).filter(|session| !session.socket_ended) else { return };
        let (slot, down_seq) = (session.slot, session.next_down_seq());
        let (prev_pending, ttl) = (MessageNumber::NONE, RemainingTtl::NONE);
        self.trunks.send(session.trunk, &ToEdge::Down { slot, down_seq, origin: None, prev_pending, ttl, payload });
    }

    /// Sends the outcome of a command after the messages that were sent to its client before.
    fn reply_in_order(&mut self, key: SessionKey, seq: Seq, outcome: DeliveryOutcome, reply: &[u8]) {
        let Some(session) = self.directory.get(key) else { return };
        let outcomes = ToEdge::Outcomes { slot: session.slot, first: seq, count: 1, outcome, reply };
        self.trunks.send(session.trunk, &outcomes);
    }
}
