//! The dashboard of any server shows each event of the mesh within two seconds.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Chromium, Page, Peer, TestMesh, admin, admin_token, during, exchange, until_some};
use tokio::time::Instant;

/// Time in which the dashboard shows a kill, a drain and a new node.
const SHOW_TIMEOUT: Duration = Duration::from_secs(2);
const CLIENTS: usize = 60;

#[tokio::test]
async fn page_shows_kill_join_and_drain_within_two_seconds() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::with_servers((3, 2), &[], &[]).await;
    let clients = connect(&mesh).await;
    let page = open(&browser, &mesh, "node-0").await;
    let at_balancer = open(&browser, &mesh, "balancer-0").await;
    for page in [&page, &at_balancer] {
        for id in ["node-0", "node-1", "node-2", "balancer-0", "balancer-1"] {
            badge_shows(page, id, "● serving").await;
        }
        page.shows("#clients", &CLIENTS.to_string()).await;
    }
    at_balancer.close().await;

    let begin = Instant::now();
    let (silent, moved) = during(mesh.kill("node-1"), async {
        badge_shows(&page, "node-1", "✕ no answer").await;
        let silent = begin.elapsed();
        includes(&page, "#log", "moved from node-1 to").await;
        (silent, begin.elapsed())
    })
    .await;
    badge_shows(&page, "node-1", "– gone").await;
    page.shows("#clients", &CLIENTS.to_string()).await;
    // A server that misses the loss suspects the namesake for a while, and the page shows it.
    mesh.until_views_agree().await;

    let joined = during(mesh.scale(3), async {
        let is_announced = async || mesh.state().nodes.iter().any(|node| node.id == "node-1").then(Instant::now);
        let announced = until_some("the new node to be announced", is_announced).await;
        badge_shows(&page, "node-1", "● serving").await;
        announced.elapsed()
    })
    .await;

    let begin = Instant::now();
    let draining = during(mesh.drain("node-2"), async {
        badge_shows(&page, "node-2", "◐ draining").await;
        begin.elapsed()
    })
    .await;
    badge_shows(&page, "node-2", "– gone").await;
    includes(&page, "#log", "node-2 has drained and stopped").await;
    page.shows("#clients", &CLIENTS.to_string()).await;

    for (what, took) in [("kill", silent), ("moves", moved), ("new node", joined), ("drain", draining)] {
        println!("{what} shows after {took:?}");
        assert!(took < SHOW_TIMEOUT, "{what}: {took:?}");
    }
    assert_eq!(complaints(&page).await, Vec::<String>::new());
    drop(clients);
}

#[tokio::test]
async fn page_shows_a_lost_server_until_it_is_back() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::start().await;
    let page = open(&browser, &mesh, "node-0").await;
    page.becomes("document.querySelector('#lost').hidden").await;

    mesh.kill("node-0").await.unwrap();
    page.becomes("!document.querySelector('#lost').hidden").await;
    page.shows("#live", "✕ not live").await;
    mesh.restart("node-0").await.unwrap();
    page.shows("#live", "● live").await;
    page.becomes("document.querySelector('#lost').hidden").await;
    badge_shows(&page, "node-0", "● serving").await;
}

#[tokio::test]
async fn page_shows_hung_node_and_stale_discovery_until_mended() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::start().await;
    let page = open(&browser, &mesh, "node-0").await;

    mesh.pause("node-2").await.unwrap();
    includes(&page, "#problems-list", "node-2 has not answered for").await;
    includes(&page, "#problems-list", "node-2 is suspected by").await;
    mesh.resume("node-2").await.unwrap();
    badge_shows(&page, "node-2", "● serving").await;
    page.becomes("document.querySelector('#problems').hidden").await;

    let list = mesh.dir.path().join("nodes.json");
    let good = std::fs::read(&list).unwrap();
    std::fs::write(&list, "broken").unwrap();
    includes(&page, "#problems-list", "Discovery is stale at").await;
    badge_shows(&page, "node-0", "◔ stale view").await;
    std::fs::write(&list, good).unwrap();
    badge_shows(&page, "node-0", "● serving").await;
    page.becomes("document.querySelector('#problems').hidden").await;
    assert_eq!(complaints(&page).await, Vec::<String>::new());
}

#[tokio::test]
async fn messages_and_their_delays_are_reported() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let (mut alice, mut bob) = (mesh.peer("alice").await, mesh.peer("bob").await);
    for id in 1..=20 {
        exchange((&mut alice, &mut bob), &json!(id), id).await;
    }
    let are_counted = async || {
        let answer = admin(&mesh.node_internal(0), "GET", "nodes").await;
        let (node, balancer) = (&answer["nodes"][0]["server"], &answer["balancers"][0]["server"]);
        let delays: u64 = balancer["latency_us"].as_array()?.iter().map(|pair| pair[1].as_u64().unwrap()).sum();
        let counts = [node, balancer].map(|server| (&server["totals"]["messages"], &server["totals"]["delivered"]));
        let all_messages =
            counts.iter().all(|(sent, delivered)| sent.as_u64() >= Some(20) && delivered.as_u64() >= Some(20));
        (all_messages && delays == 20).then_some(())
    };
    until_some("the messages to be counted", are_counted).await;
}

async fn connect(mesh: &TestMesh) -> Vec<Peer> {
    let balancers = mesh.state().balancers;
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        clients.push(Peer::connect(&balancers[n % balancers.len()].url, &format!("watched-{n}")).await);
    }
    clients
}

/// Opens the page of a server, enters the token, and waits for the first figures.
async fn open<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &str) -> Page<'a> {
    let state = mesh.state();
    let internal = &state.servers().find(|server| server.id == id).unwrap().internal;
    let page = browser.open("dashboard", &format!("{internal}/dashboard")).await;
    page.becomes("document.querySelector('#token')?.hidden === false").await;
    page.type_into("#token-field", &admin_token(internal).unwrap()).await;
    page.click("#token button").await;
    page.shows("#live", "● live").await;
    page.shows("#by", id).await;
    page
}

/// Returns the errors in the page's console, except two that must be there: an exception of this
/// test, and the answer that made the page ask for the token.
async fn complaints(page: &Page<'_>) -> Vec<String> {
    page.evaluate("queueMicrotask(() => { throw new Error('on purpose') })").await;
    let mut all = page.complaints().await;
    for expected in ["on purpose", "401"] {
        assert!(all.extract_if(.., |complaint| complaint.contains(expected)).count() > 0, "no {expected}");
    }
    all
}

async fn badge_shows(page: &Page<'_>, id: &str, badge: &str) {
    page.shows(&format!(".cards [data-id='{id}'] .badge"), badge).await;
}

async fn includes(page: &Page<'_>, selector: &str, text: &str) {
    page.becomes(&format!("document.querySelector('{selector}').textContent.includes({})", json!(text))).await;
}
