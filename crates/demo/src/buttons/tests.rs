//! Requests of buttons, with a control socket in place of `mesh-dev`.

use axum::body::{Body, to_bytes};
use http::{HeaderValue, Request};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;
use tower::ServiceExt as _;

use super::*;

const KILL: &str = r#"{"command":"kill","id":"node-1"}"#;

/// Returns a request as the page sends it.
fn page(body: &str) -> Request<Body> {
    let mut request = Request::post(PATH)
        .header(HOST, "127.0.0.1:8080")
        .header(ORIGIN, "http://127.0.0.1:8080")
        .header(MARK, "1")
        .body(Body::from(body.to_owned()))
        .unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 5000))));
    request
}

/// Returns the request of a button with these headers replaced.
fn with<const N: usize>(headers: [(HeaderName, &'static str); N]) -> Request<Body> {
    changed(|request| {
        for (name, value) in headers {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    })
}

fn changed(change: impl FnOnce(&mut Request<Body>)) -> Request<Body> {
    let mut request = page(KILL);
    change(&mut request);
    request
}

async fn ask(control: Option<PathBuf>, request: Request<Body>) -> (u16, Value) {
    let response = router(control).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn mesh_dev_gets_the_request_and_its_answer_reaches_the_page() {
    for (answer, status, part) in [
        (r#"{"result":"done"}"#, 200, json!({ "result": "done" })),
        (r#"{"result":"failed","message":"it is down"}"#, 409, json!({ "code": "refused", "message": "it is down" })),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("control.sock");
        let listener = UnixListener::bind(&control).unwrap();
        let mesh_dev = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = BufReader::new(socket);
            let mut line = String::new();
            socket.read_line(&mut line).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            line
        });
        let (found, body) = ask(Some(control), page(KILL)).await;
        assert_eq!((found, body.get("error").unwrap_or(&body)), (status, &part));
        assert_eq!(mesh_dev.await.unwrap(), format!("{KILL}\n"));
    }
}

/// Returns the path of a control socket that nothing serves: an accepted request gets 502.
fn gone() -> Option<PathBuf> {
    Some(std::env::temp_dir().join("no-such-socket"))
}

#[tokio::test]
async fn request_of_another_page_or_machine_is_refused() {
    assert_eq!(ask(gone(), page(KILL)).await.0, 502);
    let elsewhere = "192.0.2.1:5000".parse::<SocketAddr>().unwrap();
    let foreign = [
        changed(|request| drop(request.headers_mut().remove(MARK))),
        changed(|request| _ = request.extensions_mut().insert(ConnectInfo(elsewhere))),
        with([(ORIGIN, "http://evil.example")]),
        with([(ORIGIN, "null")]),
        with([(HOST, "evil.example:8080"), (ORIGIN, "http://evil.example:8080")]),
    ];
    for request in foreign {
        assert_eq!(ask(gone(), request).await.0, 403);
    }
    for name in ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "via"] {
        let forwarded = with([(HeaderName::from_static(name), "1.1 a")]);
        assert_eq!(ask(gone(), forwarded).await.0, 403, "{name}");
    }
    for method in [http::Method::GET, http::Method::OPTIONS] {
        assert_eq!(ask(gone(), changed(|request| *request.method_mut() = method)).await.0, 405);
    }
}

#[tokio::test]
async fn unknown_button_is_refused() {
    for body in [
        r#"{"command":"down"}"#,
        r#"{"command":"kill","id":"balancer-0"}"#,
        r#"{"command":"scale","nodes":0}"#,
        r#"{"command":"scale","nodes":10}"#,
        r#"{"command":"kill","id":"node-1","more":1}"#,
        "",
    ] {
        assert_eq!(ask(gone(), page(body)).await.0, 400, "{body}");
    }
    assert_eq!(ask(gone(), page(&"x".repeat(MAX_REQUEST_BYTES + 1))).await.0, 413);
}

#[tokio::test]
async fn status_without_mesh_dev_has_no_servers() {
    for control in [None, gone()] {
        let status = ask(control, page(r#"{"command":"status"}"#)).await;
        assert_eq!(status, (200, json!({ "servers": null })));
    }
    assert_eq!(ask(None, page(KILL)).await.0, 403);
}
