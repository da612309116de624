//! Rooms for operators: lists, members, counts, capacities, removals, blocks and closures.
//! Requests to the owners of rooms are queued in the core, which returns the answers.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use http::StatusCode;
use serde::Deserialize;
use signaling_admin::rooms::{MAX_PAGE, Member, Removed, Room, RoomOnNode, RoomRow, Rooms};
use signaling_admin::{Page, PageQuery};
use signaling_core::node::NodeCore;
use signaling_protocol::ids::is_reserved;
use signaling_protocol::{ClientId, RoomName};
use signaling_rooms::{OpRefusal, OpResult, Operation, Request, SeatStatus, Unavailable};
use signaling_server::admin::handlers::{QueryResult, bad_request, query};
use signaling_server::http::Refused;
use signaling_wire::rate::whole_ms;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::info;

use super::{OperatorApi, page};
use crate::Node;

/// Sender of the answer to a room request of an operator.
pub(crate) type OperatorReply = oneshot::Sender<Result<OpResult, Unavailable>>;

/// Maximum room requests of operators without an answer.
const MAX_OPERATOR_REQUESTS: usize = 64;
/// Maximum time of a block or closure. A room without clients is kept for as long.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);
/// Retry delay sent to operators while a room's owner is unavailable.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Time limit of the owners for the counts of one page.
const COUNTS_TIMEOUT: Duration = Duration::from_secs(2);

impl Node {
    /// Queues a room request of an operator. `reply` gets the answer once the core has it, or an
    /// error at once while 64 requests have none.
    fn request_room(&self, request: Request, reply: OperatorReply) {
        let number = {
            let mut state = self.0.borrow_mut();
            if state.operator_replies.len() >= MAX_OPERATOR_REQUESTS {
                let _ = reply.send(Err(Unavailable("too many requests of operators".into())));
                return;
            }
            state.last_operator_request += 1;
            let number = state.last_operator_request;
            state.operator_replies.insert(number, reply);
            number
        };
        self.with_core(|core| core.rooms_mut().request_for_operator(number, request));
    }
}

impl OperatorApi {
    async fn ask_owner(&self, room: RoomName, op: Operation) -> Result<OpResult, Unavailable> {
        let stops = || Unavailable("this node stops".into());
        let (reply, answer) = oneshot::channel();
        let request = Request { room, op };
        self.floor.ask(move |floor| floor.node.request_room(request, reply)).await.map_err(|_| stops())?;
        answer.await.map_err(|_| stops())?
    }
}

/// Serves `GET /admin/rooms`: a page of rooms with seats, with their counts if known within 2 s.
pub(super) async fn list(
    State(api): State<OperatorApi>,
    parsed: QueryResult<PageQuery>,
) -> Result<Json<Rooms>, Refused> {
    let (page, is_here_alone) = page(parsed, MAX_PAGE)?;
    let (path, asked) = (format!("rooms?{}", page.query()), page.clone());
    let (own, mut nodes, missing) = api.collect(is_here_alone, &path, move |core| here(core, &asked)).await?;
    nodes.push(own);
    let mut rooms = Rooms::merge(&page, nodes, missing);
    if !is_here_alone {
        // Rooms beyond the time limit stay without a count.
        let _ = timeout(COUNTS_TIMEOUT, set_counts(&api, &mut rooms.rooms)).await;
    }
    Ok(Json(rooms))
}

/// Returns a page of the rooms with seats of this node's clients.
fn here(core: &NodeCore, page: &Page) -> Rooms {
    let (names, more) = page.pick(core.rooms().names_after(page.after()).map(RoomName::as_str));
    let row = |name: &&str| {
        let (members, waiting) = core.rooms().counts_of(name)?;
        Some(RoomRow::on_node(name, RoomOnNode { node: core.settings().id.as_str().to_owned(), members, waiting }))
    };
    let next = names.last().filter(|_| more).map(|name| (*name).to_owned());
    Rooms { rooms: names.iter().filter_map(row).collect(), next, missing: Vec::new() }
}

