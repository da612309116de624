//! Explanations of the placement of clients and rooms.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use signaling_admin::explain::{
    Candidate, ClientOnNode, Explanation, Held, JournalWrite, LingeringOnNode, OwnedRoom, Queue, RoomAtNode,
    RoomExplanation, SeatOnNode, SeatStatus as ReportedSeatStatus, SessionOnNode, scores,
};
use signaling_admin::rooms::RoomOnNode;
use signaling_core::node::{NodeCore, SessionReport};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::SeatStatus;
use signaling_server::admin::handlers::{QueryResult, query, view_name};
use signaling_server::http::Refused;
use signaling_server::local_calls::Stopped;
use tokio::time::sleep;

use super::{Here, OperatorApi};

/// Pause before the second request, longer than a client's handoff between nodes.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Serves `GET /admin/explain/CLIENT`.
pub(super) async fn explain(
    State(api): State<OperatorApi>,
    Path(name): Path<String>,
    parsed: QueryResult<Here>,
) -> Result<Json<Explanation>, Refused> {
    let (client, Here { here }) = (ClientId::new(&name)?, query(parsed)?);
    Ok(Json(if here { ask(&api, &client, true).await? } else { everywhere(&api, &client).await? }))
}

/// Explains a client by this node's view and the reports of all nodes. Nodes answer at different
/// times, so a client in a handoff may be missing everywhere. Then all nodes are asked once more.
pub(super) async fn everywhere(api: &OperatorApi, client: &ClientId) -> Result<Explanation, Stopped> {
    let first = ask(api, client, false).await?;
    let is_nowhere = first.missing.is_empty() && !first.is_known();
    if !is_nowhere {
        return Ok(first);
    }
    sleep(RETRY_DELAY).await;
    ask(api, client, false).await
}

async fn ask(api: &OperatorApi, client: &ClientId, is_here_alone: bool) -> Result<Explanation, Stopped> {
    let (path, client) = (format!("explain/{}?here=true", client.as_str()), client.clone());
    let own = move |core: &NodeCore| of_core(core, Instant::now(), &client);
    let (mut explanation, others, missing) = api.collect(is_here_alone, &path, own).await?;
    explanation.nodes.extend(others.into_iter().flat_map(|other| other.nodes));
    explanation.nodes.sort_by(|a, b| a.node.cmp(&b.node));
    explanation.missing = missing;
    explanation.why = explanation.sentence();
    Ok(explanation)
}

/// Explains a client by the state of this node alone, still without a summary.
fn of_core(core: &NodeCore, now: Instant, client: &ClientId) -> Explanation {
    let (own, view) = (&core.settings().id, core.peers().view());
    let (owner, stand_in) = core.owners(client);
    let members = view.members().iter().map(|member| member.id.as_str());
    let candidate = |(node, score): (String, String)| Candidate {
        eligible: core.peers().is_eligible(&node),
        draining: (core.peers().is_draining() && node == own.as_str())
            || view.get(&node).is_some_and(|member| member.draining),
        suspect: core.peers().suspects().any(|suspect| suspect.as_str() == node),
        node,
        score,
    };
    Explanation {
        client_id: client.as_str().to_owned(),
        asked: own.as_str().to_owned(),
        view: view_name(view),
        owner: owner.map(NodeId::to_string),
        stand_in: stand_in.map(NodeId::to_string),
        ranking: scores(core.settings().hash_seed, members, client.as_str()).into_iter().map(candidate).collect(),
        nodes: client_at(core, now, client).into_iter().collect(),
        ..Explanation::default()
    }
}

/// Returns this node's state of a client, if any.
fn client_at(core: &NodeCore, now: Instant, client: &ClientId) -> Option<ClientOnNode> {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (session, lingering) = (core.session(client), core.lingering_session(now, client));
    let (held, located) = (core.held_for(client), core.location_of(client));
    if session.is_none() && lingering.is_none() && held.is_none() && located.is_none() {
        return None;
    }
    let id = session.map(|session| session.id).or(lingering.map(|(session, _)| session));
    Some(ClientOnNode {
        node: core.settings().id.to_string(),
        session: session.map(|session| session_at(session, core.pending(client))),
        lingering: lingering.map(|(session, left)| LingeringOnNode { session: session.to_string(), left_ms: ms(left) }),
        held: held.map(|(messages, bytes, expires)| Held {
            messages,
            bytes,
            first_expires_ms: ms(expires.saturating_duration_since(now)),
        }),
        located: located.map(NodeId::to_string),
        rooms: id.into_iter().flat_map(|session| core.rooms().seats_of(session)).map(seat_at).collect(),
    })
}

