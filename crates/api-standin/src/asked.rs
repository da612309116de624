//! A request in the words of RBAC.

use http::Method;

/// What was asked for, as a Role would have to allow it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// `list`, `watch`, `get` and so on.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource; for a path that has none, the path.
    pub resource: String,
    /// The namespace; empty: all.
    pub namespace: String,
}

impl Asked {
    /// Reads a request's method and path; `watch` is what its query says.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_as_roles_name_them() {
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
