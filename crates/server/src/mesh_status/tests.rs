//! Reports of all servers: nodes of the view, then the balancers behind their trunks.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use signaling_admin::Missing;
use signaling_admin::servers::{Nodes, Server};
use signaling_core::{Member, View};
use tokio::task::{LocalSet, spawn_local};

use super::{NodesQuery, ask_all};
use crate::Listener;
use crate::http::serve_router;
use crate::server_client::ServerClient;
use crate::testing::secrets;

fn report(id: &str, role: &str, more: &Value) -> Value {
    let view = json!({ "hash": "h", "nodes": 1 });
    let mut report = json!({
        "id": id, "role": role, "version": "1", "obstacle": null, "view": view,
        "clients": 0, "lingering": 0, "held_bytes": 0, "rooms": 0, "edges": [],
        "started_ms": 1, "view_age_ms": 0, "view_is_stale": false, "suspects": [], "seats": 0, "waiting": 0,
        "totals": { "messages": 0, "delivered": 0, "unavailable": 0 }, "latency_us": [], "flows": [],
        "cpu_us": 0, "resident_bytes": 0,
    });
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    report
}

/// Serves a report and returns the address.
fn serve(report: Value) -> String {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().to_string();
    let router = Router::new().route("/internal/v1/admin/server", get(async move || axum::Json(report)));
    spawn_local(serve_router(listener, router));
    address
}

async fn ask(nodes: &[(&str, String)], own: Value) -> Nodes {
    let client = ServerClient::new(secrets("a-mesh-secret-of-ours"), Duration::from_secs(2), 1 << 16).unwrap();
    let member = |(id, address): &(&str, String)| Member {
        id: id.parse().unwrap(),
        address: address.parse().unwrap(),
        draining: false,
    };
    let view = View::new(nodes.iter().map(member)).unwrap();
    ask_all(&client, &view, serde_json::from_value::<Server>(own).unwrap()).await
}

#[tokio::test]
async fn servers_report_themselves_and_silent_ones_are_named() {
    LocalSet::new()
        .run_until(async {
            let balancer = serve(report("lb-0", "balancer", &json!({ "clients": 5 })));
            let edges = json!([
                { "edge": "lb-0", "address": balancer, "clients": 3, "messages": 7 },
                { "edge": "lb-1", "address": "127.0.0.1:1", "clients": 1, "messages": 2 },
            ]);
            let draining = json!({ "obstacle": "draining", "edges": edges });
            let nodes = [
                ("a", "127.0.0.1:2".to_owned()),
                ("b", serve(report("b", "node", &draining))),
                ("c", serve(report("z", "node", &json!({})))),
                ("d", "127.0.0.1:1".to_owned()),
            ];
            let answer = ask(&nodes, report("a", "node", &json!({ "suspects": ["d"] }))).await;

            let states = answer.nodes.iter().map(|node| (node.server.is_some(), node.draining, node.suspect));
            let expected = [(true, false, false), (true, true, false), (false, false, false), (false, false, true)];
            assert_eq!(states.collect::<Vec<_>>(), expected);
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
            let answer = ask(&[], report("lb-0", "balancer", &json!({ "clients": 2 }))).await;
            let [own] = &answer.balancers[..] else { panic!("{:?}", answer.balancers) };
            assert_eq!((answer.asked.as_str(), own.clients, own.trunks, own.server.is_some()), ("lb-0", 2, 0, true));
        })
        .await;
}

#[test]
fn answer_timeout_is_one_millisecond_to_two_seconds() {
    let timeout = |timeout_ms| NodesQuery { timeout_ms }.timeout().ok();
    assert_eq!(timeout(None), Some(Duration::from_secs(2)));
    assert_eq!(timeout(Some(700)), Some(Duration::from_millis(700)));
    assert_eq!((timeout(Some(0)), timeout(Some(2_001))), (None, None));
}
