//! Two browsers at different nodes find each other through the demo page, then talk directly.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::cut::Forwards;
use signaling_integration_tests::{Chromium, Page, TestMesh, stays};

const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn two_browsers_at_different_nodes_talk_over_a_data_channel() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = mesh().await;
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let ada_page = open(&browser, &mesh, &ada).await;
    let bob_page = open(&browser, &mesh, &bob).await;

    call(&ada_page, &bob).await;

    for (page, own_node, peer, peer_node) in
        [(&ada_page, "node-0", &bob, "node-1"), (&bob_page, "node-1", &ada, "node-0")]
    {
        page.shows("#channel-state", "open", SOON).await;
        page.shows("#my-node", own_node, SOON).await;
        page.shows("#peer-id", peer, SOON).await;
        page.shows("#peer-node", peer_node, SOON).await;
    }
    say(&ada_page, "Hello, Bob. <b>ø 😀</b>").await;
    bob_page.shows(THEIR_TEXT, "Hello, Bob. <b>ø 😀</b>", SOON).await;
    say(&bob_page, "Hello, Ada.").await;
    ada_page.shows(THEIR_TEXT, "Hello, Ada.", SOON).await;
    ada_page.shows(OWN_TEXT, "Hello, Bob. <b>ø 😀</b>", SOON).await;
    for page in [&ada_page, &bob_page] {
        assert_eq!(page.complaints().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn two_browsers_find_each_other_only_while_their_nodes_do() {
    let Some(browser) = Chromium::start().await else { return };
    let mesh = mesh().await;
    let forwards = Forwards::to(&mesh, "node-1").await;
    forwards.until_used(&mesh, "node-0").await;
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let ada_page = open(&browser, &mesh, &ada).await;
    let bob_page = open(&browser, &mesh, &bob).await;
    forwards.cut();

    call(&ada_page, &bob).await;

    ada_page.shows("#peer-state", "calling", SOON).await;
    let nothing_comes = || async {
        let ada_waits = ada_page.text("#peer-state").await.as_deref() == Some("calling");
        ada_waits && bob_page.text("#peer-state").await.as_deref() == Some("none")
    };
    stays("no call comes through between the nodes", Duration::from_secs(5), nothing_comes).await;
    forwards.heal();
    for page in [&ada_page, &bob_page] {
        page.shows("#channel-state", "open", Duration::from_secs(30)).await;
        assert_eq!(page.complaints().await, Vec::<String>::new());
    }
}

const OWN_TEXT: &str = "#log li[data-from=me] .text";
const THEIR_TEXT: &str = "#log li[data-from=peer] .text";

async fn mesh() -> TestMesh {
    TestMesh::with(|options| {
        options.balancer_args = ["--demo", "--reveal-nodes"].map(str::to_owned).into();
        options.node_args = vec!["--reveal-nodes".to_owned()];
    })
    .await
}

async fn open<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &str) -> Page<'a> {
    let page = browser.open(id, &format!("http://{}/?id={id}", mesh.address())).await;
    page.shows("#signaling-state", "connected", SOON).await;
    page.shows("#me", id, SOON).await;
    page
}

async fn call(page: &Page<'_>, peer: &str) {
    page.type_into("#call-id", peer).await;
    page.click("#call-button").await;
}

async fn say(page: &Page<'_>, text: &str) {
    page.type_into("#message", text).await;
    page.click("#send-button").await;
}
