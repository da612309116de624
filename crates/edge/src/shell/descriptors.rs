//! Limit of descriptors for public connections.

use super::EdgeConfig;

/// Descriptors that public connections leave free for trunks, lanes, discovery, secrets, the room
/// store and the internal listener.
pub const RESERVED_DESCRIPTORS: usize = 1_024;
/// Divisor of the reserved part where descriptors are few.
const RESERVED_PART: usize = 4;
/// Divisor of the part of public connections that clients cannot take, so that new requests are
/// answered.
const NEWCOMERS_PART: usize = 16;

impl EdgeConfig {
    /// Lowers the connection limits to the number of files that may be open.
    #[must_use]
    pub fn within(mut self, open_files: u64) -> Self {
        let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
        let public = open_files - RESERVED_DESCRIPTORS.min(open_files / RESERVED_PART);
        self.connections = self.connections.min(public);
        self.admission.sockets = self.admission.sockets.min(public - public / NEWCOMERS_PART);
        self
    }
}
