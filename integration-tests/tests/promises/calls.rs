//! Calls of the JavaScript SDK in real browsers. Two pages agree if each receives the labels, the
//! kinds and the sizes of decoded pictures that the other one publishes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_integration_tests::{Chromium, Page, TestMesh, within};
use tokio::time::sleep;

const MEMBER: &str = include_str!("calls/member.js");
/// Time limit of a change to arrive.
const CHANGE: Duration = Duration::from_secs(10);
const ROUNDS: u32 = 12;
const CHANGES: u32 = 25;
/// Tracks of a page: one picture.
const PICTURE: &str = "[160, 120]";

#[tokio::test]
async fn call_agrees_after_each_change_of_tracks() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let ann = enter(&browser, &mesh, "ann", PICTURE).await;
    let bob = enter(&browser, &mesh, "bob", "[200, 150], 'audio'").await;
    agree(&[&ann, &bob]).await;
    let steps = [
        ("microphone on", "publish('main', [160, 120], 'audio')"),
        ("microphone off", "publish('main', [160, 120])"),
        ("microphone on again", "publish('main', [160, 120], 'audio')"),
        ("screen with sound", "publish('screen', [240, 160], 'audio')"),
        ("camera replaced", "publish('main', [180, 136], 'audio')"),
    ];
    for (page, other) in [(&ann, &bob), (&bob, &ann)] {
        for (what, step) in steps {
            println!("{}: {what}", page.id);
            page.page.evaluate(step).await;
            agree(&[page, other]).await;
        }
        let transceivers = "call.peers[0].connection.getTransceivers().length";
        let before = page.page.evaluate(transceivers).await;
        for at in 0..20 {
            let sound = if at % 2 == 0 { "" } else { ", 'audio'" };
            page.page.evaluate(&format!("publish('main', [180, 136]{sound})")).await;
        }
        agree(&[page, other]).await;
        assert_eq!(page.page.evaluate(transceivers).await, before, "{}: toggles add transceivers", page.id);
    }
    tokio::join!(
        ann.page.evaluate("publish('extra', [120, 90])"),
        bob.page.evaluate("publish('extra', [200, 120], 'audio')")
    );
    agree(&[&ann, &bob]).await;
    let eve = enter(&browser, &mesh, "eve", "[120, 90]").await;
    agree(&[&ann, &bob, &eve]).await;
    ann.page.evaluate("publish('screen')").await;
    agree(&[&ann, &bob, &eve]).await;
    for member in [&ann, &bob, &eve] {
        assert_eq!(member.page.evaluate("[connectionsMade, failures]").await, json!([2, []]), "{}", member.id);
        assert_eq!(member.page.evaluate("signals").await, json!([]), "the application sees no signals of calls");
    }
}

#[tokio::test]
async fn call_agrees_after_random_changes_on_both_sides() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let (ann, bob) = (enter(&browser, &mesh, "ann", "").await, enter(&browser, &mesh, "bob", "").await);
    for round in 0..ROUNDS {
        let changes = |of: u32| format!("publishAtRandom({}, {CHANGES}).then(() => null)", 2 * round + of);
        // A page's changes go on while the other page is asked.
        let start = |of| format!("window.pending = {}; null", changes(of));
        ann.page.evaluate(&start(0)).await;
        bob.page.evaluate(&start(1)).await;
        ann.page.evaluate("pending").await;
        bob.page.evaluate("pending").await;
        agree(&[&ann, &bob]).await;
    }
    for member in [&ann, &bob] {
        assert_eq!(member.page.evaluate("[connectionsMade, failures]").await, json!([1, []]), "{}", member.id);
    }
}

