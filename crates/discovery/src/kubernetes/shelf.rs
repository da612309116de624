//! All slices of the service, built from lists and watch events. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::slice::{self, Content};
use crate::observation::Observation;

/// Contents of the slices by name. The next list removes slices that no longer exist.
pub(super) struct Shelf {
    port: String,
    slices: BTreeMap<String, Content>,
}

impl Shelf {
    /// Creates an empty shelf for the port with this name.
    pub(super) fn new(port: String) -> Self {
        Self { port, slices: BTreeMap::new() }
    }

    /// Replaces all slices by the ones of a list.
    pub(super) fn replace<'a>(&mut self, all: impl IntoIterator<Item = &'a EndpointSlice>) {
        self.slices = all.into_iter().map(|slice| (name(slice), slice::read(slice, &self.port))).collect();
    }

    /// Adds or replaces a slice.
    pub(super) fn put(&mut self, slice: &EndpointSlice) {
        self.slices.insert(name(slice), slice::read(slice, &self.port));
    }

    pub(super) fn remove(&mut self, slice: &EndpointSlice) {
        self.slices.remove(&name(slice));
    }

    /// Returns the servers of all slices.
    pub(super) fn observations(&self) -> Vec<Observation> {
        slice::observations(self.slices.values().flat_map(|content| &content.appearances))
    }

    /// Returns the number of endpoints without a reachable node.
    pub(super) fn passed_over(&self) -> usize {
        self.slices.values().map(|content| content.passed_over).sum()
    }
}

fn name(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::List;

    use super::*;

    #[test]
    fn list_replaces_all_and_events_change_one() {
        let (mut shelf, slices) = shelf();
        assert_eq!(ids(&shelf), ["4kq2z", "9wd7c", "q7vhd"]);
        shelf.remove(&slices[0]);
        assert_eq!(ids(&shelf), ["9wd7c", "q7vhd"]);
        shelf.put(&slices[0]);
        assert_eq!(ids(&shelf), ["4kq2z", "9wd7c", "q7vhd"]);
        shelf.replace(&slices[..1]);
        assert_eq!(ids(&shelf), ["4kq2z", "9wd7c"]);
    }

    #[test]
    fn slice_that_has_changed_takes_its_own_place() {
        let (mut shelf, mut slices) = shelf();
        slices[1].endpoints = None;
        shelf.put(&slices[1]);
        assert_eq!(ids(&shelf), ["4kq2z", "9wd7c"]);
    }

    fn shelf() -> (Shelf, Vec<EndpointSlice>) {
        let list: List<EndpointSlice> = serde_json::from_str(include_str!("../../fixtures/moving.json")).unwrap();
        let mut shelf = Shelf::new("internal".into());
        shelf.replace(&list.items);
        (shelf, list.items)
    }

    /// Returns the random suffixes of the pod names.
    fn ids(shelf: &Shelf) -> Vec<String> {
        let ends = shelf.observations().into_iter().map(|s| s.id.as_str().rsplit('-').next().unwrap().to_owned());
        ends.collect()
    }
}
