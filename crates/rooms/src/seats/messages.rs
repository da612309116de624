//! JSON texts about rooms for clients, and room changes for other nodes.

use serde_json::value::RawValue;
use signaling_protocol::rooms::{Former, Member};
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ClientId, RoomName};
use signaling_wire::seats::RoomChange;

use super::change_sequencer::Announcement;
use crate::{Change, LeftReason, OpResult};

/// Bytes with which a part of a room's changes is full. Its last change adds at most about 4 KiB,
/// and clients accept 64 KiB by default.
const PART_BYTES: usize = 48 * 1024;

/// Returns the number of changes that make one part of about 48 KiB.
pub(super) fn part<'a>(changes: impl Iterator<Item = &'a Change>) -> usize {
    let mut bytes = 0;
    let fits = |change: &&Change| {
        let fits = bytes == 0 || bytes < PART_BYTES;
        bytes += match change {
            Change::Joined(member) => member.client.as_str().len() + member.data.as_deref().map_or(0, str::len) + 40,
            Change::Left { client, .. } => client.as_str().len() + 40,
        };
        fits
    };
    changes.take_while(fits).count()
}

pub(super) fn to_wire(change: &Change) -> RoomChange<'_> {
    match change {
        Change::Joined(member) => {
            RoomChange::Joined { client_id: member.client.as_str(), data: member.data.as_deref() }
        }
        Change::Left { client, reason: LeftReason::Expired } => RoomChange::Expired(client.as_str()),
        Change::Left { client, reason: LeftReason::Removed } => RoomChange::Removed(client.as_str()),
        Change::Left { client, reason: LeftReason::Closed } => RoomChange::Closed(client.as_str()),
        Change::Left { client, .. } => RoomChange::Left(client.as_str()),
    }
}

/// Reads a change from another node. `None`: its client id is invalid.
pub(crate) fn change_from_wire(change: &RoomChange<'_>) -> Option<Change> {
    let client = |name: &str| ClientId::new(name).ok();
    let left = |name, reason| Some(Change::Left { client: client(name)?, reason });
    Some(match *change {
        RoomChange::Joined { client_id, data } => {
            Change::Joined(crate::Member { client: client(client_id)?, data: data.map(Box::from) })
        }
        RoomChange::Left(client_id) => left(client_id, LeftReason::Left)?,
        RoomChange::Expired(client_id) => left(client_id, LeftReason::Expired)?,
        RoomChange::Removed(client_id) => left(client_id, LeftReason::Removed)?,
        RoomChange::Closed(client_id) => left(client_id, LeftReason::Closed)?,
    })
}

fn member(member: &crate::Member) -> Member<'_> {
    // The data was valid JSON when the client sent it.
    let data = member.data.as_deref().and_then(|data| serde_json::from_str::<&RawValue>(data).ok());
    Member { client_id: member.client.as_str(), data }
}

/// Returns the state of a room for a member, with the page of members behind `after`.
pub(super) fn joined(room: &RoomName, result: &OpResult, after: Option<&ClientId>) -> Vec<u8> {
    let members: Vec<_> = result.members.iter().map(member).collect();
    let OpResult { version, capacity, count, more, .. } = *result;
    let after = after.map(ClientId::as_str);
    ServerMessage::Joined { room: room.as_str(), version, capacity, count, members: &members, more, after }.to_json()
}

pub(super) fn waiting(room: &RoomName, ahead: u64, queue_length: u64) -> Vec<u8> {
    ServerMessage::Waiting { room: room.as_str(), ahead, queue_length }.to_json()
}

pub(super) fn left(room: &RoomName, reason: LeftReason) -> Vec<u8> {
    ServerMessage::Left { room: room.as_str(), reason }.to_json()
}

/// Returns `true` if the client `own` left by a change after version `sent`.
pub(super) fn has_left(due: &Announcement, sent: u64, own: &ClientId) -> bool {
    let is_leave = |change: &Change| matches!(change, Change::Left { client, .. } if client == own);
    due.changes.iter().any(|(version, change)| *version > sent && is_leave(change))
}

/// Returns the messages with the changes that a client with version `sent` misses, without those of
/// the client `own`.
pub(super) fn members_changed(room: &RoomName, due: &Announcement, sent: u64, own: Option<&ClientId>) -> Vec<Vec<u8>> {
    let missed = &due.changes[due.changes.partition_point(|(version, _)| *version <= sent)..];
    let missed: Vec<_> = missed.iter().filter(|(_, change)| own != Some(change.client())).collect();
    let mut rest = &missed[..];
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(part(rest.iter().map(|(_, change)| change)));
        let version = match part.last() {
            Some((version, _)) if !behind.is_empty() => *version,
            _ => due.version,
        };
        let (mut joined, mut left) = (Vec::new(), Vec::new());
        for (_, change) in part {
            match change {
                Change::Joined(new) => joined.push(member(new)),
                Change::Left { client, reason } => left.push(Former { client_id: client.as_str(), reason: *reason }),
            }
        }
        let changed = ServerMessage::MembersChanged { room: room.as_str(), version, joined: &joined, left: &left };
        messages.push(changed.to_json());
        rest = behind;
    }
    messages
}
