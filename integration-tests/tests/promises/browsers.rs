//! Browsers meet in a room through the demo page and then connect directly, during all faults of
//! servers.

use std::time::{Duration, Instant};

use serde_json::json;
use signaling_integration_tests::{Chromium, Page, TestMesh, stays, with_buttons};

const ROOM: &str = "den";
const OWN_TEXT: &str = "#log li[data-from=me] .text";
const THEIR_TEXT: &str = "#log li[data-from=peer] .text";

#[tokio::test]
async fn browsers_at_different_nodes_talk_directly() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let ada_page = enter(&browser, &mesh, &ada).await;
    let bob_page = enter(&browser, &mesh, &bob).await;

    for (page, own_node, peer, peer_node) in
        [(&ada_page, "node-0", &bob, "node-1"), (&bob_page, "node-1", &ada, "node-0")]
    {
        meets(page, peer).await;
        page.shows("#my-node", own_node).await;
        page.shows(&format!("#tiles [data-id='{peer}'] .node"), peer_node).await;
        page.becomes(&format!("document.querySelector(\"#tiles [data-id='{peer}'] video\").videoWidth > 0")).await;
    }
    say(&ada_page, "Hello, Bob. <b>ø 😀</b>").await;
    bob_page.shows(THEIR_TEXT, "Hello, Bob. <b>ø 😀</b>").await;
    say(&bob_page, "Hello, Ada.").await;
    ada_page.shows(THEIR_TEXT, "Hello, Ada.").await;

    bob_page.reload().await;
    meets(&bob_page, &ada).await;
    meets(&ada_page, &bob).await;
    bob_page.becomes("document.querySelector('#log').childElementCount === 0").await;
    say(&ada_page, "Back already?").await;
    bob_page.shows(THEIR_TEXT, "Back already?").await;
    for page in [&ada_page, &bob_page] {
        assert_eq!(page.complaints().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn second_window_meets_the_first_within_2_s_of_a_click() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let first = browser.open("first", &format!("http://{}/", mesh.address())).await;
    first.becomes("/^#room=[a-z0-9]{6}$/.test(location.hash)").await;
    first.shows("#count", "You are alone here").await;
    first.becomes("document.querySelector('#tiles video').videoWidth > 0").await;

    let link = first.evaluate("document.querySelector('#open-button').href").await;
    assert_eq!(link, first.evaluate("location.href").await);
    let click = Instant::now();
    let second = browser.open("second", link.as_str().unwrap()).await;
    for page in [&first, &second] {
        page.becomes("document.querySelector('#tiles [data-peer] video')?.videoWidth > 0").await;
    }
    assert!(click.elapsed() < Duration::from_secs(2), "{:?}", click.elapsed());
}

#[tokio::test]
async fn picture_stays_when_the_microphone_is_turned_on_later() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let ada = enter(&browser, &mesh, "ada").await;
    let bob = enter(&browser, &mesh, "bob").await;
    meets(&bob, "ada").await;
    let bob_gets = async |kinds: &str, width: u32| {
        let video = "document.querySelector('#tiles [data-peer] video')";
        let kinds = format!("{video}.srcObject?.getTracks().map(({{ kind }}) => kind).sort().join() === '{kinds}'");
        bob.becomes(&format!("{kinds} && {video}.videoWidth === {width} && !{video}.paused")).await;
    };
    bob_gets("video", 320).await;
    for (button, kinds, width) in [
        ("#sound-button", "audio,video", 320),
        ("#sound-button", "video", 320),
        ("#camera-button", "video", 640),
        ("#sound-button", "audio,video", 640),
        ("#camera-button", "audio,video", 320),
    ] {
        ada.click(button).await;
        bob_gets(kinds, width).await;
    }
    assert_eq!(bob.complaints().await, Vec::<String>::new());
}

#[tokio::test]
async fn picture_of_a_closed_tab_is_grey() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let ada = enter(&browser, &mesh, "ada").await;
    let bob = enter(&browser, &mesh, "bob").await;
    meets(&ada, "bob").await;
    bob.close().await;
    ada.shows("#tiles [data-id=bob] .badge", "away").await;
    ada.becomes("getComputedStyle(document.querySelector('#tiles .away video')).filter.includes('grayscale')").await;
}

