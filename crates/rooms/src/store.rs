//! The error of a room store, and of a request to the owner of a room.

/// A room request failed, with the reason for operators and logs: store or owner not reached, error
/// or invalid answer of the store, invalid address, or too many requests of operators. The
/// operation may have been applied; a repetition is not applied twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the room store is unavailable: {0}")]
pub struct StoreError(pub Box<str>);

#[cfg(feature = "redis")]
impl StoreError {
    /// Returns the error with this reason.
    pub(crate) fn new(why: impl std::fmt::Display) -> Self {
        Self(why.to_string().into())
    }
}
