//! The dashboard shows what happens in the mesh within two seconds, from any server, with one page that only looks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::{Chromium, Page, Peer, TestMesh, eventually};
use tokio::time::{Instant, timeout};

/// What the dashboard promises of a kill, a drain and a new node.
const AT_ONCE: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(20);
const CLIENTS: usize = 60;

#[tokio::test]
async fn in_a_browser_a_kill_a_new_node_and_a_drain_show_within_two_seconds() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::with(two_balancers).await;
    let clients = connect(&mesh).await;
    let page = open(&browser, &mesh, "node-0").await;
    for id in ["node-0", "node-1", "node-2", "balancer-0", "balancer-1"] {
        badge_shows(&page, id, "● serving").await;
    }
    page.shows("#clients", &CLIENTS.to_string(), SOON).await;

    let told = Instant::now();
    let killed = tokio::spawn({
        let mesh = Arc::clone(&mesh.mesh);
        async move { mesh.kill("node-1").await }
    });
    badge_shows(&page, "node-1", "✕ no answer").await;
    let silent = told.elapsed();
    log_tells(&page, "moved from node-1 to").await;
    let moved = told.elapsed();
    killed.await.unwrap().unwrap();
    badge_shows(&page, "node-1", "– gone").await;
    page.shows("#clients", &CLIENTS.to_string(), SOON).await;
    // Who never notices that it is gone will doubt its namesake for a while, and the page will say so.
    eventually("all views to be without it", SOON, || async { is_forgotten(&mesh, "node-1").await.then_some(()) })
        .await;

    let scaled = tokio::spawn({
        let mesh = Arc::clone(&mesh.mesh);
        async move { mesh.scale(3).await }
    });
    let is_announced = || async { mesh.mesh.state().nodes.iter().any(|node| node.id == "node-1").then(Instant::now) };
    let announced = eventually("the new node to be announced", SOON, is_announced).await;
    badge_shows(&page, "node-1", "● serving").await;
    let joined = announced.elapsed();
    scaled.await.unwrap().unwrap();

    let told = Instant::now();
    let drained = tokio::spawn({
        let mesh = Arc::clone(&mesh.mesh);
        async move { mesh.drain("node-2").await }
    });
    badge_shows(&page, "node-2", "◐ draining").await;
    let draining = told.elapsed();
    drained.await.unwrap().unwrap();
    badge_shows(&page, "node-2", "– gone").await;
    log_tells(&page, "node-2 has drained and stopped").await;
    page.shows("#clients", &CLIENTS.to_string(), SOON).await;

    println!(
        "a kill shows after {silent:?}, its moves after {moved:?}, a new node after {joined:?}, a drain after {draining:?}"
    );
    for (what, took) in [("kill", silent), ("moves", moved), ("new node", joined), ("drain", draining)] {
        assert!(took < AT_ONCE, "{what}: {took:?}");
    }
    assert_eq!(page.complaints().await, Vec::<String>::new());
    drop(clients);
}

#[tokio::test]
async fn in_a_browser_it_is_told_that_the_server_itself_is_gone_and_the_page_goes_on_when_it_is_back() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::start().await;
    let page = open(&browser, &mesh, "node-0").await;
    page.comes_to("document.querySelector('#lost').hidden", SOON).await;

    mesh.mesh.kill("node-0").await.unwrap();
    page.comes_to("!document.querySelector('#lost').hidden", SOON).await;
    page.shows("#live", "✕ not live", SOON).await;
    mesh.mesh.restart("node-0").await.unwrap();
    page.shows("#live", "● live", SOON).await;
    page.comes_to("document.querySelector('#lost').hidden", SOON).await;
    badge_shows(&page, "node-0", "● serving").await;
}

