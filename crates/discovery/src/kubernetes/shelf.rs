//! All slices of the service, as lists and watches have told. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::slice::{self, Content};
use crate::observation::Observation;

/// What each slice shows. Slices that are not there any more are forgotten by the next list at the latest.
pub(super) struct Shelf {
    port: String,
    slices: BTreeMap<String, Content>,
}

impl Shelf {
    /// For the port of this name.
    pub(super) fn new(port: String) -> Self {
        Self { port, slices: BTreeMap::new() }
    }

    /// A list: these slices, and no others.
    pub(super) fn replace<'a>(&mut self, all: impl IntoIterator<Item = &'a EndpointSlice>) {
        self.slices = all.into_iter().map(|slice| (name(slice), slice::read(slice, &self.port))).collect();
    }

    /// A slice is new, or has changed.
    pub(super) fn put(&mut self, slice: &EndpointSlice) {
        self.slices.insert(name(slice), slice::read(slice, &self.port));
    }

    /// A slice is gone.
    pub(super) fn remove(&mut self, slice: &EndpointSlice) {
        self.slices.remove(&name(slice));
    }

    /// All servers that all slices show together.
    pub(super) fn observations(&self) -> Vec<Observation> {
        slice::observations(self.slices.values().flat_map(|content| &content.appearances))
    }

    /// How many endpoints are no node that can be reached.
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
    fn a_list_replaces_all_and_events_change_one() {
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
    fn a_slice_that_has_changed_takes_its_own_place() {
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

    /// The random ends of the pods' names.
    fn ids(shelf: &Shelf) -> Vec<String> {
        let ends = shelf.observations().into_iter().map(|s| s.id.as_str().rsplit('-').next().unwrap().to_owned());
        ends.collect()
    }
}
