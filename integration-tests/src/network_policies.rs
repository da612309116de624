//! What NetworkPolicies let pass, as a cluster would judge it.

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::rendered::{Pod, Rendered, list, selects};

/// One end of a connection.
#[derive(Clone, Copy)]
pub enum End<'a> {
    /// A pod of ours.
    Pod(Pod<'a>),
    /// A pod in another namespace.
    Namespace(&'a str),
    /// A machine with this address.
    Address(Ipv4Addr),
    /// Anywhere else.
    World,
}

/// Whether a connection to this port gets through: both ends must allow it.
#[must_use]
pub fn passes(rendered: &Rendered, from: End<'_>, to: End<'_>, port: u64, protocol: &str) -> bool {
    let judge = |direction: &'static str, pod: End<'_>, other: End<'_>| {
        let End::Pod(pod) = pod else { return true };
        let policies: Vec<&Value> = rendered
            .kind("NetworkPolicy")
            .filter(|policy| list(&policy["spec"]["policyTypes"]).contains(&direction.into()))
            .filter(|policy| selects(&policy["spec"]["podSelector"], pod.labels()))
            .collect();
        let (rules, peers) = if direction == "Ingress" { ("ingress", "from") } else { ("egress", "to") };
        policies.is_empty()
            || policies.iter().flat_map(|policy| list(&policy["spec"][rules])).any(|rule| {
                let peers = list(&rule[peers]);
                (peers.is_empty() || peers.iter().any(|peer| is_peer(peer, other)))
                    && has_port(rule, to, port, protocol)
            })
    };
    judge("Egress", from, to) && judge("Ingress", to, from)
}

fn is_peer(peer: &Value, end: End<'_>) -> bool {
    let (pods, namespaces) = (peer.get("podSelector"), peer.get("namespaceSelector"));
    match (end, pods, namespaces) {
        (End::Pod(pod), Some(pods), None) => selects(pods, pod.labels()),
        (End::Namespace(name), None, Some(namespaces)) => {
            selects(namespaces, &serde_json::json!({ "kubernetes.io/metadata.name": name }))
        }
        (End::Address(address), None, None) => peer.get("ipBlock").is_some_and(|block| is_in(block, address)),
        _ => false,
    }
}

fn is_in(block: &Value, address: Ipv4Addr) -> bool {
    assert!(block.get("except").is_none(), "exceptions are not read here");
    let (network, bits) = block["cidr"].as_str().unwrap().split_once('/').unwrap();
    let (network, bits): (Ipv4Addr, u32) = (network.parse().unwrap(), bits.parse().unwrap());
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    u32::from(network) & mask == u32::from(address) & mask
}

fn has_port(rule: &Value, to: End<'_>, port: u64, protocol: &str) -> bool {
    let ports = list(&rule["ports"]);
    let is_named = |name: &str| matches!(to, End::Pod(pod) if pod.ports().contains(&(name, port)));
    ports.is_empty()
        || ports.iter().any(|entry| {
            let is_port = entry["port"].as_u64() == Some(port) || entry["port"].as_str().is_some_and(is_named);
            is_port && entry["protocol"].as_str().unwrap_or("TCP") == protocol
        })
}
