//! Carrying batches over a trunk's WebSocket. While a write is under way the next batch gathers in the core. The accepting end does so by
//! a task of its own ([`carry`]); the opening end is [`OutboundTrunk`], watched by whoever has other sockets to watch.

mod accepted;
mod open;
mod opened;
mod signs;

use signaling_wire::limits;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::metrics::TrunkEndReason;

pub use self::accepted::{TrunkHandler, accepted, carry};
pub use self::open::open;
pub use self::opened::OutboundTrunk;

/// One read takes many frames.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// A batch of what must not wait, and one of fates behind it.
const MAX_MESSAGE_BYTES: usize = 2 * limits::MAX_BATCH_BYTES;

/// Why a trunk ended.
#[derive(Debug, thiserror::Error)]
pub enum TrunkCloseReason {
    /// The other end closed it.
    #[error("the other end closed it")]
    Closed,
    /// Nothing came for 2 s, not even an answer to a ping.
    #[error("nothing came for {:?}", limits::SUSPECT_AFTER)]
    Silent,
    /// The connection failed.
    #[error(transparent)]
    Failed(#[from] tungstenite::Error),
    /// The other end sent what is no frame of this protocol.
    #[error("{0}")]
    Nonsense(String),
    /// This end has closed it.
    #[error("closed from here")]
    Given,
}

impl TrunkCloseReason {
    pub(crate) fn label(&self) -> TrunkEndReason {
        match self {
            Self::Closed => TrunkEndReason::Closed,
            Self::Silent => TrunkEndReason::Silent,
            Self::Failed(_) => TrunkEndReason::Failed,
            Self::Nonsense(_) => TrunkEndReason::ProtocolError,
            Self::Given => TrunkEndReason::Local,
        }
    }
}

/// How trunks use WebSocket: bounded, and no write held back.
#[must_use]
pub fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MAX_MESSAGE_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}
