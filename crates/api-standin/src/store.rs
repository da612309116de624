//! EndpointSlices of the API, their versions and history, without I/O.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Store {
    /// `resourceVersion` of the latest change of any object, or of [`Store::compact`]; 0 at first.
    pub(crate) version: u64,
    /// Lowest version from which the history is complete.
    oldest: u64,
    object_by_name: BTreeMap<(String, String), Value>,
    history: Vec<Event>,
}

/// A change of an object: one line of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Version of the store after the change.
    pub(crate) version: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(crate) kind: &'static str,
    /// The object after the change; of a deleted one, its last content with the new version.
    pub(crate) object: Value,
}

/// Filter: objects of one namespace that have all given labels.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) namespace: String,
    labels: HashMap<String, String>,
}

impl Selection {
    /// Parses `selector`, which is `KEY=VALUE,...`. Empty: objects with any labels. Panics at a
    /// part without `=`. A part with `==` or `!=` selects no object.
    pub(crate) fn new(namespace: String, selector: &str) -> Self {
        let pairs = selector.split(',').filter(|pair| !pair.is_empty());
        let labels = pairs.map(|pair| pair.split_once('=').expect("only KEY=VALUE is known"));
        Self { namespace, labels: labels.map(|(key, value)| (key.into(), value.into())).collect() }
    }

    fn has(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        metadata["namespace"] == self.namespace.as_str()
            && self.labels.iter().all(|(key, value)| metadata["labels"][key] == value.as_str())
    }
}

/// Returns a line of a watch: an event of type `kind` as JSON, with a newline.
pub(crate) fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({ "type": kind, "object": object }))
}

impl Store {
    /// Adds or replaces an object, and sets its `resourceVersion`. Panics if it has no namespace or
    /// no name.
    pub(crate) fn put(&mut self, object: Value) {
        let name = ["namespace", "name"].map(|part| object["metadata"][part].as_str().unwrap().to_owned());
        let name = name.into();
        let kind = if self.object_by_name.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        let object = self.record(kind, object);
        self.object_by_name.insert(name, object);
    }

    /// Deletes an object. Panics if it is missing.
    pub(crate) fn delete(&mut self, namespace: &str, name: &str) {
        let object = self.object_by_name.remove(&(namespace.into(), name.into())).expect("no such slice");
        self.record("DELETED", object);
    }

    /// Adds a change to the history. Returns the object with the version of the change.
    fn record(&mut self, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.history.push(Event { version: self.version, kind, object: object.clone() });
        object
    }

    /// Drops the history and raises the version, so that all earlier versions have expired.
    pub(crate) fn compact(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.history.clear();
    }

    /// Returns the selected objects as an `EndpointSliceList` of the current version.
    pub(crate) fn list(&self, selection: &Selection) -> Value {
        let items: Vec<_> = self.object_by_name.values().filter(|object| selection.has(object)).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSliceList",
            "metadata": { "resourceVersion": self.version.to_string() },
            "items": items,
        })
    }

    /// Returns the selected events after a version, the oldest first. `None`: the version is older
    /// than the history, or higher than the latest, as after a restored backup.
    ///
    /// The labels after a change decide. So an object that loses them gives no event, where a real
    /// server sends `DELETED`.
    pub(crate) fn since(&self, version: u64, selection: &Selection) -> Option<Vec<Event>> {
        let later = self.history.iter().filter(|event| event.version > version && selection.has(&event.object));
        (self.oldest..=self.version).contains(&version).then(|| later.cloned().collect())
    }
}
