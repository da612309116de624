//! How many of a server's descriptors public connections may take.

use super::EdgeConfig;

/// Descriptors that public connections leave free for trunks, lanes, discovery, secrets, the room
/// store and the internal listener.
pub const RESERVED_DESCRIPTORS: usize = 1_024;
/// The part of all descriptors that is reserved where they are few: one in so many.
const RESERVED_PART: usize = 4;
/// The part of public connections that clients cannot take, so that newcomers are answered: one in
/// so many.
const NEWCOMERS_PART: usize = 16;

impl EdgeConfig {
    /// Lowers the limits of connections to what fits where so many files may be open.
    #[must_use]
    pub fn within(mut self, open_files: u64) -> Self {
        let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
        let public = open_files - RESERVED_DESCRIPTORS.min(open_files / RESERVED_PART);
        self.connections = self.connections.min(public);
        self.admission.sockets = self.admission.sockets.min(public - public / NEWCOMERS_PART);
        self
    }
}
