//! Where rooms are kept.

use std::future::Future;

#[cfg(feature = "redis")]
use crate::RedisStore;
use crate::{MemoryStore, Outcome, Request};

/// Rooms cannot be read or changed now. What was asked may have been done: asked again, it is not done twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the room store is unavailable: {0}")]
pub struct StoreError(pub Box<str>);

#[cfg(feature = "redis")]
impl StoreError {
    pub(crate) fn new(why: impl std::fmt::Display) -> Self {
        Self(why.to_string().into())
    }
}

/// Keeps rooms. Every operation is one atomic step, however many processes ask.
pub trait RoomStore {
    /// Carries out operations, in order where they name the same room, and says of each what came of it. Many cost little more
    /// than one.
    fn apply(&self, requests: Vec<Request>) -> impl Future<Output = Vec<Result<Outcome, StoreError>>>;
}

/// One of the stores there are.
#[derive(Clone)]
pub enum Store {
    /// Of this process.
    Memory(MemoryStore),
    /// Of the mesh.
    #[cfg(feature = "redis")]
    Redis(RedisStore),
}

impl RoomStore for Store {
    async fn apply(&self, requests: Vec<Request>) -> Vec<Result<Outcome, StoreError>> {
        match self {
            Self::Memory(store) => store.apply(requests).await,
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.apply(requests).await,
        }
    }
}
