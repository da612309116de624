//! EndpointSlices as the controller would write them.

use serde_json::{Value, json};

/// One pod in a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The pod's name.
    pub name: String,
    /// Its address.
    pub ip: String,
    /// Whether its readiness probe succeeds.
    pub serving: bool,
    /// Whether it has been told to end.
    pub terminating: bool,
}

impl Pod {
    /// A pod in good order.
    pub fn serving(name: &str, ip: &str) -> Self {
        Self { name: name.into(), ip: ip.into(), serving: true, terminating: false }
    }

    /// The same, but its readiness probe fails.
    #[must_use]
    pub fn unready(mut self) -> Self {
        self.serving = false;
        self
    }

    /// The same, but it has been told to end.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.terminating = true;
        self
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
    /// The service.
    pub service: String,
    /// The port's name.
    pub port_name: String,
    /// The port.
    pub port: u16,
    /// The pods.
    pub pods: Vec<Pod>,
}

impl Slice {
    /// A slice of the service `signaling-nodes` in the namespace `calls`, whose port is `internal`.
    pub fn new(name: &str, port: u16, pods: impl IntoIterator<Item = Pod>) -> Self {
        Self {
            name: name.into(),
            namespace: "calls".into(),
            service: "signaling-nodes".into(),
            port_name: "internal".into(),
            port,
            pods: pods.into_iter().collect(),
        }
    }

    /// The object as the API has it.
    pub fn to_json(&self) -> Value {
        let is_ipv6 = self.pods.first().is_some_and(|pod| pod.ip.contains(':'));
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
            "addressType": if is_ipv6 { "IPv6" } else { "IPv4" },
            // What has no elements is null in the real one's answers.
            "endpoints": if pods.is_empty() { Value::Null } else { pods.into() },
            "ports": [{ "name": self.port_name, "protocol": "TCP", "port": self.port }],
        })
    }
}
