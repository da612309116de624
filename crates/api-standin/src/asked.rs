//! Requests in RBAC terms. `serve` records them; tests compare them with the Role of the manifests.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

/// A request in the terms of a Role that must allow it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// `list`, `watch`, `get` and so on.
    pub verb: String,
    /// The API group; empty for the core group and for a request without a resource.
    pub group: String,
    /// The resource in the plural, such as `pods`, or the path of a request without a resource.
    pub resource: String,
    /// The namespace; empty means all, or none for a request without a resource.
    pub namespace: String,
}

impl Asked {
    /// Parses a request's method and path. `watch` is `true` if its query requests a watch.
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
        let name = rest.get(1);
        let verb = match method.as_str() {
            "GET" if watch => "watch",
            "GET" if name.is_none() => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if name.is_none() => "deletecollection",
            "DELETE" => "delete",
            other => other,
        };
        let resource = rest.first().map_or(path, |resource| resource);
        Self { verb: verb.into(), group: group.into(), resource: resource.into(), namespace: namespace.into() }
    }

    /// Returns the required right in the form of [`rights`]:
    /// `list discovery.k8s.io/endpointslices`.
    pub fn right(&self) -> String {
        right(&self.verb, &self.group, &self.resource)
    }
}

/// Returns all rights that the Roles among these manifests grant, as `VERB GROUP/RESOURCE`. Panics
/// without a Role, with a ClusterRole, or on a rule with further fields.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn role_grants_each_verb_for_each_resource_of_each_group() {
        let rule = json!({ "apiGroups": ["", "apps"], "resources": ["a", "b"], "verbs": ["get", "list"] });
        let role = json!({ "kind": "Role", "rules": [rule] });
        let rights = rights(&[role, json!({ "kind": "RoleBinding" })]);
        assert_eq!(
            rights.iter().map(String::as_str).collect::<Vec<_>>(),
            ["get /a", "get /b", "get apps/a", "get apps/b", "list /a", "list /b", "list apps/a", "list apps/b"]
        );
        let asked = Asked::new(&Method::GET, "/apis/apps/v1/namespaces/calls/a/some", false);
        assert!(rights.contains(&asked.right()), "{asked:?}");
    }

    #[test]
    fn request_has_the_names_of_rbac() {
        for (method, path, watch, expected) in [
            (
                Method::GET,
                "/apis/discovery.k8s.io/v1/namespaces/calls/endpointslices",
                false,
                "list discovery.k8s.io endpointslices calls",
            ),
            (
                Method::GET,
                "/apis/discovery.k8s.io/v1/namespaces/calls/endpointslices",
                true,
                "watch discovery.k8s.io endpointslices calls",
            ),
            (Method::GET, "/apis/discovery.k8s.io/v1/endpointslices", false, "list discovery.k8s.io endpointslices "),
            (Method::GET, "/api/v1/namespaces/calls/pods/a", false, "get  pods calls"),
            (Method::DELETE, "/api/v1/namespaces/calls/pods/a", false, "delete  pods calls"),
            (Method::GET, "/version", false, "list  /version "),
        ] {
            let Asked { verb, group, resource, namespace } = Asked::new(&method, path, watch);
            assert_eq!(format!("{verb} {group} {resource} {namespace}"), expected);
        }
    }
}