/// Fills in the member counts from the owners, until one fails.
async fn set_counts(api: &OperatorApi, rooms: &mut [RoomRow]) {
    for row in rooms {
        let Ok(room) = RoomName::new(&row.room) else { continue };
        // A claim without seats only ends expired seats and admits waiting clients.
        let Ok(result) = api.ask_owner(room, Operation::Claim { seats: Vec::new() }).await else { return };
        let OpResult { count, waiting, capacity, .. } = result;
        (row.members, row.waiting, row.capacity, row.from_owner) = (count, waiting, capacity, true);
    }
}

/// Query `?after=CLIENT`: the page begins after this member; absent or empty: with the first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MembersQuery {
    after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Capacity {
    capacity: u32,
}

/// Time from now on, in milliseconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Time {
    for_ms: u64,
}

/// Serves `GET /admin/rooms/ROOM`. Refuses it by 503 `room_unavailable` if the owner fails,
/// like the other requests for one room.
pub(super) async fn show(
    State(api): State<OperatorApi>,
    Path(room): Path<String>,
    parsed: QueryResult<MembersQuery>,
) -> Result<Json<Room>, Refused> {
    let after = query(parsed)?.after.filter(|after| !after.is_empty());
    let after = after.as_deref().map(ClientId::new).transpose()?;
    ask(&api, &room, Operation::List { after }).await
}

/// Serves `PUT /admin/rooms/ROOM/capacity`, except for reserved names (400).
pub(super) async fn set_capacity(
    State(api): State<OperatorApi>,
    Path(room): Path<String>,
    body: Bytes,
) -> Result<Json<Room>, Refused> {
    let Capacity { capacity } = serde_json::from_slice(&body)
        .map_err(|error| bad_request(format!("send {{\"capacity\":N}}, 0 for no limit: {error}")))?;
    if is_reserved(&room) {
        return Err(bad_request(
            "a room whose name begins with `~` has its capacity in its name; name another room".to_owned(),
        ));
    }
    ask(&api, &room, Operation::SetCapacity { capacity: Some(capacity) }).await
}

/// Serves `DELETE /admin/rooms/ROOM/capacity`: the room then has the capacity of the mesh.
pub(super) async fn reset_capacity(
    State(api): State<OperatorApi>,
    Path(room): Path<String>,
) -> Result<Json<Room>, Refused> {
    ask(&api, &room, Operation::SetCapacity { capacity: None }).await
}

/// Serves `DELETE /admin/rooms/ROOM/members/CLIENT`: ends a seat, also in the waiting queue.
pub(super) async fn remove(
    State(api): State<OperatorApi>,
    Path((room, client)): Path<(String, String)>,
) -> Result<Json<Removed>, Refused> {
    end_seat(&api, (&room, &client), None).await
}