#[tokio::test]
async fn in_a_browser_a_node_that_hangs_and_discovery_that_breaks_show_until_they_are_mended() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = TestMesh::start().await;
    let page = open(&browser, &mesh, "node-0").await;

    mesh.mesh.pause("node-2").await.unwrap();
    needs_a_look(&page, "node-2 has not answered for").await;
    needs_a_look(&page, "node-2 is not relied on by").await;
    mesh.mesh.resume("node-2").await.unwrap();
    badge_shows(&page, "node-2", "● serving").await;
    page.comes_to("document.querySelector('#troubles').hidden", SOON).await;

    let list = mesh.dir.path().join("nodes.json");
    let good = std::fs::read(&list).unwrap();
    std::fs::write(&list, "broken").unwrap();
    needs_a_look(&page, "Discovery is stale at").await;
    badge_shows(&page, "node-0", "◔ stale view").await;
    std::fs::write(&list, good).unwrap();
    badge_shows(&page, "node-0", "● serving").await;
    page.comes_to("document.querySelector('#troubles').hidden", SOON).await;
    assert_eq!(page.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn every_server_shows_all_others_and_what_they_do() {
    let mesh = TestMesh::with(two_balancers).await;
    let mut clients = connect(&mesh).await;
    let state = mesh.mesh.state();
    let nodes = state.nodes.iter().map(|node| (&node.id, &node.internal));
    let balancers = state.balancers.iter().map(|balancer| (&balancer.id, &balancer.internal));
    for (id, internal) in nodes.chain(balancers) {
        let mut watching = Watching::start(internal).await;
        let all_serve = |snapshot: &Value| {
            let servers = snapshot["servers"].as_array().unwrap();
            servers.len() == 5 && servers.iter().all(|server| server["state"] == "serving")
        };
        let snapshot = watching.until(all_serve).await;
        assert_eq!((&snapshot["by"], &snapshot["mesh"]["clients"]), (&json!(id), &json!(CLIENTS)));
        let at_balancers: u64 = snapshot["servers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|server| server["role"] == "balancer")
            .map(|server| server["clients"].as_u64().unwrap())
            .sum();
        assert_eq!(at_balancers, CLIENTS as u64);

        if id != "node-0" && id != "balancer-0" {
            continue;
        }
        let (one, others) = clients.split_first_mut().unwrap();
        for n in 0..20 {
            one.signal("watched-1", json!(n), None).await;
            others[0].recv_type("signal").await;
        }
        let counted = |snapshot: &Value| {
            snapshot["mesh"]["messages_per_s"].as_f64() > Some(0.0)
                && snapshot["mesh"]["delivered_per_s"].as_f64() > Some(0.0)
                && snapshot["mesh"]["p99_us"].as_u64().is_some_and(|p99| p99 < 5_000_000)
        };
        watching.until(counted).await;
    }
}

fn two_balancers(options: &mut MeshOptions) {
    options.balancers = 2;
}

async fn connect(mesh: &TestMesh) -> Vec<Peer> {
    let balancers = mesh.mesh.state().balancers;
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        clients.push(Peer::connect(&balancers[n % balancers.len()].url, &format!("watched-{n}")).await);
    }
    clients
}

/// Opens the page of a server, and waits until figures have come.
async fn open<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &str) -> Page<'a> {
    let state = mesh.mesh.state();
    let internal = &state.nodes.iter().find(|node| node.id == id).unwrap().internal;
    let page = browser.open("dashboard", &format!("{internal}/dashboard")).await;
    page.shows("#live", "● live", SOON).await;
    page.shows("#by", id, SOON).await;
    page
}

async fn badge_shows(page: &Page<'_>, id: &str, badge: &str) {
    page.shows(&format!(".cards [data-id='{id}'] .badge"), badge, SOON).await;
}

async fn log_tells(page: &Page<'_>, text: &str) {
    page.comes_to(&format!("document.querySelector('#log').textContent.includes({})", json!(text)), SOON).await;
}

async fn needs_a_look(page: &Page<'_>, text: &str) {
    let said = format!("document.querySelector('#troubles-list').textContent.includes({})", json!(text));
    page.comes_to(&said, SOON).await;
}

async fn is_forgotten(mesh: &TestMesh, node: &str) -> bool {
    let http = reqwest::Client::builder().no_proxy().timeout(SOON).build().unwrap();
    let state = mesh.mesh.state();
    let nodes = state.nodes.iter().map(|node| &node.internal);
    for internal in nodes.chain(state.balancers.iter().map(|balancer| &balancer.internal)) {
        let status = http.get(format!("{internal}/dashboard/status")).send().await.unwrap();
        let status: Value = status.json().await.unwrap();
        if status["view"]["nodes"].as_array().unwrap().iter().any(|viewed| viewed["id"] == node) {
            return false;
        }
    }
    true
}

/// A stream of snapshots, as a program reads it.
struct Watching {
    response: reqwest::Response,
    unread: String,
}

impl Watching {
    async fn start(internal: &str) -> Self {
        // No limit to the whole: a stream has no end.
        let http = reqwest::Client::builder().no_proxy().connect_timeout(SOON).read_timeout(SOON).build().unwrap();
        let response = http.get(format!("{internal}/dashboard/events")).send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, unread: String::new() }
    }

    /// The first snapshot that is so.
    async fn until(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = async {
            loop {
                last = self.next().await;
                if is_so(&last) {
                    return;
                }
            }
        };
        assert!(timeout(SOON, found).await.is_ok(), "{last:#}");
        last
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let snapshot = event.strip_prefix("data: ").map(|data| serde_json::from_str(data).unwrap());
                self.unread = rest.to_owned();
                if let Some(snapshot) = snapshot {
                    return snapshot;
                }
            } else {
                let chunk = self.response.chunk().await.unwrap().expect("the stream has ended");
                self.unread.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        }
    }
}
