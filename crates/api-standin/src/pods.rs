//! EndpointSlices in the form that the Kubernetes controller writes.

use serde_json::{Value, json};

/// One pod in a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The pod's name.
    pub name: String,
    /// Its IPv4 address.
    pub ip: String,
    /// `true` if its readiness probe succeeds.
    pub serving: bool,
    /// `true` if its termination has begun.
    pub terminating: bool,
}

impl Pod {
    /// Returns a ready pod.
    pub fn serving(name: &str, ip: &str) -> Self {
        Self { name: name.into(), ip: ip.into(), serving: true, terminating: false }
    }

    fn to_json(&self, namespace: &str) -> Value {
        json!({
            "addresses": [self.ip],
            "conditions": {
                "ready": self.serving && !self.terminating,
                "serving": self.serving,
                "terminating": self.terminating,
            },
            "targetRef": {
                "kind": "Pod",
                "namespace": namespace,
                "name": self.name,
                "uid": format!("uid-of-{}", self.name),
            },
        })
    }
}

/// A slice of a service with one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The slice's name.
    pub name: String,
    /// The namespace of slice, service and pods.
    pub namespace: String,
    /// The name of the service.
    pub service: String,
    /// The TCP port of each pod, which the slice names `internal`.
    pub port: u16,
    /// The pods; empty for a slice without endpoints.
    pub pods: Vec<Pod>,
}

impl Slice {
    /// Returns a slice of the service `signaling-nodes` in namespace `calls`.
    pub fn new(name: &str, port: u16, pods: impl IntoIterator<Item = Pod>) -> Self {
        Self {
            name: name.into(),
            namespace: "calls".into(),
            service: "signaling-nodes".into(),
            port,
            pods: pods.into_iter().collect(),
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let pods: Vec<Value> = self.pods.iter().map(|pod| pod.to_json(&self.namespace)).collect();
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    "kubernetes.io/service-name": self.service,
                },
            },
            "addressType": "IPv4",
            // The real server writes null for an empty list.
            "endpoints": if pods.is_empty() { Value::Null } else { pods.into() },
            "ports": [{ "name": "internal", "protocol": "TCP", "port": self.port }],
        })
    }
}