#[tokio::test]
async fn member_is_away_soon_after_its_page_is_gone() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let Some(doomed) = Chromium::start().await else { return };
    let ann = enter(&browser, &mesh, "ann", PICTURE).await;
    let becomes = async |id: &str, is_away: bool, limit: u64| {
        let expression = format!("peer('{id}')?.isAway ?? null");
        let what = format!("isAway of {id} to become {is_away}");
        let is_it = async || (ann.page.evaluate(&expression).await == json!(is_away)).then_some(());
        let since = Instant::now();
        within(Duration::from_secs(limit), &what, is_it).await;
        println!("{what}: {:?}", since.elapsed());
    };

    let closed = enter(&browser, &mesh, "closed", PICTURE).await;
    agree(&[&ann, &closed]).await;
    closed.page.close().await;
    becomes("closed", true, 1).await;

    let left = enter(&browser, &mesh, "left", PICTURE).await;
    agree(&[&ann, &left]).await;
    left.page.navigate("about:blank").await;
    becomes("left", true, 1).await;
    left.page.evaluate("history.back()").await;
    left.page.becomes("location.href !== 'about:blank' && document.readyState === 'complete'").await;
    join(&left, PICTURE).await;
    becomes("left", false, 3).await;
    agree(&[&ann, &left]).await;

    let reloaded = enter(&browser, &mesh, "reloaded", PICTURE).await;
    agree(&[&ann, &reloaded]).await;
    ann.page.evaluate("window.before = peer('reloaded').stream; null").await;
    reloaded.page.reload().await;
    join(&reloaded, PICTURE).await;
    becomes("reloaded", false, 3).await;
    agree(&[&ann, &reloaded]).await;
    assert_eq!(ann.page.evaluate("peer('reloaded').stream === before").await, true, "the label has not ended");

    let killed = enter(&doomed, &mesh, "killed", PICTURE).await;
    agree(&[&ann, &killed]).await;
    drop(killed);
    drop(doomed);
    becomes("killed", true, 10).await;
}

#[tokio::test]
async fn reload_while_first_signals_are_held_connects() {
    let Some(browser) = Chromium::start().await else { return };
    for (held, reloaded, pause) in [(0, 1, 300), (1, 0, 300), (0, 1, 50), (1, 0, 50), (0, 0, 100), (1, 1, 100)] {
        let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
        let members = [open(&browser, &mesh, "ann").await, open(&browser, &mesh, "bob").await];
        members[held].page.evaluate("window.isHolding = true").await;
        for member in &members {
            join(member, PICTURE).await;
        }
        sleep(Duration::from_millis(pause)).await;
        let before = made(&members[reloaded]).await;
        members[reloaded].page.reload().await;
        join(&members[reloaded], PICTURE).await;
        members[held].page.evaluate("release()").await;
        agree(&[&members[0], &members[1]]).await;
        let made = before + made(&members[0]).await + made(&members[1]).await;
        // Two connections are those before the reload.
        assert!(made <= 2 + 3, "{made} connections, held {held}, reloaded {reloaded} after {pause} ms");
    }
}

#[tokio::test]
async fn full_channel_keeps_no_message_from_others() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let ann = enter(&browser, &mesh, "ann", "").await;
    let mut others = Vec::new();
    for id in ["bob", "eve", "tom"] {
        others.push(enter(&browser, &mesh, id, "").await);
    }
    ann.page.becomes("call.peers.filter(({ channelState }) => channelState === 'open').length === 3").await;
    // A channel sends nothing before the task ends.
    let fill = "while (call.send('x'.repeat(200_000), { to: 'bob' }).length > 0);";
    let took = ann.page.evaluate(&format!("(() => {{ {fill} return call.send('to all'); }})()")).await;
    assert_eq!(took, json!(["eve", "tom"]));
    let failure = json!(["bob", "channel_full"]);
    assert_eq!(ann.page.evaluate("failures").await, json!([failure, failure]));
    for other in &others[1..] {
        other.page.becomes("JSON.stringify(messages) === JSON.stringify([['ann', 'to all']])").await;
    }
}

#[tokio::test]
async fn description_over_the_limit_is_one_failure() {
    let Some((browser, mesh)) = start(&[]).await else { return };
    let members = [open(&browser, &mesh, "ann").await, open(&browser, &mesh, "bob").await];
    for member in &members {
        member.page.evaluate("window.extraBytes = 70_000").await;
        join(member, PICTURE).await;
    }
    let [ann, bob] = &members;
    bob.page.becomes("failures.length > 0").await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bob.page.evaluate("failures").await, json!([["ann", "too_large"]]));
    assert_eq!(ann.page.evaluate("failures").await, json!([]));
    assert_eq!([made(ann).await, made(bob).await], [1, 1]);
    bob.page.evaluate("extraBytes = 0; call.reconnect('ann')").await;
    ann.page.evaluate("extraBytes = 0").await;
    agree(&[ann, bob]).await;
}

