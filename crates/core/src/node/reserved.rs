//! Reserved names, which only clients of a dialect may use. `request` calls it for each request.

use signaling_protocol::client::ClientMessage;
use signaling_protocol::ids::is_reserved;
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ClientId, ErrorCode};
use signaling_wire::Seq;
use signaling_wire::trunk::DeliveryOutcome;

use super::{NodeCore, SessionKey};

/// Returns `true` if a native client's request names a reserved recipient or room.
pub(super) fn names_reserved(client: &ClientId, message: &ClientMessage<'_>) -> bool {
    let name = match message {
        ClientMessage::Signal { to, .. } => to,
        ClientMessage::Join { room, .. }
        | ClientMessage::Members { room, .. }
        | ClientMessage::Broadcast { room, .. } => room,
        _ => return false,
    };
    // Edges admit native clients only without a reserved id.
    is_reserved(name) && !is_reserved(client.as_str())
}

impl NodeCore {
    /// Refuses a request that names a reserved recipient or room.
    pub(super) fn refuse_reserved(&mut self, key: SessionKey, seq: Seq, message: &ClientMessage<'_>) {
        let (to, room) = match message {
            ClientMessage::Signal { to, .. } => (Some(&**to), None),
            ClientMessage::Join { room, .. }
            | ClientMessage::Members { room, .. }
            | ClientMessage::Broadcast { room, .. } => (None, Some(&**room)),
            _ => (None, None),
        };
        let (code, id) = (ErrorCode::Forbidden, message.id());
        self.counts.refuse(code);
        let message = "names that begin with `~` are reserved";
        let error = ServerMessage::Error { code, message, id, to, room, retry_after_ms: None };
        self.reply(key, seq, DeliveryOutcome::Refused, &error.to_json());
    }
}
