//! All EndpointSlices of the service, built from lists and watch events, and their servers. Pure.
//! A pod has a name, which is its node id, one address, the zone of its machine if Kubernetes has
//! one, and the conditions `serving` and `terminating`. An absent `serving` equals `ready`, an
//! absent `ready` means true, an absent `terminating` means false. A present `serving` overrides
//! `ready`, which is false for each terminating pod, and true for each pod under
//! `publishNotReadyAddresses`.
//! One pod may be in several slices: briefly while the controller moves it, and always in a
//! dual-stack service, once per address family. It counts once, with its IPv4 address if it has
//! one, so that all servers of a mesh agree.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use signaling_protocol::NodeId;

use crate::flap_damper::{Observation, ServerStatus};
use signaling_membership::Zone;

/// Contents of the slices by name. `Watcher` updates them and sends their servers.
pub(super) struct Slices {
    port_name: String,
    contents: BTreeMap<String, Content>,
}

/// One pod in one slice.
#[derive(Debug, Clone)]
struct Appearance {
    id: NodeId,
    /// Distinguishes successive pods of one name in a StatefulSet.
    uid: String,
    address: SocketAddr,
    zone: Option<Zone>,
    serves: bool,
    ends: bool,
}

struct Content {
    appearances: Vec<Appearance>,
    /// Number of endpoints without a pod, a valid address or the named port.
    ignored: usize,
}

impl Slices {
    pub(super) fn new(port_name: String) -> Self {
        Self { port_name, contents: BTreeMap::new() }
    }

    pub(super) fn replace(&mut self, all: &[EndpointSlice]) {
        self.contents.clear();
        all.iter().for_each(|slice| self.put(slice));
    }

    pub(super) fn put(&mut self, slice: &EndpointSlice) {
        self.contents.insert(name(slice), parse(slice, &self.port_name));
    }

    pub(super) fn remove(&mut self, slice: &EndpointSlice) {
        self.contents.remove(&name(slice));
    }

    pub(super) fn ignored_count(&self) -> usize {
        self.contents.values().map(|content| content.ignored).sum()
    }

    /// Returns the servers of all slices, sorted by id. Of pods of a name the best status counts.
    pub(super) fn observations(&self) -> Vec<Observation> {
        let mut pods: BTreeMap<(&NodeId, &str), Appearance> = BTreeMap::new();
        for appearance in self.contents.values().flat_map(|content| &content.appearances) {
            pods.entry((&appearance.id, &appearance.uid))
                .and_modify(|pod| pod.merge(appearance))
                .or_insert_with(|| appearance.clone());
        }
        let mut named: BTreeMap<&NodeId, &Appearance> = BTreeMap::new();
        for ((id, _), pod) in &pods {
            let best = named.entry(id).or_insert(pod);
            if pod.status() > best.status() {
                *best = pod;
            }
        }
        named.into_values().filter_map(Appearance::observation).collect()
    }
}

fn name(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

/// Parses one slice: its pods, at its port with this name.
fn parse(slice: &EndpointSlice, port_name: &str) -> Content {
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    let ports = slice.ports.as_deref().unwrap_or_default();
    let named = ports.iter().find(|port| port.name.as_deref() == Some(port_name));
    let port = named.and_then(|port| u16::try_from(port.port?).ok()).filter(|port| *port > 0);
    let is_ip = matches!(slice.address_type.as_str(), "IPv4" | "IPv6");
    let Some(port) = port.filter(|_| is_ip) else {
        return Content { appearances: Vec::new(), ignored: endpoints.len() };
    };
    let appearances: Vec<_> = endpoints.iter().filter_map(|endpoint| appearance(endpoint, port)).collect();
    let ignored = endpoints.len() - appearances.len();
    Content { appearances, ignored }
}

fn appearance(endpoint: &Endpoint, port: u16) -> Option<Appearance> {
    let pod = endpoint.target_ref.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?;
    let id = NodeId::new(pod.name.as_deref()?).ok()?;
    let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    let address = SocketAddr::new(ip, port);
    // A value of a label, so it is a valid name.
    let zone = endpoint.zone.as_deref().and_then(|zone| Zone::new(zone).ok());
    let conditions = endpoint.conditions.as_ref();
    let serves = conditions.and_then(|conditions| conditions.serving.or(conditions.ready)).unwrap_or(true);
    let ends = conditions.and_then(|conditions| conditions.terminating).unwrap_or(false);
    Some(Appearance { id, uid: pod.uid.clone().unwrap_or_default(), address, zone, serves, ends })
}

impl Appearance {
    /// Merges the pod's data from another slice. A terminating pod never recovers, so `terminating`
    /// in any slice counts. A pod that serves in only one slice is in transition.
    fn merge(&mut self, other: &Self) {
        self.address = self.address.min(other.address);
        self.zone = self.zone.take().or_else(|| other.zone.clone());
        self.serves |= other.serves;
        self.ends |= other.ends;
    }

    fn status(&self) -> ServerStatus {
        match (self.serves, self.ends) {
            (true, false) => ServerStatus::Serving,
            (true, true) => ServerStatus::Draining,
            (false, false) => ServerStatus::Unready,
            (false, true) => ServerStatus::Ending,
        }
    }

    fn observation(&self) -> Option<Observation> {
        let address = self.address.to_string().parse().ok()?;
        Some(Observation { id: self.id.clone(), address, status: self.status(), zone: self.zone.clone() })
    }
}

#[cfg(test)]
mod tests;
