//! Parser of script answers for [`RedisStore`](super::RedisStore).

use redis::{FromRedisValue, Value};
use signaling_protocol::{ClientId, NodeId};

use crate::{Change, LeftReason, Member, OpResult, SeatStatus, StoreError};

/// Version, capacity (0: no limit), number of members, number of waiting clients, `queue_moved`,
/// `more`, `settling` and incarnation, as [`OpResult`] has them.
type Numbers = (u64, u32, u64, u64, bool, bool, bool, u64);
type Statuses = Vec<(u8, u64, u64)>;
type Changes = Vec<(u8, String, String)>;
type Fields = (Numbers, Statuses, Changes, Vec<(String, String)>, Vec<String>);

/// Parses the answer of `end.lua`. Fails if it has another form or an invalid name. The result has
/// epoch 0 and is not `created`: only rooms that nodes own have these.
pub(super) fn result(answer: Value) -> Result<OpResult, StoreError> {
    let fields = Fields::from_redis_value(answer).map_err(StoreError::new)?;
    let (numbers, statuses, changes, members, nodes) = fields;
    let (version, capacity, count, waiting, queue_moved, more, settling, incarnation) = numbers;
    let mut nodes: Vec<_> =
        nodes.iter().map(|node| NodeId::new(node)).collect::<Result<_, _>>().map_err(StoreError::new)?;
    nodes.sort_unstable();
    let result = OpResult {
        incarnation,
        version,
        capacity: Some(capacity).filter(|&capacity| capacity > 0),
        count,
        waiting,
        changes: changes.into_iter().map(change).collect::<Result<_, _>>()?,
        queue_moved,
        nodes,
        statuses: statuses.into_iter().map(status).collect(),
        members: members.into_iter().map(|(client, data)| member(&client, data)).collect::<Result<_, _>>()?,
        more,
        settling,
        ..OpResult::default()
    };
    Ok(result.with_informed())
}

fn status((kind, place, ahead): (u8, u64, u64)) -> SeatStatus {
    match kind {
        0 => SeatStatus::Member { place },
        1 => SeatStatus::Waiting { place, ahead },
        2 => SeatStatus::Out,
        _ => SeatStatus::Unknown,
    }
}

fn change((kind, client, data): (u8, String, String)) -> Result<Change, StoreError> {
    let member = member(&client, data)?;
    Ok(match kind {
        1 => Change::Joined(member),
        2 => Change::Left { client: member.client, reason: LeftReason::Left },
        _ => Change::Left { client: member.client, reason: LeftReason::Expired },
    })
}

fn member(client: &str, data: String) -> Result<Member, StoreError> {
    let client = ClientId::new(client).map_err(StoreError::new)?;
    Ok(Member { client, data: Some(data).filter(|data| !data.is_empty()).map(String::into_boxed_str) })
}
