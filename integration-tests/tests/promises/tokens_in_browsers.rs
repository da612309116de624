//! A page with the browser SDK stays connected while it has new tokens, and reconnects after a
//! close for lack of one.

use serde_json::json;
use signaling_integration_tests::mint::now;
use signaling_integration_tests::{Chromium, Signer, TestMesh, claims_with, eventually};

/// Connects one client that passes its token's validity and renews it, and one that passes none.
const CONNECT: &str = include_str!("tokens_in_browsers/connect.js");

#[tokio::test]
async fn page_renews_its_token_or_reconnects() {
    let Some(browser) = Chromium::start().await else { return };
    let signer = Signer::es256();
    let mesh = TestMesh::with_tokens(&signer, (1, 1), &[], &[]).await;
    let page = browser.open("page", &format!("http://{}/signaling-mesh.mjs", mesh.address())).await;
    // The first of each expires during the test, on a slow machine not before the page is there.
    let tokens = |client: &str| {
        let token = |seconds: i64| signer.token(&claims_with(client, &json!({ "exp": now() + seconds })));
        json!([token(8), token(60), token(60)])
    };
    let options = json!({ "address": mesh.address(), "careful": tokens("careful"), "careless": tokens("careless") });
    page.evaluate(&format!("({CONNECT})({options})")).await;
    // The careless one was closed with 4003 and reconnected with another token.
    page.becomes("window.asked.careless === 2 && window.asked.careful >= 2").await;
    let counts = async || {
        let mut counts = Vec::new();
        for name in ["tokens_expired_total", "client_sockets_opened_total", "client_sockets"] {
            counts.push(mesh.balancer_metric(&format!("signaling_{name}"), "").await);
        }
        counts
    };
    eventually("both to be in, the careful one on its first socket", async || counts().await == [1.0, 3.0, 2.0]).await;
    assert!(mesh.balancer_metric("signaling_tokens_renewed_total", "").await >= 1.0);
}
