//! Requests in RBAC terms. `serve` records them; tests compare them with the Role of the manifests.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

/// A request in the terms of a Role that must allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `list` or `watch`; for other requests the HTTP method, which no Role allows.
    pub verb: String,
    /// The namespace; empty means all, or none for a request without a resource.
    pub namespace: String,
    /// The required right in the form of [`rights`]: `list discovery.k8s.io/endpointslices`. For a
    /// request without a resource, the verb, a space, `/` and the path: `GET //version`.
    pub right: String,
}

impl Asked {
    /// Parses a request's method and path, which has no query. `watch` is `true` if the query
    /// requests a watch.
    pub fn new(method: &Method, path: &str, watch: bool) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["apis", group, _version, rest @ ..] => (*group, rest),
            ["api", _version, rest @ ..] => ("", rest),
            _ => ("", &[][..]),
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let verb = match method.as_str() {
            "GET" if watch => "watch",
            "GET" if rest.len() == 1 => "list",
            other => other,
        };
        let resource = rest.first().map_or(path, |resource| resource);
        Self { verb: verb.into(), namespace: namespace.into(), right: right(verb, group, resource) }
    }
}

/// Returns all rights that the Roles among these manifests grant, as `VERB GROUP/RESOURCE`, in any
/// namespace. Panics without a Role, with a ClusterRole, or on a rule with further fields.
pub fn rights(objects: &[Value]) -> BTreeSet<String> {
    let roles: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "Role").collect();
    assert!(!roles.is_empty(), "no Role");
    assert!(objects.iter().all(|object| object["kind"] != "ClusterRole"), "a ClusterRole");
    let mut rights = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        let texts = |field: &str| rule[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
        assert_eq!(rule.as_object().unwrap().len(), 3, "{rule}");
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                rights.extend(texts("verbs").map(|verb| right(verb, group, resource)));
            }
        }
    }
    rights
}

fn right(verb: &str, group: &str, resource: &str) -> String {
    format!("{verb} {group}/{resource}")
}
