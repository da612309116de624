//! The OpenAPI document of the API, `docs/admin-api.json`. Servers send it unchanged.

use serde_json::{Value, json};

use crate::servers::Role;

/// The document (OpenAPI 3.1, JSON).
pub const DOCUMENT: &str = include_str!("../../../docs/admin-api.json");

/// Returns the operations of a server with this role, sorted: method in capitals, and path. Tests
/// compare them with the routes.
#[must_use]
pub fn operations(role: Role) -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap_or_default();
    let role = json!(role);
    let is_served = |operation: &Value| operation["x-served-by"].as_array().is_some_and(|by| by.contains(&role));
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.filter(|(_, operation)| is_served(operation)).map(|(method, _)| (method.to_uppercase(), path.clone()))
    });
    let mut operations: Vec<_> = operations.collect();
    operations.sort();
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_is_json_and_both_kinds_of_server_have_routes() {
        let (node, balancer) = (operations(Role::Node), operations(Role::Balancer));
        assert!(node.len() > balancer.len() && !balancer.is_empty());
        assert!(balancer.iter().all(|operation| node.contains(operation)), "nodes answer all that balancers do");
    }
}
