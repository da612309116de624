//! The demo page links to pages with PeerJS and y-webrtc, which work in two windows, at different
//! balancers.

use signaling_integration_tests::{Page, UpstreamMesh};

#[tokio::test]
async fn windows_of_the_peerjs_page_chat() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let [first, second] = windows(&setup, "/peerjs.html", "").await;
    let [first_id, second_id] = [first.text("#me").await.unwrap(), second.text("#me").await.unwrap()];
    first.type_into("#other", &second_id).await;
    second.type_into("#other", &first_id).await;
    // Both connect at once: one connection lasts.
    tokio::join!(first.click("#connect-button"), second.click("#connect-button"));
    first.shows("#chat-title", &format!("Chat with {second_id}")).await;
    second.shows("#chat-title", &format!("Chat with {first_id}")).await;
    for (from, to, text) in [(&first, &second, "Hello. <b>ø 😀</b>"), (&second, &first, "Hello yourself.")] {
        from.type_into("#message", text).await;
        from.click("#send-button").await;
        to.shows("#log li[data-from=peer] .text", text).await;
    }
    complain_of_nothing([first, second]).await;
}

#[tokio::test]
async fn windows_of_the_y_webrtc_page_share_a_text() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let [first, second] = windows(&setup, "/y-webrtc.html", "#den").await;
    first.evaluate("text.focus()").await;
    first.type_here("😀 b").await;
    second.becomes("text.value === '😀 b'").await;
    // The two emoji have the same first code unit.
    second.evaluate("text.focus(); text.setSelectionRange(0, 2)").await;
    second.type_here("😃").await;
    first.becomes("text.value === '😃 b'").await;
    // The caret is still behind the text.
    first.type_here("c").await;
    second.becomes("text.value === '😃 bc'").await;
    second.shows("#peers", "1").await;
    complain_of_nothing([first, second]).await;
}

/// Opens a page in two windows, at different balancers.
async fn windows<'a>(setup: &'a UpstreamMesh, path: &str, fragment: &str) -> [Page<'a>; 2] {
    let first = setup.open_demo_page(&setup.balancers[0], path, fragment).await;
    [first, setup.open_demo_page(&setup.balancers[1], path, fragment).await]
}

async fn complain_of_nothing(pages: [Page<'_>; 2]) {
    for page in pages {
        assert_eq!(page.complaints().await, Vec::<String>::new());
    }
}
