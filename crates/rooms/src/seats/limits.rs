//! Limits of rates in rooms: new rooms, and fan-out, which is members that receive something
//! because of a client. They are checked before a command is sent. Its result costs what it did.

use std::time::Duration;

use signaling_protocol::{ErrorCode, RoomName};
use signaling_wire::SessionId;
use signaling_wire::grant::Grant;
use signaling_wire::rate::{Rate, whole_ms};

use super::budget::BudgetKind;
use super::command::Refusal;
use super::room_session::{Command, CommandKind};
use super::task::Purpose;
use crate::{Context, OpResult, Operation, RoomEvents, RoomOptions, Socket, SocketKey, Step};

/// Seconds of its new rooms that a client may use at once: 300 rooms, more than it can be in.
const CLIENT_BURST_S: u32 = 60;
/// New rooms of a token subject for each new room of a client.
const CLIENTS_OF_SUBJECT: u32 = 4;
/// Seconds of its new rooms that a token subject may use at once: 1,000 rooms at the usual rate.
const SUBJECT_BURST_S: u32 = 50;
/// Bytes of an answer with members that cost as much as one member that receives a change.
const BYTES_PER_MEMBER: u64 = 64;
/// Maximum bytes of a broadcast's text at which a member counts once: most session descriptions.
/// Each copy of a larger one keeps a trunk busy for longer, so that others' messages wait.
const BYTES_PER_COPY: usize = 4 * 1024;

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Returns the time until all budgets allow a `join` or `members`, which cost at least 1, with
    /// the last budget. `None`: it may be sent now. `has_seat`: its client has a seat in the room,
    /// so the room is not new.
    pub(super) fn check_rates(&self, command: &Command<M>, has_seat: bool) -> Option<(Duration, BudgetKind)> {
        let session = self.cx.socket(command.key)?;
        let client = session.client_id.as_str();
        let fan_out = self.local.settings.broadcast_rate.map(|rate| (fan_out_budget(session), rate));
        let may_create = matches!(command.kind, CommandKind::Join { .. }) && !has_seat;
        let new_rooms = new_room_budgets(self.local.settings.new_rooms, client, session.grant);
        let budgets = new_rooms.filter(|_| may_create).chain(fan_out);
        budgets.filter_map(|(of, rate)| Some((self.local.budgets.wait(self.now, of, rate, 1)?, of.0))).max()
    }

    /// Returns the refusal of a session's first command, above a budget that allows it after
    /// `wait`. `None`: it is delayed. That of a dialect's client waits, as the client knows no
    /// refusals. Nothing slows a client down that is gone, so its commands do not wait.
    pub(super) fn delay_or_refuse(
        &mut self,
        session: SessionId,
        command: &Command<M>,
        (wait, kind): (Duration, BudgetKind),
    ) -> Option<Refusal> {
        if self.cx.socket(command.key).is_some_and(|socket| socket.is_of_dialect() && !socket.socket_ended) {
            self.delay_command(session, command, wait);
            return None;
        }
        Some(rate_limited(kind, wait))
    }

    /// Charges a join or leave to its client, and a new room to the subject of its token too.
    pub(super) fn charge(&mut self, purpose: &Purpose, (room, op): (&RoomName, &Operation), result: &OpResult) {
        let (Operation::Join { requester, .. } | Operation::Leave { requester }) = op else { return };
        let client = requester.client.as_str();
        let key = if let Purpose::Command { key, .. } = *purpose { Some(key) } else { None };
        if RoomOptions::of(room).events != RoomEvents::None {
            self.charge_fan_out(key, client, result.informed);
        }
        if result.created {
            let session = key.and_then(|key| self.cx.socket(key));
            let grant = session.and_then(|session| session.grant);
            for (of, rate) in new_room_budgets(self.local.settings.new_rooms, client, grant) {
                self.local.budgets.pay(self.now, of, rate, 1);
            }
        }
    }

    pub(super) fn charge_answer(&mut self, session: SessionId, text: &[u8]) {
        let Some(client) = self.local.sessions.get(&session).map(|known| known.client.clone()) else { return };
        let key = self.cx.holder(client.as_str()).map(|(key, _)| key);
        self.charge_fan_out(key, client.as_str(), (text.len() as u64).div_ceil(BYTES_PER_MEMBER));
    }

    /// Charges members that receive something because of a client, with its session `key`.
    pub(super) fn charge_fan_out(&mut self, key: Option<SocketKey>, client: &str, members: u64) {
        if let Some(rate) = self.local.settings.broadcast_rate {
            let session = key.and_then(|key| self.cx.socket(key));
            let budget = session.map_or((BudgetKind::FanOut, client), fan_out_budget);
            self.local.budgets.pay(self.now, budget, rate, members);
        }
    }
}

/// Returns the cost of a broadcast whose text has `bytes`: for each member, one for each started
/// 4 KiB.
pub(super) fn broadcast_cost(members: u64, bytes: usize) -> u64 {
    members.saturating_mul(bytes.div_ceil(BYTES_PER_COPY) as u64)
}

/// Returns the budget of members that receive something because of a session: of its token's
/// subject, or of its client without one.
pub(super) fn fan_out_budget<'a>(session: Socket<'a>) -> (BudgetKind, &'a str) {
    let subject = session.grant.and_then(|grant| grant.subject.as_deref());
    (BudgetKind::FanOut, subject.unwrap_or(session.client_id.as_str()))
}

/// Returns the budgets of new rooms with their rates: of the client, and of the subject of its
/// token. Empty without a limit. `usual`: rooms per second of a client without a rate class.
fn new_room_budgets<'a>(
    usual: Option<u32>,
    client: &'a str,
    grant: Option<&'a Grant>,
) -> impl Iterator<Item = ((BudgetKind, &'a str), Rate)> {
    let rooms = grant.and_then(|grant| grant.new_rooms).or(usual).filter(|&rooms| rooms > 0);
    let rate = |per_second: u32, seconds| Rate { per_second, burst: per_second.saturating_mul(seconds) };
    let of_client = rooms.map(|rooms| ((BudgetKind::ClientRooms, client), rate(rooms, CLIENT_BURST_S)));
    let of_subject = rooms.zip(grant.and_then(|grant| grant.subject.as_deref())).map(|(rooms, subject)| {
        let rooms = rooms.saturating_mul(CLIENTS_OF_SUBJECT);
        ((BudgetKind::SubjectRooms, subject), rate(rooms, SUBJECT_BURST_S))
    });
    of_client.into_iter().chain(of_subject)
}

pub(super) fn rate_limited(kind: BudgetKind, wait: Duration) -> Refusal {
    let message = match kind {
        BudgetKind::FanOut => "your requests reach more members per second than allowed: wait for `retry_after_ms`",
        BudgetKind::ClientRooms => "you make more new rooms per second than allowed: wait for `retry_after_ms`",
        BudgetKind::SubjectRooms => {
            "clients of your token's subject make more new rooms per second than allowed: wait for `retry_after_ms`"
        }
    };
    Refusal { code: ErrorCode::RateLimited, message, retry_after_ms: Some(whole_ms(wait)) }
}
