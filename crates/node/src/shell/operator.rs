//! Operators' routes: where a client is, how things stand in a room, and how many it holds.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use signaling_protocol::{ClientId, NameError, RoomName};
use signaling_rooms::{Op, Outcome, RedisRegistry, Registry as _, Request, StoreError};
use signaling_server::http::refusal;
use tokio::sync::{mpsc, oneshot};

use super::rooms::Errand;

/// When to ask again while the store is away.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Desk {
    errands: mpsc::Sender<Errand>,
    registry: Option<RedisRegistry>,
}

/// `GET /rooms/ROOM[?after=CLIENT]`, `PUT /rooms/ROOM/capacity`, `DELETE /rooms/ROOM/capacity` and `GET /clients/CLIENT`.
pub fn router(errands: mpsc::Sender<Errand>, registry: Option<RedisRegistry>) -> Router {
    Router::new()
        .route("/rooms/{room}", get(show_room))
        .route("/rooms/{room}/capacity", put(set_capacity).delete(reset_capacity))
        .route("/clients/{client}", get(find_client))
        .with_state(Desk { errands, registry })
}

impl Desk {
    async fn ask(&self, room: RoomName, op: Op) -> Result<Outcome, StoreError> {
        let (reply, answer) = oneshot::channel();
        let stopped = |_| StoreError("this node stops".into());
        if self.errands.send((Request { room, op }, reply)).await.is_err() {
            return Err(StoreError("this node stops".into()));
        }
        answer.await.map_err(stopped)?
    }
}

#[derive(Deserialize)]
struct Page {
    after: Option<String>,
}

#[derive(Deserialize)]
struct Capacity {
    capacity: u32,
}

async fn show_room(State(desk): State<Desk>, Path(room): Path<String>, Query(page): Query<Page>) -> Response {
    let after = page.after.as_deref().map(ClientId::new).transpose();
    match (RoomName::new(&room), after) {
        (Ok(room), Ok(after)) => answer(&room.clone(), desk.ask(room, Op::List { after }).await),
        (Err(error), _) | (_, Err(error)) => bad_name(&error),
    }
}

async fn set_capacity(State(desk): State<Desk>, Path(room): Path<String>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(Capacity { capacity }) => change_capacity(&desk, &room, Some(capacity)).await,
        Err(error) => {
            let message = format!("send {{\"capacity\":N}}, 0 for no limit: {error}");
            refusal(StatusCode::BAD_REQUEST, "bad_request", &message, None)
        }
    }
}

async fn reset_capacity(State(desk): State<Desk>, Path(room): Path<String>) -> Response {
    change_capacity(&desk, &room, None).await
}

async fn change_capacity(desk: &Desk, room: &str, capacity: Option<u32>) -> Response {
    match RoomName::new(room) {
        Ok(room) => answer(&room.clone(), desk.ask(room, Op::SetCapacity { capacity }).await),
        Err(error) => bad_name(&error),
    }
}

async fn find_client(State(desk): State<Desk>, Path(client): Path<String>) -> Response {
    let Some(registry) = &desk.registry else {
        let message = "there is no registry without --room-store redis://...";
        return refusal(StatusCode::NOT_FOUND, "no_registry", message, None);
    };
    let client = match ClientId::new(&client) {
        Ok(client) => client,
        Err(error) => return bad_name(&error),
    };
    match registry.find(&client).await {
        Ok(Some(entry)) => {
            let (node, session, since_ms) = (entry.node.as_str(), entry.session, entry.since);
            Json(json!({ "client_id": client.as_str(), "node": node, "session": session, "since_ms": since_ms }))
                .into_response()
        }
        Ok(None) => refusal(StatusCode::NOT_FOUND, "no_such_client", "no node serves this client now", None),
        Err(error) => unavailable(&error),
    }
}

fn answer(room: &RoomName, outcome: Result<Outcome, StoreError>) -> Response {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return unavailable(&error),
    };
    let data = |data: &str| serde_json::from_str::<Box<RawValue>>(data).ok();
    let member = |member: &signaling_rooms::Member| {
        let data = member.data.as_deref().and_then(data);
        json!({ "client_id": member.client.as_str(), "data": data })
    };
    let Outcome { version, capacity, count, waiting, more, .. } = outcome;
    let members: Vec<_> = outcome.members.iter().map(member).collect();
    let room = room.as_str();
    Json(json!({ "room": room, "version": version, "capacity": capacity, "count": count, "waiting": waiting,
                 "members": members, "more": more }))
    .into_response()
}

fn bad_name(error: &NameError) -> Response {
    refusal(StatusCode::BAD_REQUEST, "bad_name", &error.to_string(), None)
}

fn unavailable(error: &StoreError) -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "room_store_unavailable", &error.to_string(), Some(RETRY_AFTER))
}
