//! Messages to clients, as JSON texts.

use super::peer::{Kind, Peer};
use crate::json::quote;

pub(super) const IDENTIFY: &str = r#"{"type":"identify"}"#;
pub(super) const STREAMER_DISCONNECTED: &str = r#"{"type":"streamerDisconnected"}"#;

/// Returns the message with the ICE servers, which each client gets once. `ice_servers`: a JSON
/// array.
pub(super) fn config(ice_servers: &str) -> String {
    format!(r#"{{"type":"config","peerConnectionOptions":{{"iceServers":{ice_servers}}},"protocolVersion":"1.3.0"}}"#)
}

pub(super) fn endpoint_id_confirm(id: &str) -> String {
    format!(r#"{{"type":"endpointIdConfirm","committedId":{}}}"#, quote(id))
}

/// Returns a list of ids, which are JSON strings.
pub(super) fn streamer_list(quoted_ids: &[String]) -> String {
    format!(r#"{{"type":"streamerList","ids":[{}]}}"#, quoted_ids.join(","))
}

pub(super) fn subscribe_failed(message: &str) -> String {
    format!(r#"{{"type":"subscribeFailed","message":{}}}"#, quote(message))
}

pub(super) fn player_connected(peer: Peer) -> String {
    let (sfu, id) = (peer.kind == Kind::Streamer, peer.player_id());
    format!(r#"{{"type":"playerConnected","dataChannel":true,"sfu":{sfu},"playerId":"{id}"}}"#)
}

pub(super) fn player_disconnected(peer: Peer) -> String {
    format!(r#"{{"type":"playerDisconnected","playerId":"{}"}}"#, peer.player_id())
}

/// Returns the answer to a `ping`. `time`: a JSON number.
pub(super) fn pong(time: &str) -> String {
    format!(r#"{{"type":"pong","time":{time}}}"#)
}
