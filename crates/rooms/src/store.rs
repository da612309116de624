//! The room store of a node, in memory or in Redis. The node's shell sends operations to it.

#[cfg(feature = "redis")]
use crate::RedisStore;
use crate::{MemoryStore, OpResult, Request};

/// The store cannot be reached, with the reason. The operation may have been applied; a repetition
/// is not applied twice.
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

/// Storage of rooms. Each operation is one atomic step across all processes.
#[derive(Clone)]
pub enum Store {
    /// The store of this process.
    Memory(MemoryStore),
    /// The store of the mesh.
    #[cfg(feature = "redis")]
    Redis(RedisStore),
}

impl Store {
    /// Applies operations, and returns the result or error of each in order. Operations on one room
    /// are applied in order. A batch costs little more than one operation.
    pub async fn apply(&self, requests: Vec<Request>) -> Vec<Result<OpResult, StoreError>> {
        match self {
            Self::Memory(store) => store.apply(&requests),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.apply(requests).await,
        }
    }
}