#[tokio::test]
async fn connections_use_valid_turn_credentials_in_long_calls() {
    let files = tempfile::tempdir().unwrap();
    let secret = files.path().join("secret");
    std::fs::write(&secret, "what-coturn-and-the-nodes-share").unwrap();
    let secret = format!("--turn-secret-file={}", secret.display());
    let flags = ["--turn-urls=turn:127.0.0.1:3478?transport=udp", &secret, "--turn-ttl-s=4"];
    let Some((browser, mesh)) = start(&flags).await else { return };
    let ann = enter(&browser, &mesh, "ann", PICTURE).await;
    let bob = enter(&browser, &mesh, "bob", PICTURE).await;
    agree(&[&ann, &bob]).await;
    sleep(Duration::from_secs(12)).await;
    let left = async |id: &str| ann.page.evaluate(&format!("secondsLeft(peer('{id}').connection)")).await;
    assert!(left("bob").await.as_f64().unwrap() < -4.0, "the first connection has old credentials");

    let eve = enter(&browser, &mesh, "eve", PICTURE).await;
    assert!(left("eve").await.as_f64().unwrap() > 0.0, "a new connection has new credentials");
    agree(&[&ann, &bob, &eve]).await;
    for (page, other) in [(&ann, &bob), (&bob, &ann)] {
        let before = ice(page, other).await;
        // As the browser does when the path fails.
        let fail = format!(
            "Object.defineProperty(peer('{id}').connection, 'connectionState', {{ configurable: true, get: () => 'failed' }});
            peer('{id}').connection.onconnectionstatechange(); delete peer('{id}').connection.connectionState; null",
            id = other.id
        );
        page.page.evaluate(&fail).await;
        let seconds = page.page.evaluate(&format!("secondsLeft(peer('{}').connection)", other.id)).await;
        assert!(seconds.as_f64().unwrap() > 0.0, "an ICE restart has new credentials: {seconds}");
        within(CHANGE, "the ICE restart", async || (ice(page, other).await != before).then_some(())).await;
        agree(&[&ann, &bob, &eve]).await;
    }
}

struct Member<'a> {
    id: &'static str,
    page: Page<'a>,
}

/// Starts a browser and a mesh with these flags of its node. `None` if no browser is installed.
async fn start(node_flags: &[&str]) -> Option<(Chromium, TestMesh)> {
    Some((Chromium::start().await?, TestMesh::with_servers((1, 1), node_flags, &[]).await))
}

/// Opens a page that joins the call with these tracks.
async fn enter<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &'static str, tracks: &str) -> Member<'a> {
    let member = open(browser, mesh, id).await;
    join(&member, tracks).await;
    member
}

/// Opens a page that has loaded `MEMBER`.
async fn open<'a>(browser: &'a Chromium, mesh: &TestMesh, id: &'static str) -> Member<'a> {
    let page = browser.open(id, &format!("http://{}/signaling-mesh.mjs", mesh.address())).await;
    page.evaluate(MEMBER).await;
    Member { id, page }
}

async fn join(member: &Member<'_>, tracks: &str) {
    // A page from the browser's cache goes on by itself.
    if member.page.evaluate("'client' in window").await == json!(true) {
        return;
    }
    member.page.evaluate(MEMBER).await;
    let items = if tracks.is_empty() { String::new() } else { format!(", {tracks}") };
    member.page.evaluate(&format!("enter('{}'{items})", member.id)).await;
}

async fn made(member: &Member<'_>) -> u64 {
    member.page.evaluate("connectionsMade").await.as_u64().unwrap()
}

/// Returns the ICE user name of a connection.
async fn ice(member: &Member<'_>, other: &Member<'_>) -> Value {
    let expression = format!("peer('{}').connection.remoteDescription.sdp.match(/ice-ufrag:(.*)/)[1]", other.id);
    member.page.evaluate(&expression).await
}

/// Waits until all pages agree. Panics after 10 s with the difference.
async fn agree(members: &[&Member<'_>]) {
    for from in members {
        for to in members.iter().filter(|to| to.id != from.id) {
            let [mut sends, mut gets] = [Value::Null, Value::Null];
            let start = Instant::now();
            while start.elapsed() < CHANGE && (sends.is_null() || sends != gets) {
                sends = from.page.evaluate("sends()").await;
                gets = to.page.evaluate(&format!("gets('{}')", from.id)).await;
                sleep(Duration::from_millis(10)).await;
            }
            let failures = to.page.evaluate("failures").await;
            assert_eq!(sends, gets, "{} and {} do not agree; failures: {failures}", from.id, to.id);
        }
    }
}
