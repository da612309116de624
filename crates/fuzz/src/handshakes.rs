//! Heads of requests: what may be upgraded, and what a query says; and what proxies in front say of whose they are.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use signaling_edge::handshake::{self, SUBPROTOCOL};
use signaling_edge::shell::fuzzing;
use signaling_protocol::limits;

/// Lines: the first is the query, the others are headers. As a parser of HTTP would hand them on. Or a PROXY header of version 2.
pub fn handshakes(data: &[u8]) {
    if let Some((client, length)) = fuzzing::proxy_header(data) {
        assert_eq!(client.ip(), client.ip().to_canonical());
        assert_eq!(fuzzing::proxy_header(&data[..length]), Some((client, length)), "what follows it changes nothing");
        return;
    }
    let mut lines = data.split(|byte| *byte == b'\n');
    let query = lines.next().unwrap_or_default();
    if let Ok(query) = std::str::from_utf8(query)
        && let Some((client_id, rest)) = fuzzing::query(query)
    {
        assert!(!client_id.as_str().is_empty() && client_id.as_str().len() <= 128);
        assert!(rest.len() <= query.len() && query.len() <= limits::MAX_QUERY_BYTES);
        assert!(rest.split('&').all(|pair| !pair.starts_with("token=") && !pair.starts_with("resume=")), "{rest}");
    }
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(&value[1..])) {
            headers.append(name, value);
        }
    }
    let client = fuzzing::address(&headers);
    assert_eq!(client, client.to_canonical());
    match handshake::check(&Method::GET, Version::HTTP_11, &headers) {
        Ok(accept) => {
            let count = |name: &str| headers.get_all(name).iter().count();
            assert!(count("host") == 1 && count("sec-websocket-key") == 1 && count("sec-websocket-version") == 1);
            assert!(count("content-length") == 0 && count("transfer-encoding") == 0);
            assert_eq!(accept.key_accept.len(), 28);
            assert!(HeaderValue::from_str(&accept.key_accept).is_ok());
            let offers = headers.get_all("sec-websocket-protocol").iter().any(|value| {
                value.to_str().is_ok_and(|value| value.split(',').any(|offer| offer.trim() == SUBPROTOCOL))
            });
            assert_eq!(accept.signaling_v1, offers);
            assert!([&accept.bearer, &accept.resume].into_iter().flatten().all(|token| !token.is_empty()));
            assert!(
                !format!("{accept:?}")
                    .contains(accept.bearer.as_deref().filter(|token| token.len() > 40).unwrap_or("\0"))
            );
        }
        Err(refused) => assert!(refused.status.is_client_error() && !refused.message.is_empty()),
    }
}
