//! WebSockets of trunks.
//!
//! [`Trunk`] is the state machine of either end. [`open()`] connects one for an event loop;
//! [`serve`] runs an accepted one.

mod connection;
mod inbound;
mod open;
mod polled;

use signaling_wire::limits;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::metrics::{METRICS, TrunkEndReason};

pub use self::connection::Trunk;
pub use self::inbound::{TrunkHandler, serve};
pub use self::open::{OutboundTrunk, open};
pub use self::polled::PolledStream;

const READ_BUFFER_BYTES: usize = 8 * 1024;
/// A batch of messages and a batch of delivery outcomes behind it.
const MAX_MESSAGE_BYTES: usize = 2 * limits::MAX_BATCH_BYTES;

/// Why a trunk ended.
#[derive(Debug, thiserror::Error)]
pub enum TrunkCloseReason {
    /// The other end closed it.
    #[error("the other end closed it")]
    Closed,
    /// The other end sent or took nothing for 2 s.
    #[error("no input or progress for {:?}", limits::SUSPECT_AFTER)]
    Silent,
    /// The connection failed.
    #[error(transparent)]
    Failed(#[from] tungstenite::Error),
    /// The other end sent invalid frames.
    #[error("{0}")]
    ProtocolError(String),
    /// This end closed it.
    #[error("closed by this end")]
    ClosedLocally,
}

impl TrunkCloseReason {
    /// Counts the end in the metrics of trunks.
    pub fn count(&self) {
        let reason = match self {
            Self::Closed => TrunkEndReason::Closed,
            Self::Silent => TrunkEndReason::Silent,
            Self::Failed(_) => TrunkEndReason::Failed,
            Self::ProtocolError(_) => TrunkEndReason::ProtocolError,
            Self::ClosedLocally => TrunkEndReason::Local,
        };
        METRICS.trunk_ends.of(reason).inc();
    }
}

/// WebSocket limits of both ends. Writes are not buffered.
fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MAX_MESSAGE_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}
