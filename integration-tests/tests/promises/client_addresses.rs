//! Limits by address count clients by their own addresses, also behind a front proxy, and clients
//! cannot forge one.

use signaling_integration_tests::{Head, TestMesh, ask_on, ask_to_the_end, connect_from};

#[tokio::test]
async fn client_address_is_read_from_trusted_proxies_only() {
    let flags = |source: &str| format!("--client-address={source}:127.0.0.2/32,10.0.0.0/8");
    let forwarded = TestMesh::with_servers((1, 1), &[], &["--max-per-address=1", &flags("x-forwarded-for")]).await;
    let status = async |mesh: &TestMesh, from: [u8; 4], front: &[u8], id: &str, client: &str| {
        let head = Head::connect(id).with("X-Forwarded-For", client).to_string();
        let stream = connect_from(from, &mesh.url()).await;
        let (answer, stream) = ask_on(stream, &[front, head.as_bytes()].concat()).await;
        (answer.status, stream)
    };
    let proxy = [127, 0, 0, 2];
    let (first, _one) = status(&forwarded, proxy, b"", "a", "192.0.2.1").await;
    let (other, _two) = status(&forwarded, proxy, b"", "b", "198.51.100.1, 192.0.2.2, 10.1.1.1").await;
    let (again, _) = status(&forwarded, proxy, b"", "c", "203.0.113.7, 192.0.2.2").await;
    assert_eq!((first, other, again), (101, 101, 429), "the nearest that is no proxy counts");
    let (stranger, _three) = status(&forwarded, [127, 0, 0, 3], b"", "d", "192.0.2.9").await;
    let (forger, _) = status(&forwarded, [127, 0, 0, 3], b"", "e", "192.0.2.10").await;
    assert_eq!((stranger, forger), (101, 429), "the address of a stranger counts");

    let proxied = TestMesh::with_servers((1, 1), &[], &["--max-per-address=1", &flags("proxy-v2")]).await;
    let front = |last: u8| {
        let ends = [192, 0, 2, last, 10, 0, 0, 1, 0x12, 0x34, 0, 80];
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &ends].concat()
    };
    let (first, _one) = status(&proxied, proxy, &front(1), "a", "").await;
    let (other, _two) = status(&proxied, proxy, &front(2), "b", "").await;
    let (again, _) = status(&proxied, proxy, &front(2), "c", "").await;
    assert_eq!((first, other, again), (101, 101, 429));
    let (forger, _) = status(&proxied, [127, 0, 0, 3], &front(9), "d", "").await;
    assert_eq!(forger, 400, "from a stranger it is no HTTP");
    let bare = connect_from(proxy, &proxied.url()).await;
    let (answer, _) = ask_to_the_end(bare, Head::connect("e").to_string().as_bytes()).await;
    assert!(answer.is_empty(), "a trusted proxy must name the client");
    assert_eq!(proxied.refused_connects("proxy_header").await, 1.0);
}
