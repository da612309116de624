use axum::body::{Body, to_bytes};
use http::{HeaderValue, Request};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;
use tower::ServiceExt as _;

use super::*;

const HERE: &str = "127.0.0.1:5000";
const KILL: &str = r#"{"command":"kill","id":"node-1"}"#;

/// Returns a request as the page sends it.
fn page(body: &str) -> Request<Body> {
    let mut request = Request::post(PATH)
        .header(HOST, "127.0.0.1:8080")
        .header(ORIGIN, "http://127.0.0.1:8080")
        .header(MARK, "1")
        .body(Body::from(body.to_owned()))
        .unwrap();
    request.extensions_mut().insert(ConnectInfo(HERE.parse::<SocketAddr>().unwrap()));
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

/// A `mesh-dev` that gives each request one fixed answer and records the requests.
struct MeshDev {
    dir: tempfile::TempDir,
    asked: tokio::task::JoinHandle<String>,
}

impl MeshDev {
    fn with_answer(answer: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("control.sock")).unwrap();
        let asked = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = BufReader::new(socket);
            let mut line = String::new();
            socket.read_line(&mut line).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            line
        });
        Self { dir, asked }
    }

    async fn ask(&self, request: Request<Body>) -> (u16, Value) {
        ask_of(Some(self.dir.path().join("control.sock")), request).await
    }
}

async fn ask_of(control: Option<PathBuf>, request: Request<Body>) -> (u16, Value) {
    let response = router(control).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn button_request_reaches_mesh_dev() {
    let mesh = MeshDev::with_answer("{\"result\":\"done\"}\n");
    assert_eq!(mesh.ask(page(KILL)).await, (200, json!({ "result": "done" })));
    assert_eq!(mesh.asked.await.unwrap(), format!("{KILL}\n"));
}

#[tokio::test]
async fn refusal_of_mesh_dev_reaches_the_page() {
    let mesh = MeshDev::with_answer(r#"{"result":"failed","message":"cannot kill node-1: it is down"}"#);
    let (status, body) = mesh.ask(page(KILL)).await;
    assert_eq!((status, &body["error"]["message"]), (409, &json!("cannot kill node-1: it is down")));
}

#[tokio::test]
async fn request_of_another_page_or_machine_is_refused() {
    let mesh = MeshDev::with_answer("{}");
    let elsewhere = "192.0.2.1:5000".parse::<SocketAddr>().unwrap();
    let foreign = [
        changed(|request| drop(request.headers_mut().remove(MARK))),
        changed(|request| {
            request.extensions_mut().insert(ConnectInfo(elsewhere));
        }),
        with([(ORIGIN, "http://evil.example")]),
        with([(ORIGIN, "null")]),
        with([(HOST, "evil.example:8080"), (ORIGIN, "http://evil.example:8080")]),
    ];
    for request in foreign {
        assert_eq!(mesh.ask(request).await.0, 403);
    }
    for name in ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "via"] {
        let forwarded = with([(HeaderName::from_static(name), "1.1 a")]);
        assert_eq!(mesh.ask(forwarded).await.0, 403, "{name}");
    }
    for method in [http::Method::GET, http::Method::OPTIONS] {
        assert_eq!(mesh.ask(changed(|request| *request.method_mut() = method)).await.0, 405);
    }
    assert!(!mesh.asked.is_finished());
}

#[tokio::test]
async fn unknown_button_is_refused() {
    let mesh = MeshDev::with_answer("{}");
    for body in [
        r#"{"command":"down"}"#,
        r#"{"command":"kill","id":"balancer-0"}"#,
        r#"{"command":"scale","nodes":0}"#,
        r#"{"command":"scale","nodes":10}"#,
        r#"{"command":"kill","id":"node-1","more":1}"#,
        "",
    ] {
        assert_eq!(mesh.ask(page(body)).await.0, 400, "{body}");
    }
    assert_eq!(mesh.ask(page(&"x".repeat(MAX_REQUEST_BYTES + 1))).await.0, 413);
    assert!(!mesh.asked.is_finished());
}

#[tokio::test]
async fn status_without_mesh_dev_has_no_servers() {
    let gone = std::env::temp_dir().join("no-such-socket");
    for (control, refusal) in [(None, 403), (Some(gone), 502)] {
        let status = ask_of(control.clone(), page(r#"{"command":"status"}"#)).await;
        assert_eq!(status, (200, json!({ "servers": null })));
        assert_eq!(ask_of(control, page(KILL)).await.0, refusal);
    }
}
