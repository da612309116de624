//! What nginx and HAProxy are told: each takes a client to the node that the `node` parameter names, with nothing
//! switched on that costs and is not needed.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// A node's name and public listener.
pub(super) type Backend = (String, SocketAddr);

/// Clients that either proxy may have at the same time; nginx counts both legs of each.
const CONNECTIONS: u32 = 20_000;

/// `nginx.conf` for a proxy that stays in the foreground and keeps all its files in `dir`.
pub(super) fn nginx(listen: SocketAddr, backends: &[Backend], dir: &Path) -> String {
    let dir = dir.display();
    let mut owners = String::new();
    for (node, address) in backends {
        // Writing to a String cannot fail.
        let _ = writeln!(owners, "        {node} {address};");
    }
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("    {what}_temp_path {dir}/nginx-{what};\n"))
        .collect();
    format!(
        "daemon off;\n\
         worker_processes 2;\n\
         pid {dir}/nginx.pid;\n\
         error_log {dir}/nginx-errors.log warn;\n\
         events {{\n    worker_connections {CONNECTIONS};\n}}\n\
         http {{\n\
         {temporary}    access_log off;\n    tcp_nodelay on;\n\
         \x20   map $arg_node $owner {{\n{owners}    }}\n\
         \x20   server {{\n        listen {listen} backlog=4096;\n        location / {{\n\
         \x20           proxy_pass http://$owner;\n\
         \x20           proxy_http_version 1.1;\n\
         \x20           proxy_set_header Host $host;\n\
         \x20           proxy_set_header Upgrade $http_upgrade;\n\
         \x20           proxy_set_header Connection \"upgrade\";\n\
         \x20           proxy_buffering off;\n\
         \x20           proxy_read_timeout 1h;\n\
         \x20           proxy_send_timeout 1h;\n        }}\n    }}\n}}\n"
    )
}

/// `haproxy.cfg` for a proxy that stays in the foreground and logs nothing.
pub(super) fn haproxy(listen: SocketAddr, backends: &[Backend]) -> String {
    let mut config = format!(
        "global\n    nbthread 2\n    maxconn {CONNECTIONS}\n    no strict-limits\n\
         defaults\n    mode http\n    timeout connect 10s\n    timeout client 1h\n    timeout server 1h\n    \
         timeout tunnel 1h\n\
         frontend clients\n    bind {listen} backlog 4096\n    use_backend %[url_param(node)]\n"
    );
    for (node, address) in backends {
        let _ = write!(config, "backend {node}\n    server {node} {address}\n");
    }
    config
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
    fn nginx_takes_each_client_to_the_node_that_it_names() {
        let config = nginx(address(8_000), &backends(), Path::new("/tmp/here"));

        assert!(
            config.contains("map $arg_node $owner {\n        node-0 127.0.0.1:9000;\n        node-1 127.0.0.1:9001;\n")
        );
        assert!(config.contains("listen 127.0.0.1:8000 "));
        assert!(config.contains("proxy_pass http://$owner;"));
    }

    #[test]
    fn nginx_has_two_workers_and_neither_logs_nor_buffers() {
        let config = nginx(address(8_000), &backends(), Path::new("/tmp/here"));

        for line in [
            "worker_processes 2;",
            "worker_connections 20000;",
            "access_log off;",
            "proxy_buffering off;",
            "tcp_nodelay on;",
        ] {
            assert!(config.contains(line), "{line} is missing");
        }
    }

    #[test]
    fn nginx_writes_nowhere_but_into_its_folder() {
        let config = nginx(address(8_000), &backends(), Path::new("/tmp/here"));

        let files = config
            .lines()
            .filter(|line| line.contains("_temp_path") || line.contains("pid ") || line.contains("_log /"));
        assert_eq!(files.clone().count(), 7);
        assert!(files.into_iter().all(|line| line.contains(" /tmp/here/")), "{config}");
    }

    #[test]
    fn braces_and_lines_of_nginx_are_balanced() {
        let config = nginx(address(8_000), &backends(), Path::new("/tmp/here"));

        assert_eq!(config.matches('{').count(), config.matches('}').count());
        assert!(config.lines().all(|line| line.ends_with([';', '{', '}'])), "{config}");
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
