//! Reports of all servers: nodes of the view, then the balancers behind their trunks.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::json;
use signaling_admin::Missing;
use signaling_admin::servers::{Nodes, Role, Server};
use signaling_membership::{NodeEntry, View};
use tokio::task::{LocalSet, spawn_local};

use super::ask_all;
use crate::Listener;
use crate::http::serve_router;
use crate::server_client::ServerClient;
use crate::testing::proofs;

fn node(id: &str) -> Server {
    Server { id: id.into(), ..Server::default() }
}

fn balancer(id: &str, clients: usize) -> Server {
    Server { id: id.into(), role: Role::Balancer, clients, ..Server::default() }
}

/// Serves a report and returns the address.
fn serve(report: Server) -> String {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().to_string();
    let router = Router::new().route("/internal/v1/admin/server", get(async move || axum::Json(report)));
    spawn_local(serve_router(listener, router));
    address
}

async fn ask(nodes: &[(&str, String)], own: Server, edges: Vec<Server>) -> Nodes {
    let client = ServerClient::new(proofs(), Duration::from_secs(2), 1 << 16).unwrap();
    let member = |(id, address): &(&str, String)| NodeEntry {
        id: id.parse().unwrap(),
        address: address.parse().unwrap(),
        draining: false,
        zone: (*id == "b").then(|| "west".parse().unwrap()),
    };
    let view = View::new(nodes.iter().map(member)).unwrap();
    ask_all(&client, &view, own, async { edges }).await
}

#[tokio::test]
async fn servers_report_themselves_and_silent_ones_are_named() {
    LocalSet::new()
        .run_until(async {
            let edges = serde_json::from_value(json!([
                { "edge": "lb-0", "address": "127.0.0.1:1", "clients": 3, "messages": 7 },
                { "edge": "lb-1", "address": "127.0.0.1:1", "clients": 1, "messages": 2 },
            ]));
            let draining = Server { obstacle: Some("draining".into()), edges: edges.unwrap(), ..node("b") };
            let nodes = [
                ("a", "127.0.0.1:2".to_owned()),
                ("b", serve(draining)),
                ("c", serve(node("z"))),
                ("d", "127.0.0.1:1".to_owned()),
            ];
            let own = Server { suspects: vec!["d".into()], ..node("a") };
            let answer = ask(&nodes, own, vec![balancer("lb-0", 5)]).await;

            let states = answer.nodes.iter().map(|node| (node.server.is_some(), node.draining, node.suspect));
            let expected = [(true, false, false), (true, true, false), (false, false, false), (false, false, true)];
            assert_eq!(states.collect::<Vec<_>>(), expected);
            let zones: Vec<_> = answer.nodes.iter().map(|node| node.zone.as_deref()).collect();
            assert_eq!(zones, [None, Some("west"), None, None]);
            let missing = |node: &str, why: &str| Missing { node: node.into(), why: why.into() };
            let expected = [missing("c", "z answers at its address"), missing("d", "it does not accept connections")];
            assert_eq!(answer.missing, expected);
            let [known, silent] = &answer.balancers[..] else { panic!("{:?}", answer.balancers) };
            assert_eq!((known.clients, known.messages, known.server.as_ref().unwrap().clients), (3, 7, 5));
            assert_eq!((silent.balancer.as_str(), silent.trunks, silent.server.is_some()), ("lb-1", 1, false));
        })
        .await;
}

#[tokio::test]
async fn balancer_reports_itself_without_any_node() {
    LocalSet::new()
        .run_until(async {
            let answer = ask(&[], balancer("lb-0", 2), Vec::new()).await;
            let [own] = &answer.balancers[..] else { panic!("{:?}", answer.balancers) };
            assert_eq!((answer.asked.as_str(), own.clients, own.trunks, own.server.is_some()), ("lb-0", 2, 0, true));
        })
        .await;
}