#[tokio::test]
async fn call_survives_kills_of_its_balancer_and_node() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let _control = mesh.serve_control().await;
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let ada_page = enter(&browser, &mesh, &ada).await;
    let bob_page = enter(&browser, &mesh, &bob).await;
    meets(&ada_page, &bob).await;
    meets(&bob_page, &ada).await;

    mesh.kill("balancer-0").await.unwrap();
    ada_page.becomes("!document.querySelector('#trouble').hidden").await;
    say(&ada_page, "Still here?").await;
    bob_page.shows(THEIR_TEXT, "Still here?").await;
    mesh.restart("balancer-0").await.unwrap();
    for page in [&ada_page, &bob_page] {
        page.shows("#signaling-state", "connected").await;
    }

    // This window is too narrow to show the mesh beside the call.
    ada_page.click("#mesh summary").await;
    ada_page.becomes("document.querySelector(\"#nodes [data-id=node-0] [data-act=kill]\")?.disabled === false").await;
    ada_page.click("#nodes [data-id=node-0] [data-act=kill]").await;
    ada_page.becomes("/^node-[12]$/.test(document.querySelector('#my-node').textContent)").await;
    ada_page.becomes("/ada-.*: node-0 → node-/.test(document.querySelector('#moves').textContent)").await;
    bob_page.becomes("/ada-.*: node-0 → node-/.test(document.querySelector('#moves').textContent)").await;
    say(&bob_page, "Still.").await;
    ada_page.shows(THEIR_TEXT, "Still.").await;

    let eve = mesh.id_owned_by("node-2", "eve");
    let eve_page = enter(&browser, &mesh, &eve).await;
    for (page, peer) in [(&eve_page, &ada), (&eve_page, &bob), (&ada_page, &eve), (&bob_page, &eve)] {
        meets(page, peer).await;
    }
    for page in [&ada_page, &bob_page] {
        assert_eq!(page.evaluate("window.endedChannels").await, 0);
        let complaints = page.complaints().await;
        // The browser itself reports the absence of the balancer.
        let others: Vec<_> = complaints.iter().filter(|text| !text.contains("net::ERR_")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

#[tokio::test]
async fn fourth_browser_waits_when_the_room_is_full() {
    let flags = ["--room-capacity=3", "--resume-ms=1000"];
    let Some((browser, mesh)) = start(&flags).await else { return };
    let mut pages = Vec::new();
    for id in ["one", "two", "three"] {
        pages.push((id, enter(&browser, &mesh, id).await));
    }
    for (id, page) in &pages {
        for (other, _) in pages.iter().filter(|(other, _)| other != id) {
            meets(page, other).await;
        }
        page.shows("#count", "3 are here, of 3 at most").await;
    }

    let fourth = open(&browser, &mesh, "four").await;
    fourth.shows("#queue-text", "The room is full. You are next.").await;
    let fifth = open(&browser, &mesh, "five").await;
    fifth.shows("#queue-text", "The room is full. One person is ahead of you, 2 in the queue.").await;
    pages.remove(0).1.close().await;

    for (id, page) in &pages {
        meets(page, "four").await;
        meets(&fourth, id).await;
    }
    fifth.shows("#queue-text", "The room is full. You are next.").await;
    fourth.shows("#count", "3 are here, of 3 at most").await;
}

#[tokio::test]
async fn reloaded_page_resumes_unseen_by_a_full_room_and_its_queue() {
    let Some((browser, mesh)) = start(&["--room-capacity=2"]).await else { return };
    let ada = enter(&browser, &mesh, "ada").await;
    let bob = enter(&browser, &mesh, "bob").await;
    meets(&ada, "bob").await;
    let eve = open(&browser, &mesh, "eve").await;
    eve.shows("#queue-text", "The room is full. You are next.").await;
    let seen = async || {
        let mut seen = Vec::new();
        for page in [&ada, &eve] {
            for kind in ["joined", "members_changed", "waiting", "left"] {
                seen.push(page.received(kind).await);
            }
        }
        seen
    };
    let before = seen().await;

    bob.reload().await;
    meets(&bob, "ada").await;
    meets(&ada, "bob").await;

    let resumed: Vec<_> = bob.received("welcome").await.iter().map(|it| it["resumed"].clone()).collect();
    assert_eq!(resumed, [true]);
    // Changes of a room are gathered for 0.2 s.
    stays("no other page sees the reload", Duration::from_secs(1), async || seen().await == before).await;
    bob.shows("#count", "2 are here, of 2 at most").await;
    eve.shows("#queue-text", "The room is full. You are next.").await;
}

/// Makes a client of the page's sessionStorage and connects it.
const CONNECT: &str = "
    import('/signaling-mesh.mjs').then(({ Client }) => {
        window.states = [];
        window.client = new Client('ws://' + location.host, { clientId: 'me' });
        client.on('state', ({ reason, ...change }) => states.push({ ...change, code: reason?.closeCode }));
        client.connect();
    })";
const IS_CONNECTED: &str = "window.states?.at(-1)?.state === 'connected'";

#[tokio::test]
async fn page_shown_again_from_the_cache_resumes_its_session() {
    let Some(browser) = Chromium::start().await else { return };
    let (_mesh, page) = connected_page(&browser).await;

    page.evaluate("states.length = 0; location.href = '/signaling-mesh.js'; null").await;
    page.becomes("location.pathname === '/signaling-mesh.js' && document.readyState === 'complete'").await;
    page.evaluate("history.back(); null").await;
    page.becomes("location.pathname === '/signaling-mesh.mjs'").await;

    page.becomes(IS_CONNECTED).await;
    assert_eq!(page.evaluate("states.map(({ state }) => state)").await, json!(["reconnecting", "connected"]));
    assert_eq!(page.evaluate("states.at(-1).isResumed").await, true);
}

#[tokio::test]
async fn one_of_two_tabs_resumes_their_saved_session() {
    let Some(browser) = Chromium::start().await else { return };
    let (_mesh, page) = connected_page(&browser).await;

    // A page that opens another one gives it a copy of its sessionStorage.
    page.evaluate("client.detach(); window.copy = window.open('/signaling-mesh.mjs'); null").await;
    page.becomes("copy.location.pathname === '/signaling-mesh.mjs' && copy.document.readyState === 'complete'").await;
    page.evaluate(&format!("copy.eval({})", json!(CONNECT))).await;
    page.becomes(&IS_CONNECTED.replace("window", "copy")).await;
    page.evaluate("client.connect(); null").await;

    // It has the id still, which the other tab holds.
    page.becomes("states.at(-1).code === 4409").await;
    assert_eq!(page.evaluate("copy.states.at(-1).isResumed").await, true);
}

async fn connected_page(browser: &Chromium) -> (TestMesh, Page<'_>) {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let page = browser.open("page", &format!("http://{}/signaling-mesh.mjs", mesh.address())).await;
    page.evaluate(CONNECT).await;
    page.becomes(IS_CONNECTED).await;
    (mesh, page)
}

/// Starts a browser, and a mesh with the page and these flags of nodes. `None` if no browser is
/// installed.
async fn start(node_flags: &[&str]) -> Option<(Chromium, TestMesh)> {
    let browser = Chromium::start().await?;
    let mesh = TestMesh::with_options(|options| {
        with_buttons(options);
        options.node_args.extend(node_flags.iter().map(ToString::to_string));
    });
    Some((browser, mesh.await))
}

/// Opens the page in the room, and waits until it is in.
async fn enter<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &str) -> Page<'a> {
    let page = open(browser, mesh, id).await;
    page.becomes("/here/.test(document.querySelector('#count').textContent)").await;
    page
}

async fn open<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &str) -> Page<'a> {
    let page = browser.open(id, &format!("http://{}/?id={id}#room={ROOM}", mesh.address())).await;
    page.shows("#signaling-state", "connected").await;
    page.shows("#me", id).await;
    page
}

async fn meets(page: &Page<'_>, peer: &str) {
    let state = format!("document.querySelector(\"#tiles [data-id='{peer}'] .badge\")?.dataset.state");
    page.becomes(&format!("{state} === 'connected'")).await;
}

async fn say(page: &Page<'_>, text: &str) {
    page.becomes("!document.querySelector('#send-button').disabled").await;
    page.type_into("#message", text).await;
    page.click("#send-button").await;
    page.shows(OWN_TEXT, text).await;
}
