//! What an API server says, line by line, for the fuzzer.

use std::time::{Duration, Instant};

use k8s_openapi::List;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::WatchEvent;
use signaling_protocol::NodeId;

use super::shelf::Shelf;
use crate::steady::{FlapDamper, HOLD};
use signaling_core::{Address, View};

/// From text to a view, without anybody who asks for it.
pub struct Listener {
    shelf: Shelf,
    steady: FlapDamper,
    now: Instant,
}

impl Default for Listener {
    fn default() -> Self {
        Self { shelf: Shelf::new("internal".into()), steady: FlapDamper::new(HOLD), now: Instant::now() }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

impl Listener {
    /// Takes a list, or an event of a watch. Says whether it was one.
    pub fn hears(&mut self, json: &[u8]) -> bool {
        if let Ok(event) = serde_json::from_slice::<WatchEvent<EndpointSlice>>(json) {
            match event {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => self.shelf.put(&slice),
                WatchEvent::Deleted(slice) => self.shelf.remove(&slice),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
            }
        } else if let Ok(list) = serde_json::from_slice::<List<EndpointSlice>>(json) {
            self.shelf.replace(&list.items);
        } else {
            return false;
        }
        self.steady.see(&self.shelf.sightings(), None, self.now);
        true
    }

    /// Lets time pass.
    pub fn passes(&mut self, time: Duration) {
        self.now += time;
        self.steady.settle(self.now);
    }

    /// All servers that are shown now, and where.
    #[must_use]
    pub fn servers(&self) -> Vec<(NodeId, Address)> {
        self.shelf.sightings().into_iter().map(|sighting| (sighting.id, sighting.address)).collect()
    }

    /// Who is in the mesh.
    #[must_use]
    pub fn view(&self) -> View {
        self.steady.view()
    }
}
