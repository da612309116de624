//! A page with the browser SDK stays connected while it has new tokens, and reconnects after a
//! close for lack of one.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::mint::now;
use signaling_integration_tests::{Chromium, Signer, TestMesh, claims_with, metric};

const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn page_renews_its_token_or_reconnects() {
    let Some(browser) = Chromium::start().await else { return };
    let signer = Signer::es256();
    let mesh = TestMesh::with_tokens(&signer, 1, 1, &[]).await;
    let internal = mesh.balancer();
    let page = browser.open("page", &format!("http://{}/client.js", mesh.address())).await;
    // The first of each lasts as long as the test needs to see it end.
    let tokens = |client: &str| {
        let token = |seconds: i64| signer.token(&claims_with(client, &json!({ "exp": now() + seconds })));
        json!([token(4), token(60), token(60)])
    };
    let script = format!(
        "(async () => {{
            const {{ Client }} = await import('/client.js');
            window.asked = {{}};
            const connect = (clientId, tokens, valid_ms) => {{
                window.asked[clientId] = 0;
                const token = async () => ({{ token: tokens[window.asked[clientId]++], valid_ms }});
                const client = new Client({{ urls: ['ws://{address}/v1/connect'], clientId, token, storage: null }});
                client.connect();
                return client;
            }};
            window.careful = connect('careful', {careful}, 2000);
            window.careless = connect('careless', {careless});
        }})()",
        address = mesh.address(),
        careful = tokens("careful"),
        careless = tokens("careless"),
    );
    page.evaluate(&script).await;
    // The careless one was closed with 4003, asked for another token, and is back.
    page.comes_to("window.asked.careless === 2 && window.asked.careful >= 2", SOON).await;
    let counts = async || {
        let count = async |name: &str| metric(&internal, name, "").await;
        (
            count("signaling_tokens_expired_total").await,
            count("signaling_client_sockets_opened_total").await,
            count("signaling_client_sockets").await,
        )
    };
    let settled = || async { (counts().await == (1.0, 3.0, 2.0)).then_some(()) };
    signaling_integration_tests::eventually("both to be in, the careful one on its first socket", SOON, settled).await;
    assert!(metric(&internal, "signaling_tokens_renewed_total", "").await >= 1.0);
}
