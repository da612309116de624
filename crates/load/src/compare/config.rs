//! Configurations of nginx and HAProxy, which route a client to the node in the `node` parameter.
//! No other feature is enabled. The templates are `nginx.conf` and `haproxy.cfg`.

use std::net::SocketAddr;
use std::path::Path;

/// A node's name and public listener.
pub(super) type Backend = (String, SocketAddr);

const NGINX: &str = include_str!("nginx.conf");
const HAPROXY: &str = include_str!("haproxy.cfg");

/// Returns `nginx.conf` for a proxy that stays in the foreground and keeps all its files in `dir`.
pub(super) fn nginx(listen: SocketAddr, backends: &[Backend], dir: &Path) -> String {
    let owner = |(node, address): &Backend| format!("        {node} {address};\n");
    NGINX
        .replace("@LISTEN@", &listen.to_string())
        .replace("@OWNERS@", &backends.iter().map(owner).collect::<String>())
        .replace("@DIR@", &dir.display().to_string())
}

/// Returns `haproxy.cfg` for a proxy that logs nothing.
pub(super) fn haproxy(listen: SocketAddr, backends: &[Backend]) -> String {
    let backend = |(node, address): &Backend| format!("backend {node}\n    server {node} {address}\n");
    HAPROXY
        .replace("@LISTEN@", &listen.to_string())
        .replace("@BACKENDS@\n", &backends.iter().map(backend).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn backends() -> Vec<Backend> {
        (0..2).map(|number| (format!("node-{number}"), address(9_000 + number))).collect()
    }

    fn address(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn nginx_routes_by_node_and_writes_only_into_its_folder() {
        let config = nginx(address(8_000), &backends(), Path::new("/tmp/here"));

        for line in [
            "map $arg_node $owner {\n        node-0 127.0.0.1:9000;\n        node-1 127.0.0.1:9001;\n",
            "listen 127.0.0.1:8000 ",
            "proxy_pass http://$owner;",
            "worker_processes 2;",
            "worker_connections 20000;",
            "access_log off;",
            "proxy_buffering off;",
            "tcp_nodelay on;",
        ] {
            assert!(config.contains(line), "{line} is missing");
        }
        let names_a_file = |line: &&str| ["_temp_path", "pid ", "_log /"].iter().any(|word| line.contains(word));
        let files: Vec<&str> = config.lines().filter(names_a_file).collect();
        assert_eq!(files.len(), 7);
        assert!(files.iter().all(|line| line.contains(" /tmp/here/")) && !config.contains('@'), "{config}");
    }

    #[test]
    fn haproxy_has_two_threads_and_a_backend_for_each_node() {
        assert_eq!(
            haproxy(address(8_000), &backends()),
            "global\n    nbthread 2\n    maxconn 20000\n    no strict-limits\n\
             defaults\n    mode http\n    timeout connect 10s\n    timeout client 1h\n    timeout server 1h\n    timeout tunnel 1h\n\
             frontend clients\n    bind 127.0.0.1:8000 backlog 4096\n    use_backend %[url_param(node)]\n\
             backend node-0\n    server node-0 127.0.0.1:9000\n\
             backend node-1\n    server node-1 127.0.0.1:9001\n"
        );
    }
}
