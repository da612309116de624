//! Sizes and times that two servers must agree on, each with its reason.

use std::time::Duration;

use signaling_protocol::limits::MAX_MESSAGE_BYTES;

/// Maximum bytes of a frame in a batch: the largest client message, its ids, and room to spare.
pub const MAX_FRAME_BYTES: usize = MAX_MESSAGE_BYTES + 64 * 1024;
/// Size in bytes at which a writer starts the next batch, so that a large batch does not delay the
/// frames after it.
pub const BATCH_TARGET_BYTES: usize = 256 * 1024;
/// Maximum bytes of a batch: just below the target before its last frame. A trunk message holds at
/// most two batches.
pub const MAX_BATCH_BYTES: usize = BATCH_TARGET_BYTES + MAX_FRAME_BYTES;
/// Maximum lanes that one envelope crosses, from node to node. Then the node holds it: the views of
/// the nodes differ too much to find the client.
pub const MAX_HOPS: usize = 4;
/// Maximum batches of a lane without an acknowledgement.
pub const MAX_WINDOW_BATCHES: usize = 256;
/// Bytes of unacknowledged batches at which a lane sends no further batch.
pub const MAX_WINDOW_BYTES: usize = 1024 * 1024;
/// Silence after which an edge or a node pings the other end of a trunk: three pings before it is
/// suspect.
pub const PING_AFTER: Duration = Duration::from_millis(500);
/// Silence after which a server gives up a connection: as long as the time until retransmissions.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(2);