/// Serves `PUT /admin/rooms/ROOM/blocks/CLIENT`: ends a seat, and refuses the client's joins for a
/// time of at most 24 h. Refuses it by 409 `too_many` if 1,000 others are blocked.
pub(super) async fn block(
    State(api): State<OperatorApi>,
    Path((room, client)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Removed>, Refused> {
    end_seat(&api, (&room, &client), Some(time(&body)?)).await
}

/// Serves `DELETE /admin/rooms/ROOM/blocks/CLIENT`.
pub(super) async fn unblock(
    State(api): State<OperatorApi>,
    Path((room, client)): Path<(String, String)>,
) -> Result<Json<Room>, Refused> {
    let client = ClientId::new(&client)?;
    let answer = ask(&api, &room, Operation::Unblock { client: client.clone() }).await?;
    info!(room = %room, client = %client, "client unblocked by operator");
    Ok(answer)
}

/// Serves `PUT /admin/rooms/ROOM/closed`: ends all seats and refuses joins, for a time of at most
/// 24 h, or without an end if the body is empty.
pub(super) async fn close(
    State(api): State<OperatorApi>,
    Path(room): Path<String>,
    body: Bytes,
) -> Result<Json<Room>, Refused> {
    let time = if body.is_empty() { None } else { Some(time(&body)?) };
    let answer = ask(&api, &room, Operation::Close { time }).await?;
    info!(room = %room, for_ms = time.map(|time| time.as_millis()), "room closed by operator");
    Ok(answer)
}

/// Serves `DELETE /admin/rooms/ROOM/closed`.
pub(super) async fn open(State(api): State<OperatorApi>, Path(room): Path<String>) -> Result<Json<Room>, Refused> {
    let answer = ask(&api, &room, Operation::Open).await?;
    info!(room = %room, "room opened by operator");
    Ok(answer)
}

fn time(body: &[u8]) -> Result<Duration, Refused> {
    let time = serde_json::from_slice(body).map(|Time { for_ms }| Duration::from_millis(for_ms));
    let is_allowed = |time: &Duration| !time.is_zero() && *time <= MAX_TIME;
    time.ok()
        .filter(is_allowed)
        .ok_or_else(|| bad_request(format!("send {{\"for_ms\":N}}, from 1 to {}", MAX_TIME.as_millis())))
}

async fn end_seat(
    api: &OperatorApi,
    (room, client): (&str, &str),
    block: Option<Duration>,
) -> Result<Json<Removed>, Refused> {
    let (room, client) = (RoomName::new(room)?, ClientId::new(client)?);
    let result = result(api, &room, Operation::Remove { client: client.clone(), block }).await?;
    let status = result.statuses.first();
    if block.is_none() && result.settling && status == Some(&SeatStatus::Unknown) {
        return Err(unavailable("nodes may still restore the client's seat".to_owned()));
    }
    let was_here = status.is_some_and(|status| status.end_by_operator().is_some());
    match block {
        Some(time) => {
            info!(room = %room, client = %client, was_here, for_ms = time.as_millis(), "client blocked by operator");
        }
        None if was_here => info!(room = %room, client = %client, "client removed from room by operator"),
        None => {}
    }
    Ok(Json(Removed { room: room.as_str().to_owned(), client_id: client.as_str().to_owned(), was_here }))
}

async fn result(api: &OperatorApi, room: &RoomName, op: Operation) -> Result<OpResult, Refused> {
    let result = api.ask_owner(room.clone(), op).await.map_err(|error| unavailable(error.to_string()))?;
    match result.refused {
        None => Ok(result),
        Some(OpRefusal::NoBytes) => Err(Refused {
            retry_after: Some(RETRY_AFTER),
            ..Refused::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "rooms have no memory left for a block")
        }),
        Some(OpRefusal::TooManyBlocks | OpRefusal::Blocked { .. } | OpRefusal::Closed { .. }) => {
            Err(Refused::new(StatusCode::CONFLICT, "too_many", "1,000 clients are blocked: unblock one"))
        }
    }
}

fn unavailable(why: String) -> Refused {
    Refused { retry_after: Some(RETRY_AFTER), ..Refused::new(StatusCode::SERVICE_UNAVAILABLE, "room_unavailable", why) }
}

async fn ask(api: &OperatorApi, room: &str, op: Operation) -> Result<Json<Room>, Refused> {
    let room = RoomName::new(room)?;
    let result = result(api, &room, op).await?;
    let OpResult { version, capacity, count, waiting, blocks, closed, closed_for, more, members, .. } = result;
    let closed_for_ms = closed_for.map(whole_ms);
    let member = |member: signaling_rooms::Member| Member {
        client_id: member.client.as_str().to_owned(),
        data: member.data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or_default(),
    };
    let (room, members) = (room.as_str().to_owned(), members.into_iter().map(member).collect());
    Ok(Json(Room { room, version, capacity, count, waiting, blocks, closed, closed_for_ms, members, more }))
}
