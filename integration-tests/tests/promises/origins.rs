//! Browsers may connect only from pages of listed origins, and other pages can read the reason of
//! the refusal.

use signaling_integration_tests::{Head, RawSocket, TestMesh, ask, metric, refused};

const LISTED: &str = "https://app.example";

#[tokio::test]
async fn page_may_connect_when_its_origin_is_listed() {
    let apps = "capacitor://localhost,https://*.preview.example";
    let flag = format!("--allowed-origins={LISTED},http://localhost:3000,{apps}");
    let mesh = TestMesh::with_servers((1, 1), &[], &[&flag]).await;
    let internal = mesh.balancer_internal();
    let others = "https://evilapp.example https://app.example.evil.example http://app.example https://app.example:8443 \
        ionic://localhost https://preview.example null";
    for (count, origin) in (1..).zip(others.split(' ')) {
        let head = Head::connect("alice").with("Origin", origin);
        let answer = refused(&mesh.address(), &head, (403, "origin_not_allowed")).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
        let mut socket = RawSocket::open(&mesh.address(), &head.offer("signaling.v1")).await;
        assert_eq!(socket.closed().await.0, 4403, "{origin}");
        let counted = metric(&internal, "signaling_auth_failures_total", "reason=\"origin\"").await;
        assert_eq!(counted, f64::from(count * 2));
    }
    let twice = Head::connect("alice").with("Origin", LISTED).with("Origin", LISTED);
    assert_eq!(ask(&mesh.address(), twice).await.status, 403);
    let listed = [LISTED, "capacitor://localhost", "https://pr-7.preview.example"];
    let of_page = |(id, origin): (&str, &str)| Head::connect(id).with("Origin", origin);
    for head in ["alice", "carol", "dave"].into_iter().zip(listed).map(of_page).chain([Head::connect("bob")]) {
        let mut socket = RawSocket::open(&mesh.address(), &head).await;
        assert_eq!(socket.message().await["type"], "welcome", "a listed origin, and no browser at all");
    }
}

#[tokio::test]
async fn listed_page_may_read_its_refusal() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[&format!("--allowed-origins={LISTED}")]).await;
    let answer = ask(&mesh.address(), Head::get("/v1/connect?client_id=alice").with("Origin", LISTED)).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (426, Some(LISTED)));
    assert_eq!(answer.header("vary"), Some("origin"));
    let preflight = |origin: &str| {
        let head = Head::get("/v1/connect?client_id=alice").method("OPTIONS").with("Origin", origin);
        head.with("Access-Control-Request-Method", "GET").with("Connection", "close").to_string()
    };
    let answer = ask(&mesh.address(), preflight(LISTED)).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some(LISTED)));
    assert_eq!(answer.header("access-control-allow-headers"), Some("authorization"));
    let answer = ask(&mesh.address(), preflight("https://evil.example")).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
