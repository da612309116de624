//! WebSockets of trunks, which carry batches of frames between an edge and a node. [`Trunk`] is
//! either end. [`open()`] connects one for an edge; in a node [`serve`] runs an accepted one.

mod connection;
mod inbound;
mod open;
mod polled;

use signaling_wire::limits;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::metrics::{METRICS, TrunkCloseLabel};

pub use self::connection::Trunk;
pub use self::inbound::{TaskStream, serve};
pub use self::open::{OutboundTrunk, open};
pub use self::polled::PolledStream;

const READ_BUFFER_BYTES: usize = 8 * 1024;
/// A batch of messages and a batch of delivery outcomes after it.
const MAX_MESSAGE_BYTES: usize = 2 * limits::MAX_BATCH_BYTES;

/// Reason why a trunk ended.
#[derive(Debug, thiserror::Error)]
pub enum TrunkCloseReason {
    /// The other end sent a close frame.
    #[error("the other end closed it")]
    Closed,
    /// The other end sent nothing, or did not take a whole write, for 2 s.
    #[error("no input, or a write unfinished, for {:?}", limits::SUSPECT_AFTER)]
    Silent,
    /// The connection failed or ended without a close frame, or the other end violated the
    /// WebSocket protocol.
    #[error(transparent)]
    Failed(tungstenite::Error),
    /// The other end sent an invalid batch, or one that is over the size limit or more than 5 s
    /// late; holds its defect.
    #[error("{0}")]
    ProtocolError(String),
    /// This end closed it, whether or not the other end has read the close frame.
    #[error("closed by this end")]
    ClosedLocally,
}

impl TrunkCloseReason {
    /// Counts this end of a trunk in `signaling_trunks_ended_total`. [`serve`] does this itself; an
    /// edge calls it once per outbound trunk.
    pub fn record(&self) {
        let label = match self {
            Self::Closed => TrunkCloseLabel::Closed,
            Self::Silent => TrunkCloseLabel::Silent,
            Self::Failed(_) => TrunkCloseLabel::Failed,
            Self::ProtocolError(_) => TrunkCloseLabel::ProtocolError,
            Self::ClosedLocally => TrunkCloseLabel::Local,
        };
        METRICS.trunk_closes.of(label).inc();
    }
}

impl From<tungstenite::Error> for TrunkCloseReason {
    fn from(error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(excess) => Self::ProtocolError(excess.to_string()),
            other => Self::Failed(other),
        }
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
