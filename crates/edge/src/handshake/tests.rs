use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// RFC 6455 section 1.3, key and answer.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const KEY_ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[test]
fn example_of_the_rfc_is_accepted() {
    let accept = checked(&upgrade()).unwrap();
    assert_eq!(accept.key_accept, KEY_ACCEPT);
    assert!(!accept.signaling_v1);
    assert_eq!((accept.bearer, accept.resume), (None, None));
}

#[test]
fn header_lists_are_read_in_any_case_and_over_lines() {
    let mut headers = upgrade();
    headers.insert("connection", HeaderValue::from_static("keep-alive, UPGRADE"));
    headers.insert("upgrade", HeaderValue::from_static("h2c"));
    headers.append("upgrade", HeaderValue::from_static("WebSocket"));
    assert!(checked(&headers).is_ok());
}

#[test]
fn method_other_than_get_is_refused_with_405() {
    for method in [Method::POST, Method::HEAD, Method::OPTIONS, Method::CONNECT] {
        let refused = check(&method, Version::HTTP_11, &upgrade()).unwrap_err();
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers, [("allow", "GET")]);
    }
}

#[test]
fn request_that_opens_no_websocket_is_refused_with_426() {
    let refused = check(&Method::GET, Version::HTTP_10, &upgrade()).unwrap_err();
    assert_eq!(refused.status, StatusCode::UPGRADE_REQUIRED);
    let versions =
        [None, Some("8"), Some("13, 8"), Some("013"), Some("")].map(|value| ("sec-websocket-version", value));
    let upgrades = [("upgrade", None), ("upgrade", Some("h2c")), ("connection", None), ("connection", Some("close"))];
    for (name, value) in upgrades.into_iter().chain(versions) {
        let refused = checked(&with(name, value)).unwrap_err();
        assert_eq!(refused.status, StatusCode::UPGRADE_REQUIRED, "{name}: {value:?}");
        let names_version = refused.headers.contains(&("sec-websocket-version", "13"));
        assert_eq!(names_version, name == "sec-websocket-version", "{name}: {value:?}");
        assert!(refused.headers.contains(&("upgrade", "websocket")));
    }
}

#[test]
fn malformed_request_is_refused_with_400() {
    let keys = [None, Some(""), Some("c2hvcnQ="), Some("dGhlIHNhbXBsZSBub25jZQ"), Some("!!!!IHNhbXBsZSBub25jZQ==")];
    let bodies = [("content-length", Some("0")), ("content-length", Some("5")), ("transfer-encoding", Some("chunked"))];
    let hosts = [("host", None), ("host", Some(""))];
    for (name, value) in keys.map(|key| ("sec-websocket-key", key)).into_iter().chain(bodies).chain(hosts) {
        assert_bad_request(&with(name, value));
    }
    for (name, value) in [("sec-websocket-key", KEY), ("host", "mesh.example"), ("host", "b.example")] {
        assert_bad_request(&doubled(name, value));
    }
    let mut both = with("content-length", Some("5"));
    both.append("content-length", HeaderValue::from_static("6"));
    assert_bad_request(&both);
    both.insert("transfer-encoding", HeaderValue::from_static("chunked"));
    assert_bad_request(&both);
}

#[test]
fn subprotocol_offers_are_read_from_all_lines() {
    let mut headers = with("sec-websocket-protocol", Some("graphql-ws,signaling.v1 ,  bearer.a.b-c_d"));
    headers.append("sec-websocket-protocol", HeaderValue::from_static("resume.r1"));
    let accept = checked(&headers).unwrap();
    assert!(accept.signaling_v1);
    assert_eq!(accept.bearer, Some(PresentedToken("a.b-c_d".into())));
    assert_eq!(accept.resume, Some(PresentedToken("r1".into())));
}

#[test]
fn unknown_subprotocols_are_ignored() {
    let accept = checked(&with("sec-websocket-protocol", Some("chat, signaling.v2, Signaling.v1"))).unwrap();
    assert!(!accept.signaling_v1);
}

#[test]
fn empty_or_doubled_token_is_refused_with_400() {
    for offers in ["bearer.", "resume.", "bearer.a, bearer.a", "resume.a, signaling.v1, resume.b"] {
        assert_bad_request(&with("sec-websocket-protocol", Some(offers)));
    }
}

#[test]
fn tokens_are_masked_in_debug_output() {
    let accept = checked(&with("sec-websocket-protocol", Some("bearer.secret1, resume.secret2"))).unwrap();
    assert!(!format!("{accept:?}").contains("secret"));
}

proptest! {
    #[test]
    fn accepted_request_meets_the_rules_with_any_header(
        name in prop::sample::select(vec!["host", "upgrade", "content-length", "sec-websocket-key", "sec-websocket-protocol"]),
        value in "((bearer|resume|signaling)[.]|v1|, ?|[ -~]){0,9}",
    ) {
        let mut headers = upgrade();
        headers.append(name, HeaderValue::from_str(&value).unwrap());
        let Ok(accept) = checked(&headers) else { return Ok(()) };
        prop_assert!(!["host", "content-length", "sec-websocket-key"].contains(&name));
        prop_assert_eq!(&accept.key_accept, KEY_ACCEPT);
        let offers: Vec<_> = value.split(',').map(str::trim).filter(|_| name == "sec-websocket-protocol").collect();
        prop_assert_eq!(accept.signaling_v1, offers.contains(&SUBPROTOCOL));
        for (token, prefix) in [(accept.bearer, BEARER), (accept.resume, RESUME)] {
            let offered: Vec<_> = offers.iter().filter_map(|offer| offer.strip_prefix(prefix)).collect();
            prop_assert_eq!(token.iter().map(|token| &*token.0).collect::<Vec<_>>(), offered);
        }
    }
}

fn checked(headers: &HeaderMap) -> Result<Accept, Refused> {
    check(&Method::GET, Version::HTTP_11, headers)
}

fn assert_bad_request(headers: &HeaderMap) {
    let refused = checked(headers).unwrap_err();
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{headers:?}");
}

fn upgrade() -> HeaderMap {
    [
        ("host", "mesh.example"),
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", KEY),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .collect()
}

/// A valid upgrade request, except that header `name` has `value` or is missing.
fn with(name: &'static str, value: Option<&'static str>) -> HeaderMap {
    let mut headers = upgrade();
    match value {
        Some(value) => headers.insert(name, HeaderValue::from_static(value)),
        None => headers.remove(name),
    };
    headers
}

/// A valid upgrade request with one more header `name`.
fn doubled(name: &'static str, value: &'static str) -> HeaderMap {
    let mut headers = upgrade();
    headers.append(name, HeaderValue::from_static(value));
    headers
}
