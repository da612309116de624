//! Broadcasts: one message for each other member of a room. The sender receives one answer when all
//! outcomes are known.

use std::time::Duration;

use signaling_protocol::RoomName;
use signaling_protocol::server::ServerMessage;
use signaling_wire::trunk::DeliveryOutcome;
use signaling_wire::{MessageNumber, Seq, SessionId};

use super::budget::BudgetKind;
use super::command::Refusal;
use super::limits::{broadcast_cost, fan_out_budget, rate_limited};
use super::room_session::{Command, CommandKind};
use super::task::Urgency;
use crate::{Context, OpResult, Operation, Output, Rooms, Socket, SocketKey, Step};

/// A broadcast with members whose outcomes are not known yet.
#[derive(Debug)]
pub(super) struct Tally {
    /// Uplink frame that the answer names: the latest one if the client retransmits.
    seq: Seq,
    /// The client's `id` for the `ack`. `None`: no `ack`.
    id: Option<u64>,
    /// Members without an outcome, plus 1 until all messages are sent.
    left: usize,
    /// Members that received the message.
    delivered: u64,
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Checks a broadcast before its request. `is_repeated`: its frame has been at a node
    /// before. Returns `true` if a node may have accepted the broadcast before. The budget of a
    /// native client then does not refuse it.
    ///
    /// Fails with `RateLimited` if a native client ignores the `retry_after_ms` of an earlier
    /// refusal.
    pub fn check_broadcast_wait(
        &mut self,
        key: SocketKey,
        number: MessageNumber,
        is_repeated: bool,
    ) -> Result<bool, Refusal> {
        if is_repeated || self.was_accepted(key, number) {
            return Ok(true);
        }
        let native = self.cx.socket(key).filter(|session| !session.is_of_dialect());
        let of = native.map(fan_out_budget);
        let wait = of.and_then(|of| self.local.budgets.remaining_wait(self.now, of));
        wait.map_or(Ok(false), |wait| Err(rate_limited(BudgetKind::FanOut, wait)))
    }

    /// Returns `true` if a resumed session retransmits a broadcast or join that may have been
    /// accepted before.
    pub fn was_accepted(&mut self, key: SocketKey, number: MessageNumber) -> bool {
        // Only a reliable client retransmits.
        let can_retransmit = |session: &Socket<'_>| session.resumed && session.is_reliable;
        let Some(session) = self.cx.socket(key).filter(can_retransmit) else { return false };
        let Some(room_session) = self.local.sessions.get_mut(&session.id) else { return false };
        room_session.accepted_requests.is_retransmission(number, session.socket)
    }

    /// Returns the time until the sender's budget allows a broadcast to `members`. `None`: it may
    /// be sent now.
    fn check_budget(&mut self, command: &Command<M>, members: u64) -> Option<Duration> {
        let CommandKind::Broadcast { bytes, may_be_accepted, .. } = command.kind else { return None };
        let rate = self.local.settings.broadcast_rate?;
        let session = self.cx.socket(command.key)?;
        // A delay does no harm to a broadcast that was accepted before.
        if may_be_accepted && !session.is_of_dialect() {
            return None;
        }
        let of = fan_out_budget(session);
        let wait = self.local.budgets.wait(self.now, of, rate, broadcast_cost(members, bytes))?;
        self.local.budgets.record_wait(self.now, of, wait);
        Some(wait)
    }

    /// Handles a page of members: requests the next one, or sends the broadcast
    /// after the last.
    ///
    /// Pages that may lack members are requested again; after 2 s the broadcast is refused. One
    /// above the budget is refused; that of a dialect's client is delayed while its socket is open.
    pub(super) fn members_found(
        &mut self,
        session: SessionId,
        room: &RoomName,
        command: &Command<M>,
        result: &OpResult,
    ) {
        let is_first_page = self.local.sessions.get(&session).is_some_and(|room_session| room_session.found.is_empty());
        let is_other = self.local.is_other_incarnation(room, result.incarnation);
        let may_miss = match is_first_page {
            true => self.may_miss_members(room, result) || (is_other && self.misses_listed(room, result)),
            false => is_other,
        };
        if may_miss {
            self.hold_command(session, command);
        } else if is_first_page && let Some(wait) = self.check_budget(command, result.count.saturating_sub(1)) {
            if let Some(refusal) = self.delay_or_refuse(session, command, (wait, BudgetKind::FanOut)) {
                self.finish(session, &[], Some(&refusal));
            }
        } else if let Some(room_session) = self.local.sessions.get_mut(&session) {
            room_session.found.extend(result.members.iter().map(|member| member.client.clone()));
            if result.more
                && let Some(last) = room_session.found.last()
            {
                let op = Operation::List { after: Some(last.clone()) };
                self.local.enqueue(Urgency::Urgent, command.purpose(session), room.clone(), op);
            } else {
                self.fan_out(session);
                self.command_done(command.key);
                self.next_command(session);
            }
        }
    }

    /// Sends the broadcast, which is the session's first command, to all members but its sender.
    fn fan_out(&mut self, session: SessionId) {
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let mut members = std::mem::take(&mut room_session.found);
        let Some(Command { key, seq, number, id, kind, .. }) = room_session.take_first_command() else { return };
        let CommandKind::Broadcast { copy: message, bytes, .. } = kind else { return };
        let Some(session) = self.cx.socket(key) else { return };
        if session.is_reliable {
            room_session.accepted_requests.record(number, session.socket);
        }
        let broadcasts = &mut self.local.sockets.entry(key).or_default().broadcasts;
        if let Some(under_way) = broadcasts.get_mut(&number) {
            // The client retransmits the broadcast. Its outcome answers the latest frame.
            let seq = std::mem::replace(&mut under_way.seq, seq);
            let (outcome, text) = (DeliveryOutcome::Done, Vec::new());
            return self.local.outputs.push(Output::Answer { to: key, seq, outcome, text, is_ordered: false });
        }
        // A member that left and joined again between two pages is on both.
        members.sort_unstable();
        members.dedup();
        members.retain(|member| member != session.client_id);
        broadcasts.insert(number, Tally { seq, id, left: members.len() + 1, delivered: 0 });
        let client = session.client_id.clone();
        self.charge_fan_out(Some(key), client.as_str(), broadcast_cost(members.len() as u64, bytes));
        self.local.counts.broadcasts += 1;
        self.local.outputs.push(Output::FanOut { from: key, number, to: members, message });
    }
}

impl<M> Rooms<M> {
    /// Counts one member's outcome: delivered if `written`, else unavailable. The end of the
    /// fan-out counts like an unavailable member, so that the answer follows all messages. Returns
    /// the answer to the sender, for its frame. `None`: an outcome is missing, or its session has
    /// ended.
    pub fn count_broadcast_outcome(
        &mut self,
        key: SocketKey,
        number: MessageNumber,
        written: bool,
    ) -> Option<(Seq, Vec<u8>)> {
        let work = self.local.sockets.get_mut(&key)?;
        let tally = work.broadcasts.get_mut(&number)?;
        tally.delivered += u64::from(written);
        tally.left = tally.left.saturating_sub(1);
        if tally.left > 0 {
            return None;
        }
        let Tally { seq, id, delivered, .. } = *tally;
        work.broadcasts.remove(&number);
        self.local.forget_if_answered(key);
        let delivered = Some(delivered);
        Some((seq, id.map(|id| ServerMessage::Ack { id, delivered }.to_json()).unwrap_or_default()))
    }
}