fn session_at(session: SessionReport<'_>, (recipients, without_outcome): (usize, usize)) -> SessionOnNode {
    let (messages, bytes) = session.unconfirmed;
    SessionOnNode {
        session: session.id.to_string(),
        generation: session.rank.0,
        since_ms: session.since_ms,
        reliable: session.id.is_reliable(),
        resumed: session.resumed,
        edge: session.edge.map(str::to_owned),
        slot: u64::from(session.slot),
        unconfirmed: Queue { messages, bytes },
        backlog: session.has_backlog,
        without_outcome,
        recipients,
        commands: session.commands,
        broadcasts: session.broadcasts,
        contended: session.is_contended,
    }
}

fn seat_at((room, status): (&RoomName, &SeatStatus)) -> SeatOnNode {
    let (status, ahead) = match *status {
        SeatStatus::Member { .. } => (ReportedSeatStatus::Member, None),
        SeatStatus::Waiting { ahead, .. } => (ReportedSeatStatus::Waiting, Some(ahead)),
        SeatStatus::Out(_) | SeatStatus::Unknown => (ReportedSeatStatus::Unknown, None),
    };
    SeatOnNode { room: room.as_str().to_owned(), status, ahead }
}

/// Serves `GET /admin/rooms/ROOM/explain`.
pub(super) async fn room(
    State(api): State<OperatorApi>,
    Path(name): Path<String>,
    parsed: QueryResult<Here>,
) -> Result<Json<RoomExplanation>, Refused> {
    let (room, Here { here }) = (RoomName::new(&name)?, query(parsed)?);
    let path = format!("rooms/{room}/explain?here=true");
    let (mut explanation, others, missing) = api.collect(here, &path, move |core| room_of_core(core, &room)).await?;
    explanation.nodes.extend(others.into_iter().flat_map(|other| other.nodes));
    explanation.nodes.sort_by(|a, b| a.node.cmp(&b.node));
    explanation.missing = missing;
    explanation.why = explanation.sentence();
    Ok(Json(explanation))
}

/// Explains a room by the state of this node alone, still without a summary.
fn room_of_core(core: &NodeCore, room: &RoomName) -> RoomExplanation {
    let (settings, view) = (core.settings(), core.peers().view());
    // Unlike a client, a room has no stand-in: its owner follows from the view alone.
    let all_drain = view.members().iter().all(|member| member.draining);
    let candidate = |(node, score): (String, String)| {
        let draining = view.get(&node).is_some_and(|member| member.draining);
        let suspect = core.peers().suspects().any(|suspect| suspect.as_str() == node);
        Candidate { eligible: all_drain || !draining, draining, suspect, node, score }
    };
    let members = view.members().iter().map(|member| member.id.as_str());
    let ranking: Vec<_> = scores(settings.hash_seed, members, room.as_str()).into_iter().map(candidate).collect();
    let owner = ranking.iter().find(|node| node.eligible).map(|node| node.node.clone());
    let (members, waiting) = core.rooms().counts_of(room.as_str()).unwrap_or_default();
    let at = RoomAtNode {
        node: settings.id.to_string(),
        view: view_name(view),
        members,
        waiting,
        unconfirmed: core.rooms().unconfirmed_members().map(ToString::to_string).collect(),
        majority: core.rooms().has_majority(),
        owned: owned_room(core, room),
    };
    RoomExplanation {
        room: room.to_string(),
        asked: settings.id.to_string(),
        view: view_name(view),
        owner,
        ranking,
        nodes: vec![at],
        ..RoomExplanation::default()
    }
}

fn owned_room(core: &NodeCore, name: &RoomName) -> Option<OwnedRoom> {
    let room = core.rooms().owned(name.as_str())?;
    let mut by_node: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (seat, _) in room.seats(&core.settings().rooms.rules) {
        let (members, waiting) = by_node.entry(seat.requester.node.as_str()).or_default();
        *(if seat.status.is_member() { members } else { waiting }) += 1;
    }
    let on_node = |(node, (members, waiting)): (&str, _)| RoomOnNode { node: node.to_owned(), members, waiting };
    let (stamp, (members, waiting)) = (room.stamp(), room.counts());
    let (incarnation, version) = (stamp.incarnation, stamp.version);
    let backup = core.rooms().backup_of(name.as_str()).map(ToString::to_string);
    let nodes = by_node.into_iter().map(on_node).collect();
    let journal = core.rooms().journal_place(name.as_str()).map(|(epoch, number)| JournalWrite { epoch, number });
    Some(OwnedRoom { journal, backup, incarnation, version, members, waiting, nodes })
}
